"""Scoring 100,000 stored generations again: a database made up for it, then `kvc rescore`.

usage: rescore_speed.py KVC [N] [TASK]; the generations are of GSM8K's kind, some 600 characters each.
"""
import os
import random
import re
import sqlite3
import subprocess
import sys
import tempfile
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
N_CELLS = 20
WORDS = "She had some apples and gave half of them to her friend so there are left Then 12 more 3.5 per $4 total".split()


def generation(rng, gold):
    lines = [" ".join(rng.choice(WORDS) for _ in range(rng.randrange(5, 25))) + "." for _ in range(8)]
    end = rng.choice([f"The answer is {gold}.", f"The answer is {gold + 1}.", "I do not know.", f"\n\nQuestion: {gold}"])
    return "\n".join(lines + [end])


def fill(path, n, task):
    rng = random.Random(1)
    db = sqlite3.connect(path)
    db.executescript(open(os.path.join(ROOT, "results", "schema.sql"), encoding="utf-8").read())
    columns = [row[1:3] for row in db.execute("PRAGMA table_info(sample)")]
    zeros = {name: 0 if kind != "TEXT" else "" for name, kind in columns}
    db.execute("INSERT INTO text VALUES ('p', 'Q')")
    for c in range(N_CELLS):
        cell = {row[1]: 0 if row[2] != "TEXT" else "{}" for row in db.execute("PRAGMA table_info(cell)")}
        cell.update(key=f"c{c}", task=task, n_samples=n // N_CELLS, kind="eval")
        db.execute(f"INSERT INTO cell VALUES ({', '.join('?' * len(cell))})", list(cell.values()))
        for i in range(n // N_CELLS):
            gold = rng.randrange(1000)
            row = dict(zeros, cell_key=f"c{c}", sample=i, status="ok", prompt_sha256="p", generation=generation(rng, gold), gold=str(gold))
            db.execute(f"INSERT INTO sample VALUES ({', '.join('?' * len(row))})", list(row.values()))
    db.commit()
    return db


def main():
    program = sys.argv[1]
    n = int(sys.argv[2]) if len(sys.argv) > 2 else 100_000
    task = sys.argv[3] if len(sys.argv) > 3 else "gsm8k/cot8"
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "made.sqlite")
        db = fill(path, n, task)
        for run in ("first", "again"):
            started = time.perf_counter()
            subprocess.run([program, "rescore", path], check=True)
            print(f"{run}: {n} generations in {time.perf_counter() - started:.2f} s")
        n_scores, n_answers, right = db.execute("SELECT count(*), count(answer), sum(value) FROM score WHERE extractor = 'gear'").fetchone()
        expected = 0
        for text, gold in db.execute("SELECT generation, gold FROM sample"):
            numbers = re.findall(r"\d*\.?\d+", text.split("\nQuestion: ")[0].replace(",", ""))
            expected += bool(numbers) and float(numbers[-1]) == float(gold)
        print(f"gear: {n_scores} scores, {n_answers} answers, {right:.0f} right; by Python's re {expected} right")


main()
