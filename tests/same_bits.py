"""Whether batch, threads, workers, order, shared prefixes, sweeps and interruptions change a bit of any plugin's answers.

usage: same_bits.py PROGRAM [--limit 1]
configs/every_plugin.yaml in several ways, each compared, sample by sample, with one at a time on one thread: generations,
token ids, measured bytes, encoded tokens and errors of reconstruction. Exit code 1 where one differs.
"""
import argparse
import os
import re
import sqlite3
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROWS = """SELECT plugin, options_json, task, sample, status, generation, token_ids_json, kv_bytes, n_encoded_tokens, k_error,
          v_error FROM sample JOIN cell ON key = cell_key"""


def reversed_compressors(text):
    head, entries = text.split("compressors:\n")
    return head + "compressors:\n" + "\n".join(reversed(entries.rstrip("\n").split("\n"))) + "\n"


def ways(text):
    alone = {"workers": 1, "batch_size": 1, "threads": 1}
    few, many = (re.sub(r"\[2, 4\]", bits, text) for bits in "24")
    yield "one at a time", [(text, alone)]
    yield "batch of 7", [(text, {**alone, "batch_size": 7})]
    yield "batch of 32, 2 threads", [(text, {**alone, "batch_size": 32, "threads": 2})]
    yield "2 threads", [(text, {**alone, "threads": 2})]
    yield "2 workers, other order", [(reversed_compressors(text), {**alone, "workers": 2, "batch_size": 7})]
    yield "prefixes not shared", [(text, {**alone, "batch_size": 7, "share_prefix": "false"})]
    yield "sweeps apart, resumed", [(few, {**alone, "batch_size": 7}), (many, alone), (text, {**alone, "batch_size": 32})]


def rows_of(program, runs, limit):
    with tempfile.TemporaryDirectory() as folder:
        database, experiment = os.path.join(folder, "r.sqlite"), os.path.join(folder, "e.yaml")
        for text, settings in runs:
            with open(experiment, "w") as file:
                file.write(text)
            chosen = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
            subprocess.run([program, "run", experiment, "--limit", str(limit), "--db", database, *chosen],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "KVC_ROOT": ROOT})
        return {row[:4]: row[4:] for row in sqlite3.connect(database).execute(ROWS)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--limit", type=int, default=1)
    args = parser.parse_args()
    with open(os.path.join(ROOT, "configs/every_plugin.yaml")) as file:
        text = file.read()
    expected, n_compared, n_other = None, 0, 0
    for name, runs in ways(text):
        found = rows_of(args.program, runs, args.limit)
        if expected is None:
            expected = found
        other = [key for key in expected.keys() | found.keys() if expected.get(key) != found.get(key)]
        print(f"{name}: {len(found)} samples, {len(other)} differ", *other[:3], flush=True)
        n_compared += len(found) if found is not expected else 0
        n_other += len(other)
    print(f"{n_compared} comparisons, {n_other} differ")
    sys.exit(1 if n_other > 0 or n_compared == 0 else 0)


if __name__ == "__main__":
    main()
