#!/usr/bin/env python3
"""Table of {name, value, unit, peer, round} lines: for each item the bare median and how many times slower the sandbox
is (above 1 is slower), as the median over the rounds of the ratio within a round. Items named cold are left out: a
sandbox cannot drop caches."""
import json
import statistics
import sys
from collections import defaultdict

runs, units = defaultdict(dict), {}
for line in open(sys.argv[1], encoding="utf-8"):
    item = json.loads(line)
    if "cold" not in item.get("name", "cold"): # without a name: it failed
        units[item["name"]] = item["unit"]
        runs[item["name"], item["peer"]][item["round"]] = item["value"]

print("| item                   | bare              | sandbox, times slower |")
print("|------------------------|-------------------|-----------------------|")
slower = []
for name, unit in units.items():
    bare, boxed = runs[name, "bare"], runs[name, "boxed"]
    ratios = [boxed[r] / bare[r] if unit in ("s", "us") else bare[r] / boxed[r] for r in bare if bare[r] and boxed.get(r)]
    if not ratios:
        print(f"| {name:<22} | {'':<17} | {'did not run':<21} |")
        continue
    slower.append(statistics.median(ratios))
    print(f"| {name:<22} | {statistics.median(bare.values()):>10.5g} {unit:<6} | {slower[-1]:>21.2f} |")
if not slower:
    sys.exit("nothing was measured")
print(f"| geometric mean         |                   | {statistics.geometric_mean(slower):>21.2f} |")
