#!/usr/bin/env python3
"""Prints "PASSED FAILED SKIPPED" of a meson test log (testlog.json), counting each function of TAP and cmocka programs.

A program that was killed, timed out or failed without naming a function counts as one failure more.
What failed in a TAP program, which meson does not show, and what was skipped is listed on stderr with its reason.
With COFFERDAM_MUST_WORK=1 a skip counts as failed, except for the reasons of MAY_SKIP and what the other half of a
script that runs as root and as a user tries.
"""
import json
import os
import re
import sys

# A skip that begins so is right also on a machine where everything must work.
MAY_SKIP = {
    "offline:": "the npm registry is not reachable; nothing in the repository can change that",
    "opt-in:": "a server that the machine has to be given on purpose",
    "case says:": "a case script names on its first lines what it skips without",
}
# Of the two runs of a script, "NAME-root" and "NAME-user", one cannot try what begins so; the other must.
OTHER_HALF = {"user": "only root ", "root": "only a user "}
MUST_WORK = bool(os.environ.get("COFFERDAM_MUST_WORK"))

LINE = re.compile(r"^(not )?ok\b[^#]*(?:# *(skip|todo)\b *(.*))?", re.I)
CMOCKA = re.compile(r"^\[ *(RUN|OK|SKIPPED) *\] (\w+)$", re.M)
GOOD, SKIPPED = {"OK", "EXPECTEDFAIL"}, {"SKIP"}


def skip(program, test, reason):
    """(failed, skipped) for one skip"""
    fine = (*MAY_SKIP, OTHER_HALF.get(program.rpartition("-")[2], "\n"))
    failed = MUST_WORK and not reason.startswith(fine)
    print(f"   {'skipped, must work' if failed else 'skipped'}: {program}: {test}{reason}", file=sys.stderr)
    return (1, 0) if failed else (0, 1)


def count_cmocka(run, lines):
    named = {kind: {name for k, name in lines if k == kind} for kind in ("RUN", "OK", "SKIPPED")}
    sums = [skip(run["name"], name, "") for name in sorted(named["SKIPPED"])]
    failed = len(named["RUN"] - named["OK"] - named["SKIPPED"]) + sum(f for f, _ in sums)
    return len(named["OK"]), failed or run["result"] not in GOOD, sum(s for _, s in sums)


def failure(program, lines):
    """what a test says of its failure: the line and the comments behind it"""
    print(f"   FAILED: {program}: {lines[0]}", file=sys.stderr)
    for line in lines[1:]:
        if not line.startswith("#"):
            break
        print(f"      {line}", file=sys.stderr)


def count(run):
    cmocka = CMOCKA.findall(run.get("stdout", "") + run.get("stderr", ""))
    if cmocka:
        return count_cmocka(run, cmocka)
    passed = failed = skipped = 0
    lines = run.get("stdout", "").splitlines()
    for i, line in enumerate(lines):
        found = LINE.match(line)
        if not found:
            continue
        if found[2] and found[2].lower() == "skip":
            more = skip(run["name"], f"{line.split(' # ')[0]}: ", found[3])
            failed, skipped = failed + more[0], skipped + more[1]
        elif found[1]:
            failure(run["name"], lines[i:])
            failed += 1
        else:
            passed += 1
    if run["result"] in SKIPPED and failed + skipped == 0:
        failed, skipped = skip(run["name"], "", run.get("stdout", "").partition("# SKIP ")[2].strip())
    elif run["result"] in GOOD and passed + skipped == 0:
        passed = 1
    elif run["result"] not in GOOD | SKIPPED and failed == 0:
        failed = 1
    return passed, failed, skipped


def main():
    if not os.path.exists(sys.argv[1]):
        sys.exit(f"sum.py: no results in {sys.argv[1]}: the suite did not run")
    with open(sys.argv[1], encoding="utf-8") as log:
        sums = [sum(column) for column in zip(*(count(json.loads(line)) for line in log))]
    if not sum(sums):
        sums = [0, 1, 0]  # a suite without tests has not been tested
    print(*sums)


main()
