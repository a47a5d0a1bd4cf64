#!/usr/bin/env python3
"""Compares two transcripts of `calls` (scene, line, call, result), line by line.

   compare.py REGION DEVIATIONS BARE OTHER

A line that differs must be a documented deviation: one line of DEVIATIONS with the fields region, scene,
call, bare and other, each a regular expression for the whole text, between tabs. What fits no line of it is a failure."""
import re
import sys

SHOWN = 40


def deviations(path, region):
    fits = []
    with open(path, encoding="utf-8") as lines:
        for text in lines:
            if text.strip() and not text.startswith("#"):
                fields = [re.compile(f, re.S) for f in text.rstrip("\n").split("\t")]
                if len(fields) != 5:
                    sys.exit(f"{path}: want five fields: {text}")
                if fields[0].fullmatch(region):
                    fits.append(fields[1:])
    return fits


def main():
    region, path, bare_path, other_path = sys.argv[1:]
    with open(bare_path, encoding="utf-8", errors="surrogateescape") as f:
        bare = f.read().splitlines()
    with open(other_path, encoding="utf-8", errors="surrogateescape") as f:
        other = f.read().splitlines()
    fits, bad, allowed = deviations(path, region), 0, 0
    for one, two in zip(bare, other):
        if one == two:
            continue
        scene, line, call, want = one.split("\t", 3)
        scene2, line2, call2, got = two.split("\t", 3)
        if (scene, line, call) != (scene2, line2, call2):
            print(f"{region}: the transcripts part: {one} and {two}")
            return 1
        if any(all(p.fullmatch(t) for p, t in zip(f, (scene, call, want, got))) for f in fits):
            allowed += 1
            continue
        bad += 1
        if bad <= SHOWN:
            print(f"{region}: {scene}: line {line}: {call}: bare {want}, here {got}")
    if len(bare) != len(other):
        print(f"{region}: {len(bare)} lines, here {len(other)}")
        return 1
    print(f"{region}: {len(bare)} lines, {allowed} documented deviations, {bad} others")
    return bad > 0


sys.exit(main())
