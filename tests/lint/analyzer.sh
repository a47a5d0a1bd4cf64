#!/bin/sh
# gcc -fanalyzer over everything but the tests, in the build directory $1, which is made anew: only a compiler that
# runs says something. What gcc 12 gets wrong is listed in analyzer.txt with the reason; anything else fails.
set -eu
cd "$(dirname "$0")/../.."
rm -rf "$1"
CC=gcc LC_ALL=C meson setup "$1" -Dtests=disabled \
        -Dc_args='-fanalyzer -fdiagnostics-plain-output -Wno-analyzer-use-of-uninitialized-value -Wno-analyzer-null-dereference' >/dev/null
LC_ALL=C ninja -C "$1" 2>&1 | grep -E 'warning: .*\[-W|error:' >"$1/said" || true
[ -x "$1/cofferdam" ] || { cat "$1/said"; exit 1; }
# "FILE: MESSAGE" without line numbers and those of values, which move
sed -E 's|^(\.\./)*([^:]*):[0-9]+:[0-9]+: warning: |\2: |; s/(\.[0-9]+)?_[0-9]+\b/_N/g' "$1/said" | LC_ALL=C sort -u >"$1/found"
grep -vE '^(#|$)' tests/lint/analyzer.txt | LC_ALL=C sort -u >"$1/known"
LC_ALL=C comm -23 "$1/found" "$1/known" >"$1/new"
[ ! -s "$1/new" ] || { echo 'new findings:'; grep -F "$(cut -d: -f1 "$1/new")" "$1/said"; exit 1; }
