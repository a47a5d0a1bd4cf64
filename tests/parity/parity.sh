#!/usr/bin/env bash
# The same specification on every driver that this host offers; arguments choose cases by a part of their name or group.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/../integration/lib.sh"
# shellcheck source=tests/integration/engine-lib.sh
. "$(dirname "$0")/../integration/engine-lib.sh"
# shellcheck source=tests/integration/kube-lab-lib.sh
. "$(dirname "$0")/../integration/kube-lab-lib.sh"

# layers have files of other users, which the program can remove
trap '"$C" image rm busy:1 >/dev/null 2>&1; "$C" image gc >/dev/null 2>&1; engines_clean; clean' EXIT

drivers=(native)
for engine in ${COFFERDAM_ENGINES-podman docker}; do
        # in a subshell: a skip ends it
        if (engine_ready "$engine") >"$T/out" 2>&1 </dev/null; then
                drivers+=("$engine=--image busy:1")
        elif [ -s "$T/skip" ]; then
                echo "# $engine: $(cat "$T/skip")"
                rm -f "$T/skip"
        else
                echo "not ok 0 - $engine cannot be made ready: $(tail -n 3 "$T/out" | tr '\n' ' ')"
        fi
done
# the same image for the native driver, which runs on the host's root as well
if [ -e "$E/ready-podman" ] && podman save -q --format docker-archive -o "$T/busy.tar" busy:1 &&
        "$C" image import -q "$T/busy.tar" busy:1; then
        drivers+=('native+image=--image busy:1')
else
        echo 'not ok 0 - the image for the native driver'
fi >"$T/import.out" 2>&1
grep '^not ok' "$T/import.out" && sed 's/^/#   /' "$T/import.out"

if [ -n "${COFFERDAM_K8S-}" ] && [ "$(id -u)" = 0 ]; then
        lab_ready
        namespace=cofferdam-parity-$$
        trap 'admin delete ns "$namespace" --wait=false >/dev/null 2>&1; lab_end; "$C" image rm busy:1 >/dev/null 2>&1; "$C" image gc >/dev/null 2>&1; engines_clean; clean' EXIT
        admin create ns "$namespace" >/dev/null && admin create sa worker -n "$namespace" >/dev/null &&
                lab_roles "$namespace" && lab_image lab.local/busy:$$ && lab_context "$namespace" "$namespace" worker &&
                drivers+=("kubernetes=--image lab.local/busy:$$") || echo 'not ok 0 - the lab cannot be made ready'
fi

mkdir "$T/cases"
cd "$T/cases" || exit 99
python3 "$TOP/tests/parity/parity.py" ${COFFERDAM_WRITE:+--write "$COFFERDAM_WRITE"} --document "$TOP/docs/parity.md" --only "${1-}" "$C" "${drivers[@]}"
