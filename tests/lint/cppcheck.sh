#!/bin/sh
# cppcheck, a second opinion (style rule 44)
# memleak: does not follow __attribute__((cleanup)); gcc -fanalyzer does
# missingIncludeSystem: system headers are not read on purpose
set -eu
cd "$(dirname "$0")/../.."
git ls-files -z '*.c' | xargs -0 cppcheck -q -j "$(nproc)" --enable=warning,portability,performance --inline-suppr \
        --suppress=memleak --suppress=missingIncludeSystem --error-exitcode=1 -I. --std=c11 -D_GNU_SOURCE -D__x86_64__
