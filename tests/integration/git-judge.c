/*
 * git-judge - asks the reader of git's configuration and the judge, one question a line
 *
 *   git-judge list          each line of stdin is a file in hex; answers what the reader says as
 *                           `git config --list -z` writes it, in hex, or "-" when the reader refuses
 *   git-judge judge ROOT    each line is "PATH HEX"; answers "lands", or "held " and the reason
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/gitconfig.h"
#include "fs/judge.h"
#include "runtime/base/cleanup.h"

static int digit(char c) {
        static const char digits[] = "0123456789abcdef";
        const char *at = c ? strchr(digits, c) : NULL;

        if (!at) {
                (void) fprintf(stderr, "git-judge: not hex\n");
                exit(2);
        }
        return (int) (at - digits);
}

/* @hex in place. Return: bytes. */
static size_t unhex(char *hex) {
        const size_t n = strlen(hex) / 2;

        for (size_t i = 0; i < n; i++)
                hex[i] = (char) (digit(hex[2 * i]) << 4 | digit(hex[2 * i + 1]));
        return n;
}

static int add(const char *key, const char *value, void *arg) {
        struct buf *out = arg;
        int r = buf_str(out, key);

        if (r == 0 && value)
                r = buf_fmt(out, "\n%s", value);
        return r < 0 ? r : buf_add(out, "", 1);
}

static void list(char *hex) {
        AUTO_BUF struct buf out = { 0 };
        const size_t n = unhex(hex);

        if (gitconfig_parse(hex, n, add, &out, NULL) < 0) {
                puts("-");
                return;
        }
        for (size_t i = 0; i < out.len; i++)
                (void) printf("%02x", (unsigned char) out.data[i]);
        puts("");
}

static void judge(const char *root, char *line) {
        AUTO_BUF struct buf reason = { 0 };
        char *hex = strrchr(line, ' ');
        size_t n;

        if (!hex)
                exit(2);
        *hex++ = '\0';
        n = unhex(hex);
        if (judge_content(root, line, hex, n, &reason))
                puts("lands");
        else
                (void) printf("held %s\n", buf_cstr(&reason));
}

int main(int argc, char **argv) {
        AUTO_FREE char *line = NULL;
        size_t size = 0;
        ssize_t n;

        if (argc < 2)
                return 2;
        while ((n = getline(&line, &size, stdin)) > 0) {
                line[n - (line[n - 1] == '\n')] = '\0';
                if (strcmp(argv[1], "list") == 0)
                        list(line);
                else
                        judge(argc > 2 ? argv[2] : NULL, line);
        }
        return 0;
}
