/*
 * A profile of system calls from an outsider. What is accepted keeps its bounds, compiles or says why not,
 * and is what the words of 'spec show' say; what is refused says so in one line.
 */
#include <errno.h>
#include <string.h>

#include "drivers/native/seccomp-profile.h"
#include "runtime/base/cleanup.h"
#include "tests/fuzz/fuzz.h"

enum { COMPILED_CALLS_MAX = 64 }; /* beyond, libseccomp takes the time of the fuzzer */

static void must(bool ok) {
        if (!ok)
                __builtin_trap();
}

static void check(const struct profile *profile) {
        struct profile_program program = { 0 };
        struct error err = { 0 };
        char word[32];
        int r;

        must(profile->n_calls <= PROFILE_CALLS_MAX);
        for (size_t i = 0; i < profile->n_calls; i++) {
                must(profile->calls[i].rule && profile->calls[i].n_args <= PROFILE_ARGS_MAX);
                must(profile->calls[i].rule->nr[SECCOMP_HOST] >= 0);
                for (size_t k = 0; k < profile->calls[i].n_args; k++)
                        must(profile->calls[i].args[k].arg < PROFILE_ARGS_MAX);
                profile_answer(profile, profile->calls[i].rule, word, sizeof(word));
                must(*word);
        }
        if (profile->n_calls > COMPILED_CALLS_MAX)
                return;
        r = profile_compile(profile, &program, &err);
        must(r == 0 ? program.len > 0 && program.len <= BPF_MAXINSNS
                    : err.code == r && *err.msg && !strchr(err.msg, '\n'));
        profile_program_deinit(&program);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        AUTO_PROFILE struct profile profile = { 0 };
        struct error err = { 0 };
        const int r = profile_parse((const char *) data, size, &profile, &err);

        if (r == 0)
                check(&profile);
        else
                must(err.code == r && *err.msg && !strchr(err.msg, '\n'));
        return 0;
}
