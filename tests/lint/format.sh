#!/bin/sh
# clang-format decides the layout (style rule 46)
set -eu
cd "$(dirname "$0")/../.."
git ls-files -z '*.c' '*.h' | xargs -0 clang-format --dry-run -Werror
