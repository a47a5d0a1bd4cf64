#!/bin/sh
# Each function and struct of a header has a comment right above it, and a header is a page or two (rules 5, 8);
# what _free and _deinit do is said once, in rule 10
set -eu
cd "$(dirname "$0")/../.."
# shellcheck disable=SC2016 # an awk program
git ls-files '*.h' | xargs awk '
        function complain(text) { print FILENAME ":" FNR ": " text; bad = 1 }
        FNR == 1 { documented = pragma = 0; first = $0 }
        /^#pragma once/ { pragma = 1 }
        /\*\/[ \t]*$/ { documented = 1; next } # the end of a comment, also of one line
        /^[a-z].*[a-z0-9_]\(/ && !/^(static inline|typedef|extern)/ && !/_(free|deinit)\(/ {
                if (!documented) complain("function without a comment: " $0)
        }
        /^struct [a-z_]+ \{/ { if (!documented) complain("struct without a comment: " $0) }
        /^[ \t]*$/ { documented = 0 } # a comment covers the group up to the next empty line
        FNR == 1 && first !~ /^\/\*/ { complain("a header starts with what it is for") }
        FNR == 250 && FILENAME != "runtime/lib/cofferdam.h" { complain("header of more than 250 lines") }
        END { exit bad }'
for h in $(git ls-files '*.h'); do
        grep -q '^#pragma once' "$h" || { echo "$h: no #pragma once"; exit 1; }
done
