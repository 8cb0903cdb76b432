"""What gcov's JSON says of one room: coverage.py ROOM FOLDER < lines. A line of Markdown a file, then the room's.

A branch here is a way that a decision of the source may go. gcov lists more: two ways of each call, on and by an
exception; and those of what the compiler adds to destroy temporaries, on lines that decide nothing, or as pairs that
were never reached on a line whose own decisions were.
"""

import json
import re
import sys
from collections import defaultdict
from pathlib import Path

DECIDES = re.compile(r"\b(if|for|while|switch|case|KVC_CHECK)\b|\?|&&|\|\||\bcatch\b")


def decisions(branches):
    """Without the ways of calls: each is followed by its exception's."""
    kept = []
    for branch in branches:
        if branch["throw"]:
            if kept:
                kept.pop()
        else:
            kept.append(branch["count"])
    return kept


def of_source(counts, n_decisions):
    if n_decisions == 0:
        return []
    pairs = [counts[i : i + 2] for i in range(0, len(counts), 2)]
    while len(pairs) > n_decisions and [0, 0] in pairs:
        pairs.remove([0, 0])
    return [count for pair in pairs for count in pair]


room, root = sys.argv[1], Path(sys.argv[2])
branches = defaultdict(list)  # of a line: for each branch how often it was taken, in all objects
sources = {}
for text in sys.stdin:
    for file in json.loads(text)["files"]:
        name = file["file"]
        if f"harness/{room}/" not in name:
            continue
        name = name.split(f"harness/{room}/")[1]
        if name not in sources:
            sources[name] = (root / "harness" / room / name).read_text().splitlines()
        for line in file["lines"]:
            taken = decisions(line["branches"])
            key = (name, line["line_number"], line.get("function_name", ""))
            before = branches[key] or [0] * len(taken)
            branches[key] = [a + b for a, b in zip(before, taken)]

by_file = defaultdict(lambda: [0, 0])
missed = defaultdict(set)
for (name, number, _), counts in branches.items():
    taken = of_source(counts, len(DECIDES.findall(sources[name][number - 1])))
    by_file[name][0] += sum(count > 0 for count in taken)
    by_file[name][1] += len(taken)
    if 0 in taken:
        missed[name].add(number)
for name, (taken, all_) in sorted(by_file.items()):
    if taken < all_:
        print(f"| {room}/{name} | {taken} of {all_} | {', '.join(map(str, sorted(missed[name])))} |")
taken, all_ = (sum(counts[i] for counts in by_file.values()) for i in (0, 1))
print(f"| **{room}** | {taken} of {all_}, {100 * taken / max(1, all_):.1f} % | |")
