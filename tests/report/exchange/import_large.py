"""kvc import of a samples file that is larger than the memory it may take: 300 MB in no more than a small one; and what a database
of imports alone shows.

Argument: the program.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile

PROGRAM = sys.argv[1]
MEGABYTES, MOST_MORE_MEGABYTES = 300, 20


def run(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True)


def main():
    with tempfile.TemporaryDirectory() as folder:
        file, database = os.path.join(folder, "samples_big.jsonl"), os.path.join(folder, "r.sqlite")
        line = json.dumps({"doc_id": 0, "doc": {"text": "x" * 9000}, "filter": "none", "metrics": ["acc"], "acc": 1.0})
        n_lines = MEGABYTES * 1_000_000 // len(line)
        with open(file, "w") as out:
            for _ in range(n_lines):
                out.write(line + "\n")
        bad = os.path.join(folder, "samples_bad.jsonl")
        with open(bad, "w") as out:
            out.write("{")
        small = os.path.join(folder, "samples_small.jsonl")
        with open(small, "w") as out:
            out.write(line + "\n")
        assert run("import", "lm-eval", small, "--db", database).returncode == 0
        least = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        done = run("import", "lm-eval", bad, file, "--db", database)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        assert done.returncode == 2, done.stderr  # for the bad one
        assert "kvc: skipped: " in done.stderr and "samples_bad.jsonl:1:" in done.stderr, done.stderr
        assert peak < least + MOST_MORE_MEGABYTES, f"{peak:.0f} MB instead of {least:.0f} for a file of {MEGABYTES} MB"
        table = run("table", "--db", database)
        assert table.returncode == 0 and f"mean of {n_lines} samples" in table.stdout, table.stdout + table.stderr
        page = os.path.join(folder, "page.html")
        report = run("report", database, "-o", page)
        assert report.returncode == 0, report.stderr
        assert "samples_big.jsonl" in open(page).read()
        print(f"{n_lines} samples, {MEGABYTES} MB read in {peak:.0f} MB of memory, one sample in {least:.0f}")


main()
