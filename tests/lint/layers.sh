#!/bin/sh
# Nothing includes upward or sideways (style rule 1). A folder may include what stands on an earlier line.
set -eu
cd "$(dirname "$0")/../.."
layers='runtime/base
runtime/spec
runtime/agent fs netns
auth runtime/agent/runner
kubernetes
drivers
runtime/run
runtime/agent/launch
runtime/lib
cli image'
# shellcheck disable=SC2016 # an awk program
git ls-files '*.c' '*.h' | xargs grep -nE '^#include "' | awk -v layers="$layers" '
        BEGIN {
                n = split(layers, line, "\n")
                for (i = 1; i <= n; i++) {
                        m = split(line[i], folder, " ")
                        for (j = 1; j <= m; j++) level[folder[j]] = i
                }
        }
        # the layer a path belongs to: drivers/native and fs/x count as drivers and fs
        function owner(path,   part, n) {
                n = split(path, part, "/")
                if (path ~ /^runtime\/agent\/launch/) return "runtime/agent/launch" # the trusted side: drives runs
                if (path ~ /^runtime\/agent\/runner/) return "runtime/agent/runner" # the contained side
                if (part[1] == "runtime") return part[1] "/" part[2]
                return n > 1 ? part[1] : ""
        }
        {
                split($0, f, ":"); from = owner(f[1])
                match($0, /"[^"]*"/); to = owner(substr($0, RSTART + 1, RLENGTH - 2))
                if (from == "tests") next
                if (!(from in level) || !(to in level)) { print f[1] ":" f[2] ": unknown layer: " $0; bad = 1 }
                else if (from != to && level[to] >= level[from]) {
                        print f[1] ":" f[2] ": " from " may not include " to; bad = 1
                }
        }
        END { exit bad }'
