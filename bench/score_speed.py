"""Scoring of LongBench's 21 prediction files: ours against the official rule in Python, in turns within one run.

usage: score_speed.py KVC PREDICTIONS_FOLDER [REPEATS]; needs the test environment's jieba, rouge and Levenshtein.
Python gets its dictionary from its own cache; the time of our process includes reading it.
"""
import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "tests", "task"))
from official_rules import LONGBENCH, jieba, longbench_score  # noqa: E402


def official(folder):
    scores = {}
    for name in LONGBENCH:
        with open(os.path.join(folder, name + ".jsonl"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        values = [longbench_score(name, line, lines[-1]["all_classes"]) for line in lines]
        scores[name] = 100 * sum(values) / len(values)
    return scores


def ours(program, folder):
    result = subprocess.run([program, "score", "longbench", folder, "--json"], stdout=subprocess.PIPE, check=True)
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    return {row["task"].split("/")[1]: row["score"] for row in rows}


def timed(call):
    started = time.perf_counter()
    return call(), time.perf_counter() - started


def main():
    program, folder = sys.argv[1:3]
    repeats = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    jieba.initialize()
    for _ in range(repeats):
        ours_scores, ours_seconds = timed(lambda: ours(program, folder))
        theirs_scores, theirs_seconds = timed(lambda: official(folder))
        worst = max(abs(ours_scores[name] - score) for name, score in theirs_scores.items())
        print(f"{len(ours_scores)} files: Python {theirs_seconds:.2f} s, kvc score {ours_seconds:.2f} s, "
              f"{theirs_seconds / ours_seconds:.1f} x; largest difference of a score {worst:.2e} points")


main()
