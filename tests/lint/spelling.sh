#!/bin/sh
# codespell over every text; inputs of parsers are meant to be wrong
set -eu
cd "$(dirname "$0")/../.."
git ls-files -z | grep -zvE '^(LICENSE$|tests/fuzz/corpus/|tests/assets/)' |
        xargs -0 codespell --ignore-words=tests/lint/words.txt
