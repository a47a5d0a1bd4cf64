#include "image/authfile.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image/helper.h"
#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"

static const char docker_key[] = "https://index.docker.io/v1/";

static void erase(char **s) {
        if (*s)
                explicit_bzero(*s, strlen(*s));
        free(*s);
        *s = NULL;
}

void login_deinit(struct login *login) {
        erase(&login->user);
        erase(&login->password);
        erase(&login->identity_token);
        free(login->helper);
        free(login->key);
        *login = (struct login){ 0 };
}

/* What stands in a header must not end it. */
static bool is_plain(const char *s) {
        for (; *s; s++)
                if ((unsigned char) *s < ' ' || *s == 0x7f)
                        return false;
        return true;
}

static int put_text(char **slot, const char *s) {
        if (!is_plain(s) || strlen(s) > CREDENTIAL_TEXT_MAX)
                return -EINVAL;
        *slot = strdup(s);
        return *slot ? 0 : -ENOMEM;
}

/* "dXNlcjpwYXNz": base64 of USER:PASSWORD. */
static int decode(const char *text, struct login *ret) {
        const size_t n = strlen(text), groups = n / 4;
        unsigned char out[CREDENTIAL_TEXT_MAX + 1];
        char *colon;
        int len, r;

        if (n == 0 || n % 4 != 0 || groups * 3 > CREDENTIAL_TEXT_MAX)
                return -EINVAL;
        len = EVP_DecodeBlock(out, (const unsigned char *) text, (int) n);
        if (len < 0)
                return -EINVAL;
        len -= (text[n - 1] == '=') + (text[n - 2] == '=');
        out[len] = '\0';
        colon = memchr(out, '\0', (size_t) len) ? NULL : strchr((char *) out, ':');
        if (colon)
                *colon++ = '\0';
        r = colon ? put_text(&ret->user, (char *) out) : -EINVAL;
        if (r == 0)
                r = put_text(&ret->password, colon);
        explicit_bzero(out, sizeof(out));
        return r;
}

/* How much of "HOST/PATH" the key names, 0: it is another's. Old files have URLs. */
static size_t match(const char *key, const struct ref *ref) {
        const char *const scheme = strstr(key, "://");
        const bool url = scheme != NULL;
        const size_t host = strlen(ref->registry);
        const char *rest;
        size_t n;

        if (strcmp(ref->registry, "docker.io") == 0 &&
            (strcmp(key, docker_key) == 0 || strcmp(key, "index.docker.io") == 0))
                return host;
        if (url)
                key = scheme + 3;
        if (strncmp(key, ref->registry, host) != 0)
                return 0;
        rest = key + host;
        if (*rest == '\0' || (url && *rest == '/'))
                return host;
        n = strlen(rest + 1);
        if (*rest != '/' || strncmp(ref->repo, rest + 1, n) != 0 ||
            (ref->repo[n] != '/' && ref->repo[n] != '\0'))
                return 0;
        return host + 1 + n;
}

static int read_entry(const json_t *entry, struct login *ret) {
        const char *auth = json_string_value(json_object_get(entry, "auth"));
        const char *token = json_string_value(json_object_get(entry, "identitytoken"));
        const char *user = json_string_value(json_object_get(entry, "username"));
        const char *password = json_string_value(json_object_get(entry, "password"));
        int r = 0;

        if (token && *token)
                return put_text(&ret->identity_token, token);
        if (auth && *auth)
                return decode(auth, ret);
        if (user && password) {
                r = put_text(&ret->user, user);
                if (r == 0)
                        r = put_text(&ret->password, password);
        }
        return r;
}

static int name_helper(const char *helper, const char *key, struct login *ret) {
        if (strspn(helper, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") !=
                    strlen(helper) ||
            !*helper || strlen(helper) > 64)
                return -EINVAL;
        ret->helper = strdup(helper);
        ret->key = strdup(strcmp(key, "docker.io") == 0 ? docker_key : key);
        return ret->helper && ret->key ? 0 : -ENOMEM;
}

static const char *best_helper(const json_t *doc, const struct ref *ref, const char **ret_key) {
        json_t *helpers = json_object_get(doc, "credHelpers"), *value;
        const char *key, *best = NULL;
        size_t most = 0;

        json_object_foreach(helpers, key, value) {
                const size_t n = match(key, ref);

                if (n > most && json_is_string(value)) {
                        most = n;
                        best = json_string_value(value);
                        *ret_key = key;
                }
        }
        return best;
}

int authfile_read(const json_t *doc, const struct ref *ref, struct login *ret, struct error *err) {
        json_t *auths = json_object_get(doc, "auths"), *value, *found = NULL;
        const char *key, *helper, *helper_key = ref->registry;
        AUTO_LOGIN struct login login = { 0 };
        size_t most = 0;
        int r = 0;

        helper = best_helper(doc, ref, &helper_key);
        if (helper) {
                r = name_helper(helper, helper_key, &login);
        } else {
                json_object_foreach(auths, key, value) {
                        const size_t n = match(key, ref);

                        if (n > most && json_is_object(value)) {
                                most = n;
                                found = value;
                        }
                }
                r = found ? read_entry(found, &login) : 0;
                helper = json_string_value(json_object_get(doc, "credsStore"));
                if (r == 0 && !login.user && !login.identity_token && helper && *helper)
                        r = name_helper(helper, ref->registry, &login);
        }
        if (r < 0)
                return error_set(err, r, "the entry for %s is malformed", ESC(ref->registry));
        *ret = login;
        login = (struct login){ 0 };
        return 0;
}

int helper_answer(const char *text, size_t len, struct login *ret) {
        AUTO_JSON json_t *doc = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
        const char *user = json_string_value(json_object_get(doc, "Username"));
        const char *secret = json_string_value(json_object_get(doc, "Secret"));
        int r;

        if (!user || !secret)
                return -EINVAL;
        if (strcmp(user, "<token>") == 0)
                return put_text(&ret->identity_token, secret);
        r = put_text(&ret->user, user);
        return r < 0 ? r : put_text(&ret->password, secret);
}

/* Return: whether the file is there. */
static int read_file(const char *path, const struct ref *ref, struct login *ret, struct error *err) {
        AUTO_BUF struct buf text = { 0 };
        AUTO_JSON json_t *doc = NULL;
        int r;

        r = file_read_at(AT_FDCWD, path, AUTHFILE_BYTES_MAX, &text);
        if (r == -ENOENT || r == -ENOTDIR)
                return -ENOENT;
        if (r < 0)
                return error_set(err, r == -ENOENT ? -EIO : r, "read '%s': %s", ESC(path), strerror(-r));
        doc = json_loadb(buf_cstr(&text), text.len, 0, NULL);
        r = json_is_object(doc) ? authfile_read(doc, ref, ret, err)
                                : error_set(err, -EINVAL, "not a JSON object");
        if (text.data)
                explicit_bzero(text.data, text.len);
        return r < 0 ? error_wrap(err, r, "'%s'", ESC(path)) : 0;
}

static int ask_helper(const char *path, struct login *login, struct error *err) {
        AUTO_BUF struct buf answer = { .max = 4 * CREDENTIAL_TEXT_MAX };
        int r;

        r = helper_run(login->helper, path, login->key, &answer, err);
        if (r == 0 && answer.len > 0) {
                r = helper_answer(answer.data, answer.len, login);
                explicit_bzero(answer.data, answer.len);
                if (r < 0)
                        return error_set(err, r, "docker-credential-%s: its answer is malformed",
                                         login->helper);
        }
        return r;
}

int login_find(const struct authfile_env *env, const char *path, const struct ref *ref, struct login *ret,
               struct error *err) {
        const struct {
                const char *dir, *name;
        } files[] = {
                { env->explicit, "" },
                { env->explicit ? NULL : env->runtime_dir, "/containers/auth.json" },
                { env->explicit ? NULL : env->config_dir, "/containers/auth.json" },
                { env->explicit || env->config_dir ? NULL : env->home, "/.config/containers/auth.json" },
                { env->explicit ? NULL : env->docker_dir, "/config.json" },
                { env->explicit || env->docker_dir ? NULL : env->home, "/.docker/config.json" },
        };
        AUTO_LOGIN struct login login = { 0 };
        int r = 0;

        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(files) && !login.user && !login.identity_token; i++) {
                AUTO_BUF struct buf name = { 0 };

                if (!files[i].dir)
                        continue;
                login_deinit(&login);
                r = buf_fmt(&name, "%s%s", files[i].dir, files[i].name);
                if (r == 0)
                        r = read_file(buf_cstr(&name), ref, &login, err);
                if (r == -ENOENT && !env->explicit)
                        r = 0;
                else if (r == -ENOENT)
                        r = error_set(err, r, "no file '%s'", ESC(env->explicit));
                if (r == 0 && login.helper)
                        r = ask_helper(path, &login, err);
        }
        if (r < 0)
                return r;
        *ret = login;
        login = (struct login){ 0 };
        return 0;
}
