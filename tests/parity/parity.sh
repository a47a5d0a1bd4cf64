#!/usr/bin/env bash
# The same specification on every driver that this host offers; arguments choose cases by a part of their name or group.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/../integration/lib.sh"

drivers=(native)

mkdir "$T/cases"
cd "$T/cases" || exit 99
python3 "$TOP/tests/parity/parity.py" --only "${1-}" "$C" "${drivers[@]}"
