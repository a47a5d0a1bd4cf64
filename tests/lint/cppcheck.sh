#!/bin/sh
# cppcheck, a second opinion (style rule 44)
# memleak, resourceLeak: do not follow __attribute__((cleanup)); gcc -fanalyzer does
# uninitvar, uninitStructMember: do not see that an output is set whenever a call returns 0; valgrind on the unit suite
#   and -Wmaybe-uninitialized do
# internalAstError: cannot parse TAKE_FD() inside an initialiser
# varFuncNullUB: NULL is a pointer in every C library of Linux; functions that end with one have attribute sentinel
# missingIncludeSystem: system headers are not read on purpose
set -eu
cd "$(dirname "$0")/../.."
git ls-files -z '*.c' | xargs -0 cppcheck -q -j "$(nproc)" --enable=warning,portability,performance --inline-suppr \
        --suppress=memleak --suppress=resourceLeak --suppress=uninitvar --suppress=uninitStructMember --suppress=internalAstError \
        --suppress=varFuncNullUB --suppress=missingIncludeSystem --error-exitcode=1 -I. --std=c11 -D_GNU_SOURCE -D__x86_64__
