/* cofferdam-runner: see cofferdam-runner(1). An executable of its own, because TLS costs each start of the
 * other one */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/agent/runner/runner.h"
#include "runtime/agent/runner/tools.h"
#include "runtime/base/log.h"

enum { EXIT_USAGE = 2 };

static const char usage[] = "Usage: cofferdam runner [--tools]\n"
                            "\n"
                            "The side of `cofferdam launch` that runs inside a sandbox: speaks with it on\n"
                            "standard input and output. Not for use by hand; see cofferdam-runner(1).\n"
                            "\n"
                            "      --tools   only print the names of the tools that run here\n"
                            "  -h, --help    show this text\n"
                            "      --version show the version\n";

static int print_tools(void) {
        for (const char *const *name = tool_names(); *name; name++)
                puts(*name);
        return fflush(stdout) == 0 ? 0 : 1;
}

int main(int argc, char **argv) {
        for (int fd = 0; fd < 3; fd++) {
                if (fcntl(fd, F_GETFD) < 0 &&
                    open("/dev/null", O_RDWR) != fd) /* NOLINT(android-cloexec-open): stdio */
                        return EXIT_USAGE;
        }
        if (argc == 2 && strcmp(argv[1], "--tools") == 0)
                return print_tools();
        if (argc == 2 && strcmp(argv[1], "--version") == 0)
                return puts("cofferdam-runner " COFFERDAM_VERSION) < 0;
        if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
                return fputs(usage, stdout) < 0;
        if (argc > 1) {
                log_error("runner: it takes no arguments: see cofferdam-runner(1)");
                return EXIT_USAGE;
        }
        return runner_main(STDIN_FILENO, STDOUT_FILENO, environ);
}
