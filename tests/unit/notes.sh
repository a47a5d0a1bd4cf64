#!/bin/sh
# Every object of ours says that its indirect jumps have landing pads (and calls a shadow stack, on x86-64). The static
# executable cannot say so: Debian's libraries do not (docs/adr/028). Goes red when meson.build loses -fcf-protection=full.
# Usage: notes.sh BUILD-DIRECTORY
set -eu
case $(uname -m) in
x86_64) want='x86 feature: IBT, SHSTK' ;;
aarch64) want='AArch64 feature: BTI' ;;
*) exit 0 ;;
esac
n=0
list=$(find "$1" -path "$1/tests" -prune -o -name '*.c.o' -print)
while read -r object; do
        n=$((n + 1))
        readelf -nW "$object" | grep -qF "$want" || { echo "$object: no note '$want'"; exit 1; }
done <<TXT
$list
TXT
[ "$n" -gt 100 ] || { echo "only $n objects in $1"; exit 1; }
echo "$n objects"
