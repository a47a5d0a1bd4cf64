#!/bin/sh
# ShellCheck over every shell script, found by its first line; -x follows the sourced library
set -eu
cd "$(dirname "$0")/../.."
git grep -lIE '^#!/(bin/sh|usr/bin/env (ba)?sh|bin/bash)' -- . ':!*.c' ':!*.md' | tr '\n' '\0' |
        xargs -0 shellcheck -x -P SCRIPTDIR
