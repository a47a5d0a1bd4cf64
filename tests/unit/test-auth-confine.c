#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "auth/confine.h"

/* In a child, which cannot get out of it again. Red without the call of load_filter(), or of prctl(). */
static void confine_service_leaves_no_program(void **state) {
        static char name[] = "/bin/true", *argv[] = { name, NULL }, *env[] = { NULL };
        int status = 0;
        pid_t pid;

        (void) state;
        pid = fork();
        assert_int_not_equal(pid, -1);
        if (pid == 0) {
                if (confine_service(NULL) < 0)
                        _exit(1);
                if (execve(name, argv, env) == 0 || errno != EPERM)
                        _exit(2);
                if (unshare(CLONE_NEWUSER) == 0 || errno != EPERM)
                        _exit(3);
                _exit(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0 ? 42 : 4);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 42);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(confine_service_leaves_no_program),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
