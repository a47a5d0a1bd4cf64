#!/bin/sh
# Man pages format without a warning
set -eu
cd "$(dirname "$0")/../.."
bad=0
for page in $(git ls-files 'docs/man/*.[1-8]'); do
        said=$(LC_ALL=C.UTF-8 MANROFFSEQ='' MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null)
        [ -z "$said" ] || { echo "$page: $said"; bad=1; }
done
exit $bad
