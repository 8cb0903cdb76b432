#!/usr/bin/env python3
"""Writes docs/claims.md and the pages and pictures of this folder from the shards, claims.yaml and the pages' heads.

usage: make_pages.py [PROGRAM] [--check] [--database FILE]
PROGRAM: kvc's program (default: build/bin/kvc). --check writes nothing and fails where a page would change. --database:
these rows instead of the shards'. Needs PyYAML.
"""
import argparse
import glob
import os
import sqlite3
import subprocess
import sys
import tempfile

try:
    import yaml
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import claims_page
import gsm8k_page
import kl_page
import other_page
from evidence import Evidence

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
# Shards of other.md alone: tasks that the other pages do not read, or other settings of their windows.
APART = ("accumulated", "chat", "lambada", "longbench", "needles", "ruler", "seeds")


def keep_one_cell_a_row(rows):
    """Of a row that several experiments have, such as full precision, one cell of a task: builds differ, and a row is one."""
    seen, others = set(), []
    for *row, key in rows.execute("SELECT e.label, c.model, c.task, c.kind, c.key FROM cell AS c JOIN experiment_cell AS e ON e.cell_key = c.key"
                                  " GROUP BY e.label, c.key ORDER BY min(e.experiment), c.key"):
        if tuple(row) in seen:
            others.append((key,))
        seen.add(tuple(row))
    rows.execute("PRAGMA foreign_keys = ON")
    rows.executemany("DELETE FROM cell WHERE key = ?", others)


def merged(program, folder, apart):
    database = os.path.join(folder, f"evidence_{apart}.sqlite")
    shards = [shard for shard in sorted(glob.glob(os.path.join(HERE, "*.sqlite.xz"))) if os.path.basename(shard).startswith(APART) == apart]
    subprocess.run([program, "merge", database, *shards], check=True, stdout=subprocess.DEVNULL)
    if not apart:
        with sqlite3.connect(database) as rows:
            keep_one_cell_a_row(rows)
    return database


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", nargs="?", default=os.path.join(ROOT, "build", "bin", "kvc"))
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--database")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, open(os.path.join(HERE, "claims.yaml")) as file:
        evidence, others = (Evidence(arguments.program, arguments.database or merged(arguments.program, folder, apart)) for apart in (False, True))
        pages = {"docs/claims.md": claims_page.page(yaml.safe_load(file), evidence, others), "results/evidence/kl.md": kl_page.page(evidence),
                 "results/evidence/gsm8k.md": gsm8k_page.page(evidence), "results/evidence/other.md": other_page.page(others, evidence)}
        if not arguments.check:
            kl_page.draw(evidence, folder, os.path.join(ROOT, "docs", "images"))
    for name, text in pages.items():
        path = os.path.join(ROOT, name)
        if not arguments.check:
            with open(path, "w") as file:
                file.write(text)
            continue
        with open(path) as file:
            if file.read() != text:
                sys.exit(f"{name} is not what results/evidence/make_pages.py writes")


if __name__ == "__main__":
    main()
