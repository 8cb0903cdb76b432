"""KL, top-1 agreement, acceptance and likelihoods of text, and the tails of KL, by numpy in float64 from the logits
that a probe of the same task dumps.

usage: likelihood_numpy.py PROGRAM; exit code 77 where the Python packages are absent.
"""
import json
import os
import sqlite3
import subprocess
import sys
import tempfile

try:
    import numpy as np
    from safetensors.numpy import load_file
except ImportError as error:
    print(f"SKIP: {error}")
    sys.exit(77)

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
TASK = """version: 1
summary: a text
kind: likelihood
data: {file: t.txt, root: task, format: text}
fields: {text: text}
prompt: {template: "{text}"}
likelihood: {tokens: 300, prompt_tokens: 100, block: 1, reference: full}
"""
NAMES = ["full", "rtn", "kivi", "snapkv", "qjl"]
COMPRESSORS = """compressors:
  - full
  - rtn: {bits: 4}
  - kivi: {bits: 2, recent: 32}
  - snapkv: {capacity: 48, window: 16}
  - qjl
"""


def log_softmax(x):
    x = x.astype(np.float64) - x.max()
    return x - np.log(np.exp(x).sum())


def run(program, folder, name, more):
    with open(os.path.join(folder, name + ".yaml"), "w") as f:
        f.write(f"name: {name}\nmodel: models/demo\ntasks: [{folder}/tasks/s/t.yaml]\nlimit: 2\n{more}{COMPRESSORS}")
    subprocess.run([program, "run", os.path.join(folder, name + ".yaml"), "--db", os.path.join(folder, "x.sqlite")],
                   check=True, capture_output=True, env={**os.environ, "KVC_ROOT": ROOT})


def stored_tokens(db, plugin, sample):
    row = db.execute("SELECT position, nll, kl, acceptance, top1_same, tokens_json FROM token_likelihood JOIN cell"
                     " ON key = cell_key WHERE plugin = ? AND sample = ?", (plugin, sample)).fetchone()
    return row[0], *(np.frombuffer(b, "<f4") for b in row[1:4]), np.frombuffer(row[4], np.uint8), json.loads(row[5])


def check_tails(program, folder, all_kl, all_flips, all_accepted):
    table = subprocess.run([program, "table", "tails", "--db", os.path.join(folder, "x.sqlite"), "--format", "json"],
                           check=True, capture_output=True, text=True, env={**os.environ, "KVC_ROOT": ROOT}).stdout
    rows = {row["compressor"]: row for row in json.loads(table)["rows"]}
    for plugin in NAMES:
        row, kl = rows[plugin], np.concatenate(all_kl[plugin])
        for name, p in (("KL median [nats]", 0.5), ("p90 [nats]", 0.9), ("max [nats]", 1)):
            assert abs(row[name] - np.quantile(kl, p)) <= 0.006 * abs(np.quantile(kl, p)) + 1e-12, (plugin, name, row)
        assert row["p99 [nats]"] is None and row["p99.9 [nats]"] is None, row  # 400 tokens: 4 lie beyond the 99th
        assert row["top-1 flips"] == all_flips[plugin], (plugin, row)
        assert abs(row["acceptance [%]"] - 100 * np.mean(np.concatenate(all_accepted[plugin]))) < 1e-4, (plugin, row)
        at = int(kl.argmax())
        assert f" at {100 + at % 200}, window {at // 200} of " in row["token of the max"] or kl.max() == 0, (plugin, row)


def main():
    program, folder = sys.argv[1], tempfile.mkdtemp()
    os.makedirs(os.path.join(folder, "tasks", "s"))
    with open(os.path.join(folder, "tasks", "s", "t.yaml"), "w") as f:
        f.write(TASK)
    with open(os.path.join(folder, "tasks", "s", "t.txt"), "w") as f:
        f.write(open(os.path.join(ROOT, "tasks", "demo", "data", "swaps.jsonl")).read(6000))
    run(program, folder, "eval", "")
    run(program, folder, "probe", f"kind: probe\nprobe: {{measures: [kl], dump: {folder}/dump}}\n")
    db = sqlite3.connect(os.path.join(folder, "x.sqlite"))
    worst, n, largest = 0.0, 0, 0.0
    all_kl, all_flips, all_accepted = {x: [] for x in NAMES}, dict.fromkeys(NAMES, 0), {x: [] for x in NAMES}
    for sample in range(2):
        dumps = [load_file(os.path.join(folder, "dump", f"s_t-{sample}-{i}.safetensors")) for i in range(len(NAMES))]
        for plugin, d in zip(NAMES, dumps):
            rows = db.execute("SELECT l.nll, l.kl, l.n_top1_same FROM likelihood AS l JOIN cell ON key = cell_key"
                              " WHERE plugin = ? AND sample = ? ORDER BY l.position", (plugin, sample)).fetchall()
            ids = d["answer"]
            assert len(rows) == len(ids) == 200 and len(d["logits_held"]) == 199, (len(rows), len(ids))
            assert rows[0][1:] == (0, 1), rows[0]  # the exact prefill's own logits
            position, nlls, kls, accepted, sames, texts = stored_tokens(db, plugin, sample)
            assert position == 100 and len(texts) == 200 and "".join(texts).strip() != "", (position, texts)
            assert np.abs(kls - [row[1] for row in rows]).max() < 1e-6 and (sames == [row[2] for row in rows]).all()
            assert np.abs(nlls - [row[0] for row in rows]).max() < 1e-5
            all_kl[plugin].append(kls.astype(np.float64))
            all_accepted[plugin].append(accepted.astype(np.float64))
            all_flips[plugin] += int((sames == 0).sum())
            for t, (nll, kl, same) in enumerate(rows[1:]):
                exact, held = log_softmax(dumps[0]["logits_held"][t]), log_softmax(d["logits_held"][t])
                wanted = (np.exp(exact) * (exact - held)).sum()
                worst = max(worst, abs(nll + held[ids[t + 1]]), abs(kl - wanted))
                largest = max(largest, wanted)
                share = np.minimum(np.exp(exact), np.exp(held)).sum()
                assert abs(share - accepted[t + 1]) < 1e-6, (plugin, sample, t, share)
                n += 1
                assert same == (exact.argmax() == held.argmax()), (plugin, sample, t)
                assert plugin != "full" or kl == 0, (sample, t, kl)
    check_tails(program, folder, all_kl, all_flips, all_accepted)
    print(f"{n} tokens, KL up to {largest:.3f}, off by at most {worst:.2e}")
    assert n == 2 * len(NAMES) * 199 and largest > 0.1 and worst < 1e-10


main()
