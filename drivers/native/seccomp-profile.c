/*
 * DOC: theory of operation
 *
 * parse() reads the JSON strictly: a key that is not known is refused, since what it would have changed is
 * not known either. What it keeps is a flat list of (call, action, conditions); libseccomp makes the program,
 * with the meaning that users of container engines know.
 *
 * Direction matters for names that nobody knows: one that the profile would allow stays refused and is
 * counted; one that it would refuse while everything else is allowed is an error.
 */
#include "drivers/native/seccomp-profile.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"

enum { ERRNO_MAX = 4095, ERRNO_NAMED = 134 };

/* of the machine this was compiled for */
static const struct {
        const char *scmp, *name;
} machine[] = {
        [SECCOMP_X86_64] = { "SCMP_ARCH_X86_64", "amd64" },
        [SECCOMP_AARCH64] = { "SCMP_ARCH_AARCH64", "arm64" },
};

/** struct reader - a profile while it is read */
struct reader {
        struct profile *profile;
        struct error *err;
        uint32_t default_errno;
        char where[48]; /* "syscalls[3]" */
};

static int refuse(const struct reader *r, int code, const char *key, const char *why, const char *value) {
        return error_set(r->err, code, "%s%s%s: %s%s%s%s", r->where, *r->where && *key ? "." : "", key, why,
                         value ? " '" : "", value ? ESC(value) : "", value ? "'" : "");
}

/* Every key of @obj is one of @known, a list that ends with NULL. */
static int only_keys(const struct reader *r, json_t *obj, const char *const *known) {
        const char *key;
        json_t *value;

        json_object_foreach(obj, key, value) {
                size_t i = 0;

                while (known[i] && strcmp(known[i], key) != 0)
                        i++;
                if (!known[i])
                        return refuse(r, -ENOTSUP, "", "this program does not know the key", key);
        }
        return 0;
}

static bool is_absent(const json_t *value) {
        return !value || json_is_null(value);
}

static int get_number(const struct reader *r, const char *key, const json_t *value, json_int_t max,
                      uint64_t *ret) {
        if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) > max)
                return refuse(r, -EINVAL, key, "must be a number that is not negative and fits", NULL);
        *ret = (uint64_t) json_integer_value(value);
        return 0;
}

/* "EPERM", as some files say beside or instead of the number */
static int errno_named(const char *name) {
        for (int e = 1; e < ERRNO_NAMED; e++)
                if (strerrorname_np(e) && strcmp(strerrorname_np(e), name) == 0)
                        return e;
        return 0;
}

/* @number and @name: the keys of the two ways to say it; @ret keeps its value when neither is there */
static int get_errno(const struct reader *r, const json_t *obj, const char *number, const char *name,
                     uint32_t *ret) {
        const json_t *n = json_object_get(obj, number), *s = json_object_get(obj, name);
        uint64_t value;
        int e;

        if (!is_absent(s) && (!json_is_string(s) || (e = errno_named(json_string_value(s))) == 0))
                return refuse(r, -EINVAL, name, "must be the name of an error such as \"EPERM\"", NULL);
        if (!is_absent(s))
                *ret = (uint32_t) e;
        if (is_absent(n))
                return 0;
        e = get_number(r, number, n, ERRNO_MAX, &value);
        if (e == 0)
                *ret = (uint32_t) value;
        return e;
}

static int get_action(const struct reader *r, const char *key, const json_t *value, uint32_t error,
                      uint32_t *ret) {
        static const struct {
                const char *name;
                uint32_t action;
        } actions[] = {
                { "SCMP_ACT_ALLOW", SCMP_ACT_ALLOW },
                { "SCMP_ACT_LOG", SCMP_ACT_LOG },
                { "SCMP_ACT_TRAP", SCMP_ACT_TRAP },
                { "SCMP_ACT_KILL", SCMP_ACT_KILL_THREAD },
                { "SCMP_ACT_KILL_THREAD", SCMP_ACT_KILL_THREAD },
                { "SCMP_ACT_KILL_PROCESS", SCMP_ACT_KILL_PROCESS },
        };
        const char *name = json_string_value(value);

        if (!name)
                return refuse(r, -EINVAL, key, "must be an action such as \"SCMP_ACT_ERRNO\"", NULL);
        if (strcmp(name, "SCMP_ACT_ERRNO") == 0) {
                *ret = SCMP_ACT_ERRNO(error);
                return 0;
        }
        for (size_t i = 0; i < ARRAY_SIZE(actions); i++)
                if (strcmp(name, actions[i].name) == 0) {
                        *ret = actions[i].action;
                        return 0;
                }
        return refuse(r, -ENOTSUP, key, "there is no listener or tracer for the action", name);
}

static int get_arg(const struct reader *r, json_t *obj, struct scmp_arg_cmp *ret) {
        static const char *const keys[] = { "index", "value", "valueTwo", "op", NULL };
        static const struct {
                const char *name;
                enum scmp_compare op;
        } ops[] = {
                { "SCMP_CMP_NE", SCMP_CMP_NE },
                { "SCMP_CMP_LT", SCMP_CMP_LT },
                { "SCMP_CMP_LE", SCMP_CMP_LE },
                { "SCMP_CMP_EQ", SCMP_CMP_EQ },
                { "SCMP_CMP_GE", SCMP_CMP_GE },
                { "SCMP_CMP_GT", SCMP_CMP_GT },
                { "SCMP_CMP_MASKED_EQ", SCMP_CMP_MASKED_EQ },
        };
        const json_t *two = json_object_get(obj, "valueTwo");
        const char *op = json_string_value(json_object_get(obj, "op"));
        uint64_t index, a, b = 0;
        int e;

        if (!json_is_object(obj))
                return refuse(r, -EINVAL, "args", "must be a list of conditions", NULL);
        e = only_keys(r, obj, keys);
        if (e == 0)
                e = get_number(r, "args.index", json_object_get(obj, "index"), PROFILE_ARGS_MAX - 1, &index);
        if (e == 0)
                e = get_number(r, "args.value", json_object_get(obj, "value"), INT64_MAX, &a);
        if (e == 0 && !is_absent(two))
                e = get_number(r, "args.valueTwo", two, INT64_MAX, &b);
        if (e < 0)
                return e;
        for (size_t i = 0; op && i < ARRAY_SIZE(ops); i++)
                if (strcmp(op, ops[i].name) == 0) {
                        *ret = (struct scmp_arg_cmp){ (unsigned int) index, ops[i].op, a, b };
                        return 0;
                }
        return refuse(r, -ENOTSUP, "args.op", "must be one of SCMP_CMP_NE, LT, LE, EQ, GE, GT, MASKED_EQ",
                      op);
}

static int get_args(const struct reader *r, const json_t *list, struct profile_call *ret) {
        size_t i;
        json_t *item;

        if (is_absent(list))
                return 0;
        if (!json_is_array(list))
                return refuse(r, -EINVAL, "args", "must be a list of conditions", NULL);
        if (json_array_size(list) > PROFILE_ARGS_MAX)
                return refuse(r, -ENOTSUP, "args", "an argument can have one condition", NULL);
        json_array_foreach(list, i, item) {
                const int e = get_arg(r, item, &ret->args[i]);

                if (e < 0)
                        return e;
                for (size_t k = 0; k < i; k++)
                        if (ret->args[k].arg == ret->args[i].arg)
                                return refuse(r, -ENOTSUP, "args", "an argument can have one condition",
                                              NULL);
        }
        ret->n_args = (unsigned int) i;
        return 0;
}

/* ---- whom an entry is for ---- */

static int list_has(const struct reader *r, const char *key, const json_t *list, const char *word,
                    bool *ret) {
        size_t i;
        json_t *item;

        *ret = false;
        if (!is_absent(list) && !json_is_array(list))
                return refuse(r, -EINVAL, key, "must be a list of names", NULL);
        json_array_foreach(list, i, item) {
                if (!json_is_string(item))
                        return refuse(r, -EINVAL, key, "must be a list of names", NULL);
                *ret = *ret || (word && strcmp(json_string_value(item), word) == 0);
        }
        return 0;
}

/* "4.8" of "4.8", "6.18" of "6.18.44-1": @ret is 4 << 32 | 8. Return: whether there is one. */
static bool version_of(const char *text, bool whole, uint64_t *ret) {
        static const char digits[] = "0123456789";
        const size_t n = strspn(text, digits), m = text[n] == '.' ? strspn(text + n + 1, digits) : 0;
        uint64_t major = 0, minor = 0;

        if (n == 0 || n > 4 || m == 0 || m > 4 || (whole && text[n + 1 + m]))
                return false;
        for (size_t i = 0; i < n; i++)
                major = major * 10 + (uint64_t) (text[i] - '0');
        for (size_t i = n + 1; i < n + 1 + m; i++)
                minor = minor * 10 + (uint64_t) (text[i] - '0');
        *ret = major << 32 | minor;
        return true;
}

/* "4.8": whether the kernel is at least that */
static int kernel_at_least(const struct reader *r, const json_t *value, bool *ret) {
        const char *text = json_string_value(value);
        struct utsname u;
        uint64_t want, have;

        if (!text || !version_of(text, true, &want) || uname(&u) < 0 || !version_of(u.release, false, &have))
                return refuse(r, -EINVAL, "minKernel", "must be a version such as \"4.8\"", NULL);
        *ret = have >= want;
        return 0;
}

/* Whether @obj, of includes or of excludes, speaks of this process. An empty one speaks of @all. */
static int speaks_of_us(const struct reader *r, const char *key, json_t *obj, bool include, bool *ret) {
        static const char *const keys[] = { "caps", "arches", "minKernel", NULL };
        const json_t *caps = json_object_get(obj, "caps"), *arches = json_object_get(obj, "arches");
        const json_t *kernel = json_object_get(obj, "minKernel");
        bool ours, new_enough = include, none;
        int e;

        *ret = include;
        if (is_absent(obj))
                return 0;
        if (!json_is_object(obj))
                return refuse(r, -EINVAL, key, "must be an object", NULL);
        e = only_keys(r, obj, keys);
        if (e == 0)
                e = list_has(r, key, caps, NULL,
                             &none); /* the work has no capability: nobody's name is ours */
        if (e == 0)
                e = list_has(r, key, arches, machine[SECCOMP_HOST].name, &ours);
        if (e == 0 && !is_absent(kernel))
                e = kernel_at_least(r, kernel, &new_enough);
        if (e < 0)
                return e;
        if (include)
                *ret = json_array_size(caps) == 0 && (json_array_size(arches) == 0 || ours) && new_enough;
        else
                *ret = ours || new_enough;
        return 0;
}

/* ---- entries ---- */

static bool lets_pass(uint32_t action) {
        return action == SCMP_ACT_ALLOW || action == SCMP_ACT_LOG;
}

static const struct seccomp_rule *rule_named(const char *name) {
        for (size_t i = 0; i < n_seccomp_rules; i++)
                if (strcmp(seccomp_rules[i].name, name) == 0)
                        return &seccomp_rules[i];
        return NULL;
}

static int add_name(const struct reader *r, const struct profile_call *entry, const char *name) {
        struct profile *p = r->profile;
        const struct seccomp_rule *rule = rule_named(name);

        if (!rule || rule->nr[SECCOMP_HOST] == SECCOMP_NO_NR) {
                /* other machines' calls are known to libseccomp below -1 */
                if (!rule && !lets_pass(entry->action) && lets_pass(p->action) &&
                    seccomp_syscall_resolve_name(name) == __NR_SCMP_ERROR)
                        return refuse(r, -ENOTSUP, "names", "nobody knows the system call to refuse", name);
                p->n_skipped++;
                return 0;
        }
        if (p->n_calls == PROFILE_CALLS_MAX)
                return refuse(r, -E2BIG, "names", "more than 4096 names in one profile", NULL);
        p->calls[p->n_calls] = *entry;
        p->calls[p->n_calls++].rule = rule;
        return 0;
}

static int add_names(const struct reader *r, const struct profile_call *entry, const json_t *one,
                     const json_t *list) {
        size_t i;
        json_t *name;

        if (json_is_string(one) && is_absent(list))
                return add_name(r, entry, json_string_value(one));
        if (!is_absent(one) || !json_is_array(list))
                return refuse(r, -EINVAL, "names", "must be a list of system calls", NULL);
        json_array_foreach(list, i, name) {
                const int e = json_is_string(name)
                                      ? add_name(r, entry, json_string_value(name))
                                      : refuse(r, -EINVAL, "names", "must be a list of system calls", NULL);

                if (e < 0)
                        return e;
        }
        return 0;
}

static int add_entry(const struct reader *r, json_t *obj) {
        static const char *const keys[] = { "name",     "names",    "action",   "args",  "comment",
                                            "includes", "excludes", "errnoRet", "errno", NULL };
        struct profile_call entry = { 0 };
        uint32_t error = r->default_errno;
        bool included = true, excluded = false;
        int e;

        if (!json_is_object(obj))
                return refuse(r, -EINVAL, "", "must be an object", NULL);
        e = only_keys(r, obj, keys);
        if (e == 0)
                e = get_errno(r, obj, "errnoRet", "errno", &error);
        if (e == 0)
                e = get_action(r, "action", json_object_get(obj, "action"), error, &entry.action);
        if (e == 0)
                e = get_args(r, json_object_get(obj, "args"), &entry);
        if (e == 0)
                e = speaks_of_us(r, "includes", json_object_get(obj, "includes"), true, &included);
        if (e == 0)
                e = speaks_of_us(r, "excludes", json_object_get(obj, "excludes"), false, &excluded);
        if (e < 0 || !included || excluded)
                return e;
        return add_names(r, &entry, json_object_get(obj, "name"), json_object_get(obj, "names"));
}

static int check_machine(const struct reader *r, const json_t *root) {
        const json_t *list = json_object_get(root, "architectures");
        bool ours;
        int e;

        e = list_has(r, "architectures", list, machine[SECCOMP_HOST].scmp, &ours);
        if (e == 0 && json_array_size(list) > 0 && !ours)
                return refuse(r, -ENOTSUP, "architectures",
                              "this machine is not among them:", machine[SECCOMP_HOST].scmp);
        return e;
}

static int read_root(struct reader *r, json_t *root) {
        static const char *const keys[] = { "defaultAction", "defaultErrnoRet",
                                            "defaultErrno",  "architectures",
                                            "archMap",       "syscalls",
                                            "comment",       NULL };
        const json_t *list = json_object_get(root, "syscalls");
        size_t i;
        json_t *entry;
        int e;

        if (!json_is_object(root))
                return refuse(r, -EINVAL, "", "not a profile: must be an object", NULL);
        e = only_keys(r, root, keys);
        if (e == 0)
                e = get_errno(r, root, "defaultErrnoRet", "defaultErrno", &r->default_errno);
        if (e == 0)
                e = get_action(r, "defaultAction", json_object_get(root, "defaultAction"), r->default_errno,
                               &r->profile->action);
        if (e == 0)
                e = check_machine(r, root);
        if (e == 0 && !is_absent(list) && !json_is_array(list))
                e = refuse(r, -EINVAL, "syscalls", "must be a list", NULL);
        if (e < 0)
                return e;
        r->default_errno = EPERM; /* an entry without one of its own, as the OCI's runtimes have it */
        json_array_foreach(list, i, entry) {
                (void) snprintf(r->where, sizeof(r->where), "syscalls[%zu]", i);
                e = add_entry(r, entry);
                if (e < 0)
                        return e;
        }
        return 0;
}

int profile_parse(const char *data, size_t len, struct profile *ret, struct error *err) {
        AUTO_PROFILE struct profile profile = { 0 };
        struct reader r = { .profile = &profile, .err = err, .default_errno = EPERM };
        AUTO_JSON json_t *root = NULL;
        json_error_t why;
        int e;

        root = json_loadb(data, len, JSON_REJECT_DUPLICATES, &why);
        if (!root)
                return error_set(err, -EINVAL, "line %d: %s", why.line, ESC(why.text));
        profile.calls = calloc(PROFILE_CALLS_MAX, sizeof(*profile.calls));
        if (!profile.calls)
                return error_set(err, -ENOMEM, "out of memory");
        e = read_root(&r, root);
        if (e < 0)
                return e;
        *ret = profile;
        profile.calls = NULL;
        return 0;
}

int profile_read(const char *path, struct profile *ret, struct error *err) {
        AUTO_BUF struct buf text = { 0 };
        int r;

        r = file_read_at(AT_FDCWD, path, PROFILE_BYTES_MAX, &text);
        if (r < 0)
                return error_set(err, r, "security.seccomp: '%s': %s", ESC(path),
                                 r == -EFBIG    ? "more than 1 MiB"
                                 : r == -EINVAL ? "not a regular file"
                                                : strerror(-r));
        r = profile_parse(buf_cstr(&text), text.len, ret, err);
        return r < 0 ? error_wrap(err, r, "security.seccomp: '%s'", ESC(path)) : 0;
}

/* ---- the program ---- */

static int fill(scmp_filter_ctx ctx, const struct profile *p, struct error *err) {
        int r;

        r = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
        if (r == 0)
                r = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2); /* a search tree, not a list */
        if (r < 0)
                return error_set(err, r, "libseccomp: %s", strerror(-r));
        for (size_t i = 0; i < p->n_calls; i++) {
                const struct profile_call *c = &p->calls[i];

                if (c->action == p->action)
                        continue;
                r = seccomp_rule_add_array(ctx, c->action, c->rule->nr[SECCOMP_HOST], c->n_args, c->args);
                if (r < 0 && r != -EEXIST)
                        return error_set(err, r, "%s: %s", c->rule->name, strerror(-r));
        }
        return 0;
}

static int take_program(scmp_filter_ctx ctx, struct profile_program *ret) {
        AUTO_FD int fd = memfd_create("seccomp", MFD_CLOEXEC);
        AUTO_FREE struct sock_filter *insns = NULL;
        struct stat st;
        int r;

        if (fd < 0)
                return -errno;
        r = seccomp_export_bpf(ctx, fd);
        if (r < 0)
                return r;
        if (fstat(fd, &st) < 0)
                return -errno;
        if (st.st_size > BPF_MAXINSNS * (off_t) sizeof(*insns))
                return -E2BIG;
        insns = malloc((size_t) st.st_size);
        if (!insns)
                return -ENOMEM;
        if (pread(fd, insns, (size_t) st.st_size, 0) != st.st_size)
                return -EIO;
        ret->len = (size_t) st.st_size / sizeof(*insns);
        ret->insns = TAKE_PTR(insns);
        return 0;
}

int profile_compile(const struct profile *profile, struct profile_program *ret, struct error *err) {
        scmp_filter_ctx ctx = seccomp_init(profile->action);
        int r;

        if (!ctx)
                return error_set(err, -ENOMEM, "libseccomp does not start");
        r = fill(ctx, profile, err);
        if (r == 0) {
                r = take_program(ctx, ret);
                if (r < 0)
                        (void) error_set(err, r, "the filter cannot be made: %s", strerror(-r));
        }
        seccomp_release(ctx);
        return r;
}

static void action_text(uint32_t action, char *out, size_t cap) {
        const char *name = NULL;

        if ((action & 0xffff0000U) == SCMP_ACT_ERRNO(0)) {
                name = strerrorname_np((int) (action & 0xffff));
                (void) snprintf(out, cap, "%s", name ? name : "errno");
                return;
        }
        (void) snprintf(out, cap, "%s",
                        action == SCMP_ACT_ALLOW  ? "allow"
                        : action == SCMP_ACT_LOG  ? "allow, logged"
                        : action == SCMP_ACT_TRAP ? "SIGSYS"
                                                  : "kill");
}

void profile_answer(const struct profile *profile, const struct seccomp_rule *rule, char *out, size_t cap) {
        const struct profile_call *found = NULL;

        for (size_t i = 0; i < profile->n_calls; i++)
                if (profile->calls[i].rule == rule && (!found || found->n_args > 0))
                        found = &profile->calls[i];
        if (found && found->n_args > 0)
                (void) snprintf(out, cap, "by arguments");
        else
                action_text(found ? found->action : profile->action, out, cap);
}

void profile_deinit(struct profile *profile) {
        free(profile->calls);
        profile->calls = NULL;
        profile->n_calls = 0;
}

void profile_program_deinit(struct profile_program *program) {
        free(program->insns);
        *program = (struct profile_program){ 0 };
}
