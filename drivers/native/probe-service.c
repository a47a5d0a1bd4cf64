/*
 * probe-service.c - programs of the host that other drivers need: container engines, a Kubernetes server
 *
 * Whoever listens is believed in nothing but what is shown: an answer has a size and a time, and a server
 * that never gives one costs that time.
 */
#include <ares.h>
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "drivers/native/probe-kit.h"
#include "drivers/oci/cli.h"
#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/base/parse.h"
#include "runtime/spec/doc.h"

enum {
        CLIENT_MS = 5000,
        ANSWER_MS = 2000,
        ANSWER_MAX = 256 << 10,
        NS_PER_MS_ = 1000000,
        HTTPS_PORT = 443,
        HOST_MAX = 256
};

static int ms_left(uint64_t end_ns) {
        const uint64_t now = clock_ns();

        return now < end_ns ? (int) ((end_ns - now) / NS_PER_MS_) : 0;
}

/* Return: 0 when @fd has one of @events in time, -ETIMEDOUT, -errno. */
static int await(int fd, short events, uint64_t end_ns) {
        struct pollfd pfd = { .fd = fd, .events = events };
        int r;

        do
                r = poll(&pfd, 1, ms_left(end_ns));
        while (r < 0 && errno == EINTR && ms_left(end_ns) > 0);
        return r < 0 ? -errno : r == 0 ? -ETIMEDOUT : 0;
}

/* A connected socket, owned, or -errno. A listener whose queue is full answers as one that does not answer.
 */
static int connect_in_time(const struct sockaddr *addr, socklen_t len, uint64_t end_ns) {
        AUTO_FD int sock = socket(addr->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        socklen_t size = sizeof(int);
        int r, error = 0;

        if (sock < 0)
                return -errno;
        if (connect(sock, addr, len) == 0)
                return TAKE_FD(sock);
        if (errno == EAGAIN)
                return -ETIMEDOUT;
        if (errno != EINPROGRESS)
                return -errno;
        r = await(sock, POLLOUT, end_ns);
        if (r < 0)
                return r;
        if (getsockopt(sock, SOL_SOCKET, SO_ERROR, &error, &size) < 0 || error)
                return error ? -error : -errno;
        return TAKE_FD(sock);
}

static int read_all(int sock, struct buf *ret, uint64_t end_ns) {
        char part[16384];
        ssize_t n;
        int r;

        for (;;) {
                r = await(sock, POLLIN, end_ns);
                if (r < 0)
                        return r;
                n = read(sock, part, sizeof(part));
                if (n == 0)
                        return 0;
                if (n < 0 && errno != EAGAIN && errno != EINTR)
                        return -errno;
                r = n < 0 ? 0 : buf_add(ret, part, (size_t) n);
                if (r < 0)
                        return r;
        }
}

/* The body of GET @target from the unix socket @path. Return: 0, -EPROTO (no HTTP, or not 200), -errno. */
static int http_get(const char *path, const char *target, struct buf *head, const char **ret_body) {
        const uint64_t end_ns = clock_ns() + (uint64_t) ANSWER_MS * NS_PER_MS_;
        struct sockaddr_un addr = { .sun_family = AF_UNIX };
        AUTO_FD int sock = -1;
        char request[128];
        const char *body;
        int len, r;

        if (strlen(path) >= sizeof(addr.sun_path))
                return -ENAMETOOLONG;
        (void) strncpy(addr.sun_path, path, sizeof(addr.sun_path) - 1);
        sock = connect_in_time((const struct sockaddr *) &addr, sizeof(addr), end_ns);
        if (sock < 0)
                return sock;
        len = snprintf(request, sizeof(request), "GET %s HTTP/1.0\r\nHost: localhost\r\n\r\n", target);
        if (send(sock, request, (size_t) len, MSG_NOSIGNAL) != len)
                return -errno;
        head->max = ANSWER_MAX;
        r = read_all(sock, head, end_ns);
        if (r < 0)
                return r;
        body = strstr(buf_cstr(head), "\r\n\r\n");
        if (!body || strncmp(buf_cstr(head), "HTTP/1.", 7) != 0 ||
            strncmp(buf_cstr(head) + 8, " 200 ", 5) != 0)
                return -EPROTO;
        *ret_body = body + 4;
        return 0;
}

/* The engine's command line, as the caller's PATH finds it, and what it says of its version. */
static void ask_client(const struct probe_host *host, const char *program, struct probe_result *ret) {
        AUTO_CLI_ARGS struct cli_args args = { .n = 0 };
        AUTO_CLI_RESULT struct cli_result result = { 0 };
        const char *const home = ctx_getenv(host->ctx, "HOME");
        int r;

        cli_add(&args, "%s", program);
        cli_add(&args, "--version");
        r = cli_run(host->ctx, &args, CLIENT_MS, &result, NULL);
        if (r == -ENOENT)
                result_fact(ret, r, "no %s in PATH", program);
        else if (r < 0)
                result_failed(ret, r, "%s --version", program);
        else if (result.exit_code != 0 && home && access(home, X_OK) < 0)
                result_fact(ret, -EACCES, "HOME %.50s: %s", ESC(home), probe_errno_name(-errno));
        else if (result.exit_code != 0)
                result_fact(ret, -EIO, "%s --version: exit status %d", program, result.exit_code);
        if (r < 0 || result.exit_code != 0)
                return;
        result_note(ret, "%.*s, as %s", (int) strcspn(buf_cstr(&result.out), "\r\n"), buf_cstr(&result.out),
                    host->ctx->uid == 0 ? "root" : "a user");
}

void try_docker(const struct probe_host *host, struct probe_result *ret) {
        ask_client(host, "docker", ret);
}

void try_podman(const struct probe_host *host, struct probe_result *ret) {
        ask_client(host, "podman", ret);
}

/* Whether a configuration of podman's names another runtime than crun, as far as a line of it says so. */
static bool names_runtime(const char *path) {
        AUTO_BUF struct buf text = { 0 };

        if (file_read_at(AT_FDCWD, path, ANSWER_MAX, &text) < 0)
                return false;
        for (const char *line = buf_cstr(&text); line; line = strchr(line, '\n')) {
                line += strspn(line, "\n \t");
                if (strncmp(line, "runtime", 7) == 0 && line[7 + strspn(line + 7, " \t")] == '=')
                        return strncmp(line + 7 + strspn(line + 7, " \t=\"'"), "crun", 4) != 0;
        }
        return false;
}

static bool another_runtime(const struct probe_host *host) {
        static const char own[] = "/etc/containers/containers.conf";
        const char *const named = ctx_getenv(host->ctx, "CONTAINERS_CONF");
        char path[PATH_MAX];
        AUTO_DIR DIR *parts = NULL;
        const struct dirent *e;

        if (named)
                return names_runtime(named);
        (void) snprintf(path, sizeof(path), "%s/.config/containers/containers.conf",
                        host->ctx->home ? host->ctx->home : "");
        if (names_runtime(path) || names_runtime(own))
                return true;
        parts = opendir("/etc/containers/containers.conf.d");
        while (parts && (e = readdir(parts))) {
                (void) snprintf(path, sizeof(path), "%s.d/%s", own, e->d_name);
                if (names_runtime(path))
                        return true;
        }
        return false;
}

/* Nothing is started, which would leave a process of podman's behind. */
void try_podman_runtime(const struct probe_host *host, struct probe_result *ret) {
        static const char both[] = "/sys/fs/cgroup/unified/cgroup.controllers";

        if (access(both, F_OK) < 0)
                result_note(ret, "control groups of one version");
        else if (another_runtime(host))
                result_note(ret, "control groups of both versions; podman's runtime is not crun");
        else
                result_fact(ret, -ENOTSUP, "control groups of both versions at /sys/fs/cgroup, and crun");
}

/* Which of a run's limits podman's containers can have. */
void try_podman_limits(const struct probe_host *host, struct probe_result *ret) {
        struct statfs fs;

        if (host->ctx->uid == 0)
                result_note(ret, "of root: all that the kernel has");
        else if (statfs("/sys/fs/cgroup", &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC)
                result_note(ret, "control groups of version 2");
        else
                result_fact(ret, -ENOTSUP, "podman of a user, and control groups of version 1");
}

static const char *text_of(const json_t *info, const char *key) {
        const char *text = json_string_value(json_object_get(info, key));

        return text ? text : "unknown";
}

static bool is_rootless(const json_t *info) {
        const json_t *const options = json_object_get(info, "SecurityOptions");

        for (size_t i = 0; i < json_array_size(options); i++) {
                const char *text = json_string_value(json_array_get(options, i));

                if (text && strstr(text, "rootless"))
                        return true;
        }
        return json_is_true(json_object_get(info, "Rootless"));
}

/** tell_info - what an engine at @path that gave @info is */
typedef void tell_info(const json_t *info, const char *path, struct probe_result *ret);

static void tell_engine(const json_t *info, const char *path, struct probe_result *ret) {
        char version[64], storage[32];

        (void) escape_str(text_of(info, "ServerVersion"), version, sizeof(version));
        (void) escape_str(text_of(info, "Driver"), storage, sizeof(storage));
        result_note(ret, "version %.20s, %s, storage %.16s, at %.40s", version,
                    is_rootless(info) ? "rootless" : "of root", storage, ESC(path));
}

static void tell_storage(const json_t *info, const char *path, struct probe_result *ret) {
        const char *const root = text_of(info, "DockerRootDir");

        if (*root != '/')
                result_fact(ret, -EPROTO, "what answers at %.50s does not say where it stores", ESC(path));
        else
                probe_store(text_of(info, "Driver"), root, ret);
}

/* Asks the engine that listens at @path. */
static void ask_engine(const char *path, tell_info *tell, struct probe_result *ret) {
        AUTO_BUF struct buf answer = { 0 };
        AUTO_JSON json_t *info = NULL;
        const char *body = "";
        const int r = http_get(path, "/info", &answer, &body);

        if (r == -ETIMEDOUT)
                result_fact(ret, r, "no answer at %.50s within %d ms", ESC(path), ANSWER_MS);
        else if (r < 0)
                result_failed(ret, r, "GET /info at %.60s", ESC(path));
        if (r < 0)
                return;
        info = json_loads(body, JSON_REJECT_DUPLICATES, NULL);
        if (!json_is_object(info)) {
                result_fact(ret, -EPROTO, "what answers at %.50s is no container engine", ESC(path));
                return;
        }
        tell(info, path, ret);
}

/* The unix socket that @variable names, NULL: it is not set; "" for another kind of address. */
static const char *named_socket(const struct probe_host *host, const char *variable) {
        static const char scheme[] = "unix://";
        const char *value = ctx_getenv(host->ctx, variable);

        if (!value || !*value)
                return NULL;
        return strncmp(value, scheme, strlen(scheme)) == 0 ? value + strlen(scheme) : "";
}

/* @variable, then @own below the runtime directory, then @common. */
static void find_engine(const struct probe_host *host, const char *variable, const char *own,
                        const char *common, tell_info *tell, struct probe_result *ret) {
        const char *const runtime = ctx_getenv(host->ctx, "XDG_RUNTIME_DIR");
        const char *const named = named_socket(host, variable);
        char path[PATH_MAX];

        if (named && !*named) {
                result_fact(ret, -ENOTSUP, "not asked: %s is no unix socket", variable);
                return;
        }
        (void) snprintf(path, sizeof(path), "%s/%s", runtime ? runtime : "", own);
        if (named)
                ask_engine(named, tell, ret);
        else if (runtime && access(path, F_OK) == 0)
                ask_engine(path, tell, ret);
        else if (access(common, F_OK) == 0)
                ask_engine(common, tell, ret);
        else
                result_fact(ret, -ENOENT, "no socket at %s", common);
}

void try_docker_daemon(const struct probe_host *host, struct probe_result *ret) {
        find_engine(host, "DOCKER_HOST", "docker.sock", "/var/run/docker.sock", tell_engine, ret);
}

void try_docker_storage(const struct probe_host *host, struct probe_result *ret) {
        find_engine(host, "DOCKER_HOST", "docker.sock", "/var/run/docker.sock", tell_storage, ret);
}

void try_podman_service(const struct probe_host *host, struct probe_result *ret) {
        find_engine(host, "CONTAINER_HOST", "podman/podman.sock", "/run/podman/podman.sock", tell_engine,
                    ret);
        if (ret->code != -ENOENT)
                return;
        *ret = (struct probe_result){ .code = 0 };
        result_note(ret, "none listens, and podman needs none");
}

/* ---- kubernetes ---- */

static const char in_cluster_token[] = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/** struct cluster - where the server is; "" when not known */
struct cluster {
        char name[64], host[HOST_MAX];
        uint16_t port;
        bool inside; /* of the cluster itself */
};

static const char *scalar(const struct doc *map, const char *name) {
        const struct doc *child = map && map->kind == DOC_MAP ? doc_child(map, name) : NULL;

        return child && child->kind == DOC_SCALAR ? child->text : NULL;
}

/* The entry called @name of the list @list, and in that the mapping @inner. */
static const struct doc *named_entry(const struct doc *root, const char *list, const char *name,
                                     const char *inner) {
        const struct doc *entries = doc_child(root, list);

        if (!entries || entries->kind != DOC_LIST || !name)
                return NULL;
        for (const struct doc *e = entries->first; e; e = e->next) {
                const char *text = scalar(e, "name");

                if (text && strcmp(text, name) == 0)
                        return doc_child(e, inner);
        }
        return NULL;
}

/* "https://HOST[:PORT][/...]". Return: false: anything else. */
static bool parse_server(const char *url, struct cluster *ret) {
        const char *at = url && strncmp(url, "https://", 8) == 0 ? url + 8 : NULL;
        const bool bracket = at && *at == '[';
        size_t n;
        uint64_t port = HTTPS_PORT;

        if (!at)
                return false;
        at += bracket;
        n = strcspn(at, bracket ? "]" : ":/");
        if (n == 0 || n >= sizeof(ret->host))
                return false;
        memcpy(ret->host, at, n);
        ret->host[n] = '\0';
        at += n + bracket;
        if (*at == ':') {
                char text[8] = "";

                (void) snprintf(text, sizeof(text), "%.*s", (int) strcspn(at + 1, "/"), at + 1);
                port = strtoul(text, NULL, 10);
        }
        ret->port = (uint16_t) port;
        return port > 0 && port <= UINT16_MAX;
}

/* Of $KUBECONFIG, the first file of it, or ~/.kube/config. */
static bool read_kubeconfig(const struct probe_host *host, struct cluster *ret, struct probe_result *r) {
        const char *const set = ctx_getenv(host->ctx, "KUBECONFIG");
        AUTO_DOC struct doc *root = NULL;
        AUTO_BUF struct buf text = { 0 };
        struct error err = { 0 };
        const char *context;
        char path[PATH_MAX];
        int code;

        if (set && *set)
                (void) snprintf(path, sizeof(path), "%.*s", (int) strcspn(set, ":"), set);
        else
                (void) snprintf(path, sizeof(path), "%s/.kube/config",
                                host->ctx->home ? host->ctx->home : "");
        code = file_read_at(AT_FDCWD, path, DOC_FILE_MAX, &text);
        if (code < 0) {
                result_failed(r, code, "read %.70s", ESC(path));
                return false;
        }
        if (doc_parse("kubeconfig", buf_cstr(&text), text.len, false, &root, &err) < 0 || !root ||
            root->kind != DOC_MAP) {
                result_fact(r, -EINVAL, "%.60s: %.30s", ESC(path), *err.msg ? err.msg : "no mapping");
                return false;
        }
        context = scalar(root, "current-context");
        (void) escape_str(context ? context : "", ret->name, sizeof(ret->name));
        if (!parse_server(
                    scalar(named_entry(root, "clusters",
                                       scalar(named_entry(root, "contexts", context, "context"), "cluster"),
                                       "cluster"),
                           "server"),
                    ret)) {
                result_fact(r, -EINVAL, "no server for current-context '%.30s' in %.40s", ret->name,
                            ESC(path));
                return false;
        }
        return true;
}

static bool find_cluster(const struct probe_host *host, struct cluster *ret, struct probe_result *r) {
        const char *const address = ctx_getenv(host->ctx, "KUBERNETES_SERVICE_HOST");
        const char *const port = ctx_getenv(host->ctx, "KUBERNETES_SERVICE_PORT");

        *ret = (struct cluster){ .port = HTTPS_PORT };
        if (!address)
                return read_kubeconfig(host, ret, r);
        ret->inside = true;
        (void) snprintf(ret->host, sizeof(ret->host), "%s", address);
        if (port && strtoul(port, NULL, 10) > 0 && strtoul(port, NULL, 10) <= UINT16_MAX)
                ret->port = (uint16_t) strtoul(port, NULL, 10);
        if (access(in_cluster_token, R_OK) == 0)
                return true;
        result_failed(r, -errno, "read %s", in_cluster_token);
        return false;
}

void try_kubernetes_context(const struct probe_host *host, struct probe_result *ret) {
        struct cluster cluster;

        if (!find_cluster(host, &cluster, ret))
                return;
        if (cluster.inside)
                result_note(ret, "in a cluster: a token of a service account, server %.60s",
                            ESC(cluster.host));
        else
                result_note(ret, "context '%.30s', server %.60s", cluster.name, ESC(cluster.host));
}

/** struct lookup - the first address of a name */
struct lookup {
        struct sockaddr_storage addr;
        socklen_t len;
        int status; /* of c-ares */
        bool done;
};

static void on_found(void *arg, int status, int timeouts, struct ares_addrinfo *found) {
        struct lookup *l = arg;

        (void) timeouts;
        l->done = true;
        l->status = status;
        if (status != ARES_SUCCESS)
                return;
        if (found->nodes && (size_t) found->nodes->ai_addrlen <= sizeof(l->addr)) {
                l->len = (socklen_t) found->nodes->ai_addrlen;
                memcpy(&l->addr, found->nodes->ai_addr, l->len);
        }
        ares_freeaddrinfo(found);
}

/* Return: 0, -ENOENT (no such name), -ETIMEDOUT, -EIO. */
static int look_up(const struct cluster *cluster, struct lookup *ret, uint64_t end_ns) {
        const struct ares_addrinfo_hints hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
        char port[8];
        ares_channel channel = NULL;

        (void) snprintf(port, sizeof(port), "%u", cluster->port);
        if (ares_library_init(ARES_LIB_INIT_ALL) != ARES_SUCCESS || ares_init(&channel) != ARES_SUCCESS)
                return -EIO;
        ares_getaddrinfo(channel, cluster->host, port, &hints, on_found, ret);
        while (!ret->done && ms_left(end_ns) > 0) {
                fd_set readers, writers;
                struct timeval wait = { .tv_usec = 50000 };
                int n;

                FD_ZERO(&readers);
                FD_ZERO(&writers);
                n = ares_fds(channel, &readers, &writers);
                (void) select(n, &readers, &writers, NULL, &wait);
                ares_process(channel, &readers, &writers);
        }
        if (!ret->done)
                return -ETIMEDOUT; /* the process ends: what c-ares holds goes with it */
        ares_destroy(channel);
        return ret->len ? 0 : ret->status == ARES_ENOTFOUND || ret->status == ARES_ENODATA ? -ENOENT : -EIO;
}

/* Whether something accepts there; who that is takes TLS and the credentials of a driver. */
void try_kubernetes_server(const struct probe_host *host, struct probe_result *ret) {
        const uint64_t end_ns = clock_ns() + (uint64_t) ANSWER_MS * NS_PER_MS_ * 2;
        struct cluster cluster;
        struct lookup found = { 0 };
        AUTO_FD int sock = -1;
        int r;

        if (!find_cluster(host, &cluster, ret))
                return;
        r = look_up(&cluster, &found, end_ns);
        if (r < 0) {
                result_failed(ret, r, "look up %.60s", ESC(cluster.host));
                return;
        }
        sock = connect_in_time((const struct sockaddr *) &found.addr, found.len, end_ns);
        if (sock < 0)
                result_failed(ret, sock, "connect to %.60s port %u", ESC(cluster.host), cluster.port);
        else
                result_note(ret, "%.60s port %u accepts connections", ESC(cluster.host), cluster.port);
}
