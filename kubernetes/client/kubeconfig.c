/*
 * DOC: theory of operation
 *
 * Each file becomes a tree of libyaml's, in which aliases are references: nothing expands. The trees stay
 * beside each other, and a look-up goes through them in order, which is the merging of kubectl: the first
 * file that has an entry of that name wins. What the one context names is copied out, and the trees are
 * dropped.
 */
#include "kubernetes/client/kubeconfig.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdarg.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

#include "kubernetes/client/config.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"

/* --- owners ------------------------------------------------------------------------------------------------
 */

int kube_strings_add(struct kube_strings *list, const char *s) {
        char *copy;

        if (list->n >= KUBE_ARGS_MAX)
                return -E2BIG;
        copy = strdup(s);
        if (!copy)
                return -ENOMEM;
        list->v[list->n++] = copy;
        return 0;
}

void kube_strings_deinit(struct kube_strings *list) {
        for (size_t i = 0; i < list->n; i++)
                free(list->v[i]);
        list->n = 0;
}

static void forget(char *secret) {
        if (secret)
                OPENSSL_cleanse(secret, strlen(secret));
        free(secret);
}

static void forget_buf(struct buf *secret) {
        if (secret->data)
                OPENSSL_cleanse(secret->data, secret->len);
        buf_deinit(secret);
}

struct kube_config *kube_config_free(struct kube_config *config) {
        if (!config)
                return NULL;
        free(config->origin);
        free(config->server);
        free(config->tls_name);
        free(config->ns);
        free(config->proxy);
        buf_deinit(&config->ca);
        buf_deinit(&config->cert);
        forget_buf(&config->key);
        forget(config->token);
        free(config->token_file);
        free(config->user);
        forget(config->password);
        free(config->as);
        free(config->as_uid);
        kube_strings_deinit(&config->as_groups);
        free(config->plugin.command);
        free(config->plugin.api_version);
        free(config->plugin.hint);
        kube_strings_deinit(&config->plugin.args);
        kube_strings_deinit(&config->plugin.env);
        forget(config->plugin.token);
        buf_deinit(&config->plugin.cert);
        forget_buf(&config->plugin.key);
        free(config);
        return NULL;
}

const char *kube_config_namespace(const struct kube_config *config) {
        return config->ns ? config->ns : "default";
}

const char *kube_config_origin(const struct kube_config *config) {
        return config->origin;
}

const char *kube_config_server(const struct kube_config *config) {
        return config->server;
}

bool kube_config_in_cluster(const struct kube_config *config) {
        return config->in_cluster;
}

/* --- trees -------------------------------------------------------------------------------------------------
 */

struct tree {
        yaml_document_t doc;
        char *path; /* NULL: text that came without a file */
};

struct trees {
        struct tree v[KUBE_CONFIG_FILES_MAX];
        size_t n;
};

static void trees_deinit(struct trees *trees) {
        for (size_t i = 0; i < trees->n; i++) {
                yaml_document_delete(&trees->v[i].doc);
                free(trees->v[i].path);
        }
        trees->n = 0;
}
#define AUTO_TREES CLEANUP(trees_deinit)

/* struct place - a node, and what is needed to read it and to talk of it; @node NULL: not there */
struct place {
        struct tree *tree;
        yaml_node_t *node;
};

static const char *place_file(struct place p) {
        return p.tree->path ? p.tree->path : "kubeconfig";
}

static unsigned long place_line(struct place p) {
        return p.node ? (unsigned long) p.node->start_mark.line + 1 : 0;
}

static int complain(struct place p, struct error *err, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));
static int complain(struct place p, struct error *err, const char *fmt, ...) {
        char what[ERROR_MSG_MAX / 2];
        va_list args;

        va_start(args, fmt);
        (void) vsnprintf(what, sizeof(what), fmt, args);
        va_end(args);
        return error_set(err, -EINVAL, "'%s' line %lu: %s", ESC(place_file(p)), place_line(p), what);
}

/* The scalar at @p without NUL bytes; NULL: none, or null. Borrowed. */
static const char *scalar(struct place p) {
        const char *s;

        if (!p.node || p.node->type != YAML_SCALAR_NODE)
                return NULL;
        s = (const char *) p.node->data.scalar.value;
        if (strlen(s) != p.node->data.scalar.length)
                return NULL;
        if (p.node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
            (strcmp(s, "") == 0 || strcmp(s, "~") == 0 || strcmp(s, "null") == 0))
                return NULL;
        return s;
}

static struct place member(struct place p, const char *key) {
        struct place found = { .tree = p.tree };

        if (!p.node || p.node->type != YAML_MAPPING_NODE)
                return found;
        for (yaml_node_pair_t *pair = p.node->data.mapping.pairs.start; pair < p.node->data.mapping.pairs.top;
             pair++) {
                const struct place name = { p.tree, yaml_document_get_node(&p.tree->doc, pair->key) };
                const char *text = scalar(name);

                if (text && strcmp(text, key) == 0) {
                        found.node = yaml_document_get_node(&p.tree->doc, pair->value);
                        return found;
                }
        }
        return found;
}

/* The @i-th item of a sequence; node NULL: no more */
static struct place item(struct place p, size_t i) {
        struct place found = { .tree = p.tree };

        if (p.node && p.node->type == YAML_SEQUENCE_NODE &&
            i < (size_t) (p.node->data.sequence.items.top - p.node->data.sequence.items.start))
                found.node = yaml_document_get_node(&p.tree->doc, p.node->data.sequence.items.start[i]);
        return found;
}

static struct place root(struct tree *tree) {
        return (struct place){ tree, yaml_document_get_root_node(&tree->doc) };
}

/* The entry "- name: @name, @what: {...}" of @list in the first tree that has it. */
static struct place entry(struct trees *trees, const char *list, const char *name, const char *what) {
        for (size_t t = 0; t < trees->n; t++) {
                const struct place all = member(root(&trees->v[t]), list);
                struct place one;

                for (size_t i = 0; (one = item(all, i)).node; i++) {
                        const char *its = scalar(member(one, "name"));

                        if (its && strcmp(its, name) == 0)
                                return member(one, what);
                }
        }
        return (struct place){ 0 };
}

static int add_tree(struct trees *trees, const char *path, const char *text, size_t len, struct error *err) {
        struct tree *tree = &trees->v[trees->n];
        AUTO_FREE char *copy = NULL;
        yaml_parser_t parser;
        int r = 0;

        if (path && !(copy = strdup(path)))
                return error_set(err, -ENOMEM, "out of memory");
        if (!yaml_parser_initialize(&parser))
                return error_set(err, -ENOMEM, "out of memory");
        yaml_parser_set_input_string(&parser, (const unsigned char *) text, len);
        if (!yaml_parser_load(&parser, &tree->doc))
                r = error_set(err, parser.error == YAML_MEMORY_ERROR ? -ENOMEM : -EINVAL, "'%s' line %zu: %s",
                              path ? ESC(path) : "kubeconfig", parser.problem_mark.line + 1,
                              parser.problem ? parser.problem : "no YAML");
        yaml_parser_delete(&parser);
        if (r < 0)
                return r;
        tree->path = TAKE_PTR(copy);
        trees->n++;
        return 0;
}

static int add_file(struct trees *trees, const char *path, bool must, struct error *err) {
        AUTO_BUF struct buf text = { 0 };
        int r;

        if (trees->n == KUBE_CONFIG_FILES_MAX)
                return error_set(err, -E2BIG, "KUBECONFIG: more than %d files", KUBE_CONFIG_FILES_MAX);
        r = file_read_at(AT_FDCWD, path, KUBE_CONFIG_BYTES_MAX, &text);
        if (r == -ENOENT && !must)
                return 0;
        if (r < 0)
                return error_set(err, r, "kubeconfig '%s': %s", ESC(path), strerror(-r));
        return text.len > 0 ? add_tree(trees, path, text.data, text.len, err) : 0;
}

static const char *variable(const struct kube_config_from *from, const char *name) {
        const size_t n = strlen(name);

        for (const char *const *v = from->environ; v && *v; v++)
                if (strncmp(*v, name, n) == 0 && (*v)[n] == '=')
                        return (*v)[n + 1] ? *v + n + 1 : NULL;
        return NULL;
}

static int add_files(struct trees *trees, const char *list, struct error *err) {
        while (*list) {
                const size_t n = strcspn(list, ":");
                AUTO_FREE char *path = strndup(list, n);
                int r;

                if (!path)
                        return error_set(err, -ENOMEM, "out of memory");
                r = n > 0 ? add_file(trees, path, false, err) : 0;
                if (r < 0)
                        return r;
                list += n + (list[n] == ':');
        }
        return 0;
}

static int read_trees(const struct kube_config_from *from, struct trees *trees, struct error *err) {
        AUTO_BUF struct buf path = { 0 };
        const char *list = variable(from, "KUBECONFIG"), *home = variable(from, "HOME");

        if (from->text)
                return add_tree(trees, NULL, from->text, strnlen(from->text, KUBE_CONFIG_BYTES_MAX), err);
        if (from->file)
                return add_file(trees, from->file, true, err);
        if (list)
                return add_files(trees, list, err);
        if (!home)
                return 0;
        if (buf_fmt(&path, "%s/.kube/config", home) < 0)
                return error_set(err, -ENOMEM, "out of memory");
        return add_file(trees, path.data, false, err);
}

/* --- values ------------------------------------------------------------------------------------------------
 */

static int copy(const char *s, char **ret, struct error *err) {
        if (!s || !*s)
                return 0;
        *ret = strdup(s);
        return *ret ? 0 : error_set(err, -ENOMEM, "out of memory");
}

/* A text of one line: what goes into headers and URLs. */
static int take_text(struct place from, const char *key, char **ret, struct error *err) {
        const struct place p = member(from, key);
        const char *s = scalar(p);

        if (p.node && p.node->type != YAML_SCALAR_NODE)
                return complain(p, err, "%s: want a text", key);
        for (const char *c = s; c && *c; c++)
                if ((unsigned char) *c < ' ' || *c == 0x7f)
                        return complain(p, err, "%s: has a control character", key);
        return copy(s, ret, err);
}

/* A path, which is relative to the file it stands in. */
static int take_path(struct place from, const char *key, char **ret, struct error *err) {
        AUTO_FREE char *path = NULL;
        AUTO_BUF struct buf whole = { 0 };
        const char *file = from.tree ? from.tree->path : NULL;
        const char *slash = file ? strrchr(file, '/') : NULL;
        int r;

        r = take_text(from, key, &path, err);
        if (r < 0 || !path)
                return r;
        if (*path == '/' || !slash) {
                *ret = TAKE_PTR(path);
                return 0;
        }
        if (buf_fmt(&whole, "%.*s/%s", (int) (slash - file), file, path) < 0)
                return error_set(err, -ENOMEM, "out of memory");
        *ret = buf_take(&whole);
        return 0;
}

static int decode(const char *text, struct buf *out) {
        const size_t len = strlen(text);
        AUTO_FREE unsigned char *bytes = malloc(len + 1);
        EVP_ENCODE_CTX *ctx = EVP_ENCODE_CTX_new();
        int n = 0, more = 0, r = -EINVAL;

        if (!bytes || !ctx) {
                EVP_ENCODE_CTX_free(ctx);
                return -ENOMEM;
        }
        EVP_DecodeInit(ctx);
        if (EVP_DecodeUpdate(ctx, bytes, &n, (const unsigned char *) text, (int) len) >= 0 &&
            EVP_DecodeFinal(ctx, bytes + n, &more) == 1 && n + more > 0)
                r = buf_add(out, bytes, (size_t) n + (size_t) more);
        OPENSSL_cleanse(bytes, len);
        EVP_ENCODE_CTX_free(ctx);
        return r;
}

/* KEY-data: base64 in place; KEY: a file */
static int take_pem(struct place from, const char *key, struct buf *out, struct error *err) {
        AUTO_FREE char *path = NULL;
        char data_key[64];
        struct place p;
        int r;

        (void) snprintf(data_key, sizeof(data_key), "%s-data", key);
        p = member(from, data_key);
        if (scalar(p)) {
                r = decode(scalar(p), out);
                return r == 0 ? 0
                              : complain(p, err, "%s: %s", data_key,
                                         r == -EINVAL ? "no base64" : strerror(-r));
        }
        r = take_path(from, key, &path, err);
        if (r < 0 || !path)
                return r;
        r = file_read_at(AT_FDCWD, path, KUBE_CONFIG_BYTES_MAX, out);
        return r < 0 ? error_set(err, r, "%s '%s': %s", key, ESC(path), strerror(-r)) : 0;
}

static int take_bool(struct place from, const char *key, bool *ret, struct error *err) {
        const struct place p = member(from, key);
        const char *s = scalar(p);

        if (s && strcasecmp(s, "true") != 0 && strcasecmp(s, "false") != 0)
                return complain(p, err, "%s: want true or false", key);
        *ret = s && strcasecmp(s, "true") == 0;
        return 0;
}

/* --- cluster, user, context --------------------------------------------------------------------------------
 */

static int check_server(struct place p, const struct kube_config *config, struct error *err) {
        const char *s = config->server;
        const char *rest = s && strncmp(s, "https://", 8) == 0  ? s + 8
                           : s && strncmp(s, "http://", 7) == 0 ? s + 7
                                                                : NULL;

        if (!rest || !*rest || *rest == '/' || strpbrk(rest, "@?# "))
                return complain(p, err, "server: want https://HOST[:PORT]");
        return 0;
}

static int take_cluster(struct place p, struct kube_config *config, struct error *err) {
        int r = take_text(p, "server", &config->server, err);

        if (r == 0)
                r = check_server(p, config, err);
        if (r == 0)
                r = take_text(p, "tls-server-name", &config->tls_name, err);
        if (r == 0)
                r = take_text(p, "proxy-url", &config->proxy, err);
        if (r == 0)
                r = take_bool(p, "insecure-skip-tls-verify", &config->insecure, err);
        if (r == 0)
                r = take_pem(p, "certificate-authority", &config->ca, err);
        if (r == 0 && config->insecure && config->ca.len > 0)
                return complain(p, err,
                                "a certificate authority and insecure-skip-tls-verify: want one of them");
        for (size_t n = r == 0 ? strlen(config->server) : 0; n > 0 && config->server[n - 1] == '/'; n--)
                config->server[n - 1] = '\0';
        return r;
}

static int take_list(struct place all, const char *what, struct kube_strings *ret, struct error *err) {
        struct place one;

        for (size_t i = 0; (one = item(all, i)).node; i++) {
                const char *s = scalar(one);
                int r = s || one.node->type == YAML_SCALAR_NODE ? kube_strings_add(ret, s ? s : "") : -EINVAL;

                if (r < 0)
                        return complain(one, err, "%s: want at most %d texts", what, KUBE_ARGS_MAX);
        }
        return 0;
}

static int take_plugin_env(struct place all, struct kube_plugin *plugin, struct error *err) {
        struct place one;

        for (size_t i = 0; (one = item(all, i)).node; i++) {
                const char *name = scalar(member(one, "name")), *value = scalar(member(one, "value"));
                AUTO_BUF struct buf pair = { 0 };

                if (!name || strchr(name, '='))
                        return complain(one, err, "exec.env: want name and value");
                if (buf_fmt(&pair, "%s=%s", name, value ? value : "") < 0 ||
                    kube_strings_add(&plugin->env, pair.data) < 0)
                        return complain(one, err, "exec.env: more than %d", KUBE_ARGS_MAX);
        }
        return 0;
}

static int take_plugin(struct place p, struct kube_plugin *plugin, struct error *err) {
        AUTO_FREE char *mode = NULL, *word = NULL;
        int r;

        if (!p.node)
                return 0;
        r = take_text(p, "command", &word, err);
        if (r == 0 && !word)
                return complain(p, err, "exec: no command");
        if (r == 0 && strchr(word, '/')) /* as kubectl: a path is relative to the file, a name is in PATH */
                r = take_path(p, "command", &plugin->command, err);
        else if (r == 0)
                plugin->command = TAKE_PTR(word);
        if (r == 0)
                r = take_text(p, "apiVersion", &plugin->api_version, err);
        if (r == 0 && (!plugin->api_version ||
                       strncmp(plugin->api_version, "client.authentication.k8s.io/v1", 31) != 0))
                return complain(p, err, "exec.apiVersion: want client.authentication.k8s.io/v1 or v1beta1");
        if (r == 0)
                r = take_list(member(p, "args"), "exec.args", &plugin->args, err);
        if (r == 0)
                r = take_plugin_env(member(p, "env"), plugin, err);
        if (r == 0)
                r = take_bool(p, "provideClusterInfo", &plugin->cluster_info, err);
        if (r == 0)
                r = take_text(p, "installHint", &plugin->hint, err);
        if (r == 0)
                r = take_text(p, "interactiveMode", &mode, err);
        plugin->always_asks = mode && strcmp(mode, "Always") == 0;
        return r;
}

static int take_impersonation(struct place p, struct kube_config *config, struct error *err) {
        int r = take_text(p, "as", &config->as, err);

        if (r == 0)
                r = take_text(p, "as-uid", &config->as_uid, err);
        if (r == 0)
                r = take_list(member(p, "as-groups"), "as-groups", &config->as_groups, err);
        for (size_t i = 0; r == 0 && i < config->as_groups.n; i++)
                if (strpbrk(config->as_groups.v[i], "\r\n"))
                        return complain(p, err, "as-groups: has a line end");
        if (r == 0 && member(p, "as-user-extra").node)
                return complain(
                        p, err,
                        "as-user-extra: not supported; remove it, or impersonate with as and as-groups");
        if (r == 0 && !config->as && (config->as_uid || config->as_groups.n > 0))
                return complain(p, err, "as-uid and as-groups need as");
        return r;
}

static int take_user(struct place p, struct kube_config *config, struct error *err) {
        int r = take_pem(p, "client-certificate", &config->cert, err);

        if (r == 0)
                r = take_pem(p, "client-key", &config->key, err);
        if (r == 0 && (config->cert.len > 0) != (config->key.len > 0))
                return complain(p, err, "want both client-certificate and client-key");
        if (r == 0)
                r = take_text(p, "token", &config->token, err);
        if (r == 0)
                r = take_path(p, "tokenFile", &config->token_file, err);
        if (r == 0)
                r = take_text(p, "username", &config->user, err);
        if (r == 0)
                r = take_text(p, "password", &config->password, err);
        if (r == 0 && config->user && (config->token || config->token_file))
                return complain(p, err, "a token and a username: want one of them");
        if (r == 0 && member(p, "auth-provider").node)
                return complain(p, err,
                                "auth-provider: Kubernetes 1.26 removed it; use a credential plugin (exec)");
        if (r == 0)
                r = take_plugin(member(p, "exec"), &config->plugin, err);
        if (r == 0 && config->plugin.command && (config->user || config->token || config->token_file))
                return complain(p, err,
                                "a credential plugin (exec) and a token or username: want one of them");
        return r == 0 ? take_impersonation(p, config, err) : r;
}

static int safe_over_http(struct place p, const struct kube_config *config, struct error *err) {
        static const char *const near[] = { "http://127.0.0.1", "http://localhost", "http://[::1]" };
        const char *s = config->server;

        if (strncmp(s, "http:", 5) != 0)
                return 0;
        for (size_t i = 0; i < ARRAY_SIZE(near); i++)
                if (strncmp(s, near[i], strlen(near[i])) == 0 && strchr(":/", s[strlen(near[i])]))
                        return 0;
        return complain(p, err,
                        "server: http:// is for this host only, it would show credentials: want https://");
}

static int take_context(struct trees *trees, const char *name, struct kube_config *config,
                        struct error *err) {
        const struct place context = entry(trees, "contexts", name, "context");
        const char *cluster = scalar(member(context, "cluster")), *user = scalar(member(context, "user"));
        AUTO_BUF struct buf origin = { 0 };
        struct place p;
        int r;

        if (!context.node)
                return error_set(err, -EINVAL, "kubeconfig: no context '%s'", ESC(name));
        if (!cluster)
                return complain(context, err, "context '%s' names no cluster", ESC(name));
        p = entry(trees, "clusters", cluster, "cluster");
        if (!p.node)
                return complain(context, err, "context '%s': no cluster '%s'", ESC(name), ESC(cluster));
        if (buf_fmt(&origin, "context '%s' of %s", ESC(name), place_file(context)) < 0)
                return error_set(err, -ENOMEM, "out of memory");
        config->origin = buf_take(&origin);
        r = take_text(context, "namespace", &config->ns, err);
        if (r == 0)
                r = take_cluster(p, config, err);
        if (r == 0)
                r = safe_over_http(p, config, err);
        if (r < 0 || !user)
                return r;
        p = entry(trees, "users", user, "user");
        if (!p.node)
                return complain(context, err, "context '%s': no user '%s'", ESC(name), ESC(user));
        return take_user(p, config, err);
}

/* --- in a cluster
 * ------------------------------------------------------------------------------------------- */

static int account_file(const char *dir, const char *name, struct buf *out, struct error *err) {
        AUTO_BUF struct buf path = { 0 };
        int r = buf_fmt(&path, "%s/%s", dir, name);

        if (r == 0)
                r = file_read_at(AT_FDCWD, path.data, KUBE_CONFIG_BYTES_MAX, out);
        return r < 0 ? error_set(err, r, "service account '%s': %s", path.data ? ESC(path.data) : name,
                                 strerror(-r))
                     : 0;
}

static int take_account(const struct kube_config_from *from, struct kube_config *config, struct error *err) {
        const char *dir =
                from->account_dir ? from->account_dir : "/var/run/secrets/kubernetes.io/serviceaccount";
        const char *host = variable(from, "KUBERNETES_SERVICE_HOST"), *files = variable(from, "KUBECONFIG");
        const char *port = variable(from, "KUBERNETES_SERVICE_PORT");
        AUTO_BUF struct buf server = { 0 }, path = { 0 }, ns = { 0 }, token = { 0 };
        int r;

        if (!host || strpbrk(host, "/@?# ") || (port && strspn(port, "0123456789") != strlen(port)))
                return error_set(err, -ENOENT,
                                 "no cluster: %s%s, and this is no pod (KUBERNETES_SERVICE_HOST)",
                                 files ? "no file with one in KUBECONFIG "
                                       : "no kubeconfig (set KUBECONFIG, or have ~/.kube/config)",
                                 files ? ESC(files) : "");
        r = account_file(dir, "token", &token, err);
        if (r == 0)
                r = account_file(dir, "ca.crt", &config->ca, err);
        if (r < 0)
                return r;
        if (account_file(dir, "namespace", &ns, NULL) == 0) {
                ns.len = strcspn(buf_cstr(&ns), "\r\n");
                config->ns = ns.len > 0 ? strndup(ns.data, ns.len) : NULL;
        }
        if (buf_fmt(&server, strchr(host, ':') ? "https://[%s]:%s" : "https://%s:%s", host,
                    port ? port : "443") < 0 ||
            buf_fmt(&path, "%s/token", dir) < 0 || !(config->origin = strdup("in-cluster service account")))
                return error_set(err, -ENOMEM, "out of memory");
        OPENSSL_cleanse(token.data, token.len);
        config->server = buf_take(&server);
        config->token_file = buf_take(&path);
        config->in_cluster = true;
        return 0;
}

/* --- all of it
 * ---------------------------------------------------------------------------------------------- */

static bool any_cluster(struct trees *trees) {
        for (size_t t = 0; t < trees->n; t++)
                if (item(member(root(&trees->v[t]), "clusters"), 0).node)
                        return true;
        return false;
}

static const char *current_context(struct trees *trees) {
        for (size_t t = 0; t < trees->n; t++) {
                const char *s = scalar(member(root(&trees->v[t]), "current-context"));

                if (s && *s)
                        return s;
        }
        return NULL;
}

static int fill(const struct kube_config_from *from, struct kube_config *config, struct error *err) {
        AUTO_TREES struct trees trees = { 0 };
        const char *context;
        int r;

        if (from->in_cluster)
                return take_account(from, config, err);
        r = read_trees(from, &trees, err);
        if (r < 0)
                return r;
        if (!any_cluster(&trees)) {
                if (from->text || from->file || from->context)
                        return error_set(err, -EINVAL, "kubeconfig%s%s: no clusters in it",
                                         from->file ? " " : "", from->file ? ESC(from->file) : "");
                return take_account(from, config, err);
        }
        context = from->context ? from->context : current_context(&trees);
        if (!context)
                return error_set(err, -EINVAL, "kubeconfig: no current-context: choose one of its contexts");
        return take_context(&trees, context, config, err);
}

int kube_config_load(const struct kube_config_from *from, struct kube_config **ret, struct error *err) {
        AUTO_KUBE_CONFIG struct kube_config *config = calloc(1, sizeof(*config));
        int r;

        if (!config)
                return error_set(err, -ENOMEM, "out of memory");
        config->environ_ = from->environ;
        r = fill(from, config, err);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(config);
        return 0;
}
