/*
 * seccomp-table-aarch64.c - the system calls that only aarch64 has: none; see seccomp-table.c
 */
#include "drivers/native/seccomp.h"

const struct seccomp_rule seccomp_rules_arch[1];
const size_t n_seccomp_rules_arch = 0;
