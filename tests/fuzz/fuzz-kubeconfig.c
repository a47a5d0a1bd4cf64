/*
 * fuzz-kubeconfig.c - a kubeconfig: YAML of the operator, or of whoever handed it to him
 */
#include <string.h>

#include "kubernetes/client/config.h"
#include "tests/fuzz/fuzz.h"

static void check(bool holds) {
        if (!holds)
                __builtin_trap();
}

/* What goes into headers, URLs and messages is one line. */
static void check_line(const char *s) {
        for (; s && *s; s++)
                check((unsigned char) *s >= ' ' && *s != 0x7f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static const char *const environment[] = { "HOME=/nonexistent", NULL };
        AUTO_KUBE_CONFIG struct kube_config *config = NULL;
        AUTO_FREE char *text = NULL;
        struct kube_config_from from = { .environ = environment };
        struct error err = { 0 };
        int r;

        if (size > 65536 || !(text = calloc(1, size + 1)))
                return 0;
        if (size > 0)
                memcpy(text, data, size);
        from.text = text;
        r = kube_config_load(&from, &config, &err);
        check((r == 0) == (config != NULL));
        check_line(err.msg);
        if (r < 0) {
                check(err.msg[0] != '\0');
                return 0;
        }
        check(strncmp(config->server, "https://", 8) == 0 || strncmp(config->server, "http://", 7) == 0);
        check(config->server[strlen(config->server) - 1] != '/');
        check(!(config->insecure && config->ca.len > 0));
        check((config->cert.len > 0) == (config->key.len > 0));
        check(!(config->user && (config->token || config->plugin.command)));
        check_line(config->server);
        check_line(config->origin);
        check_line(config->token);
        check_line(config->as);
        check_line(config->ns);
        return 0;
}
