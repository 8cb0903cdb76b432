"""What gcov's JSON says of one room: coverage.py ROOM < lines. A line of Markdown a file, then the room's."""

import json
import sys
from collections import defaultdict

room = sys.argv[1]
branches = defaultdict(list)  # of a line: for each branch how often it was taken, in all objects
for text in sys.stdin:
    for file in json.loads(text)["files"]:
        name = file["file"]
        if f"harness/{room}/" not in name:
            continue
        for line in file["lines"]:
            taken = [branch["count"] for branch in line["branches"] if not branch["throw"]]
            key = (name.split(f"harness/{room}/")[1], line["line_number"], line.get("function_name", ""))
            before = branches[key] or [0] * len(taken)
            branches[key] = [a + b for a, b in zip(before, taken)]

by_file = defaultdict(lambda: [0, 0])
missed = defaultdict(set)
for (name, number, _), taken in branches.items():
    by_file[name][0] += sum(count > 0 for count in taken)
    by_file[name][1] += len(taken)
    if 0 in taken:
        missed[name].add(number)
for name, (taken, all_) in sorted(by_file.items()):
    if taken < all_:
        print(f"| {room}/{name} | {taken} of {all_} | {', '.join(map(str, sorted(missed[name])))} |")
taken, all_ = (sum(counts[i] for counts in by_file.values()) for i in (0, 1))
print(f"| **{room}** | {taken} of {all_}, {100 * taken / max(1, all_):.1f} % | |")
