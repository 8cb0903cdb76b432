"""`kvc bench --predict`: bytes are the closed forms of full and token_group, times those bytes over the GPU's bandwidth
or the instructions of kernels.tsv over its issue slots, on tensor cores and without them, and nothing is stored; bad
input is one line.

Argument: the program.
"""

import csv
import io
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.abspath(sys.argv[1])
HEADS, KV_HEADS, TOKENS, BATCH = 8, 2, 640, 3
DIM, PLAIN_DIM = 64, 32  # served by attend_codes, and by products alone
SPLITS = 2               # of 512 tokens
FILE = f"""name: predicted
kind: bench
bench:
  layer: {{n_heads: {HEADS}, n_kv_heads: {KV_HEADS}, head_dim: {DIM}}}
  prompt_tokens: {TOKENS}
  new_tokens: 1
  batch: {BATCH}
dtype: fp16
compressors:
  - full
  - token_group: {{bits: 4, group_size: 32}}
"""
PLAIN = FILE.replace(f"head_dim: {DIM}", f"head_dim: {PLAIN_DIM}")
MODEL = FILE.replace(f"layer: {{n_heads: {HEADS}, n_kv_heads: {KV_HEADS}, head_dim: {DIM}}}", "model: models/demo")


def table(name):
    """{the first columns: {column: value}} of a table of harness/cuda."""
    with open(os.path.join(ROOT, "harness", "cuda", name), encoding="utf-8") as file:
        lines = [line.rstrip("\n").split("\t") for line in file if not line.startswith("#")]
    return [dict(zip(lines[0], line)) for line in lines[1:]]


def run(folder, *arguments, text=FILE):
    path = os.path.join(folder, "predicted.yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    words = [path if word == "FILE" else word for word in arguments]
    return subprocess.run([PROGRAM, "bench", *words], cwd=folder, capture_output=True, text=True)


def rows(done):
    assert done.returncode == 0, done.stdout + done.stderr
    return {row["compressor"]: row for row in csv.DictReader(io.StringIO(done.stdout))}


def near(found, wanted):
    assert abs(float(found) - wanted) <= 1e-9 * abs(wanted), (found, wanted)


def kernel(name, gpu):
    row = next(r for r in table("kernels.tsv") if r["kernel"] == name and r["architecture"] == gpu["architecture"])
    return {column: int(row[column]) for column in ("instructions", "tokens", "ffma")}


def of_plain_kernels(gpu, bits):
    """Instructions of scores and mixtures: a thread a token or a channel, in blocks of 128, four heads a number and what
    scale and zero cost."""
    turns = 4 + (bits < 16)
    scores = KV_HEADS * (TOKENS // 32) * PLAIN_DIM * turns
    mixtures = KV_HEADS * (PLAIN_DIM // 32) * TOKENS * turns
    issued = 0
    for name, multiply_adds in ((f"score_rows {bits}", scores), (f"weigh_rows {bits}", mixtures)):
        row = kernel(name, gpu)
        issued += BATCH * multiply_adds * row["instructions"] / row["ffma"]
    return issued


def of_tensor_cores(gpu, bits):
    """Instructions of whole tiles, and of two multiply-adds for each split's numbers, a thread a channel."""
    tiles, join = kernel(f"attend_codes f16 k{bits} v{bits} 8 {DIM}", gpu), kernel("join_splits", gpu)
    assert TOKENS % tiles["tokens"] == 0, tiles
    joined = HEADS * (DIM // 32) * SPLITS * 2
    return BATCH * (KV_HEADS * TOKENS // tiles["tokens"] * tiles["instructions"] +
                    joined * join["instructions"] / join["ffma"])


def times_of(gpu, read, issued):
    by_bytes = 1e3 * read / (float(gpu["gb_a_second"]) * 1e9)
    return by_bytes, 1e3 * issued / (4 * int(gpu["multiprocessors"]) * float(gpu["ghz"]) * 1e9)


def closed_forms(folder, text, dim, issued_by):
    for gpu in table("gpus.tsv"):
        found = rows(run(folder, "FILE", "--predict", gpu["gpu"], "--format", "csv", text=text))
        full, coded = found["full"], found["token_group"]
        numbers = KV_HEADS * dim * TOKENS * BATCH
        assert int(full["k recent [bytes]"]) == int(full["v recent [bytes]"]) == 2 * numbers
        sides = numbers // 32 * 2
        for tensor in "kv":
            assert int(coded[f"{tensor} codes [bytes]"]) == numbers // 2
            assert int(coded[f"{tensor} scales [bytes]"]) == int(coded[f"{tensor} zeros [bytes]"]) == sides
        for row, read, bits in ((full, 4 * numbers, 16), (coded, numbers + 4 * sides, 4)):
            by_bytes, by_slots = times_of(gpu, read, issued_by(gpu, bits))
            near(row["predicted by bytes [ms]"], by_bytes)
            near(row["predicted by instructions [ms]"], by_slots)
            near(row["predicted [ms]"], max(by_bytes, by_slots))
            assert row["bound by"] == ("bytes" if by_bytes >= by_slots else "instructions"), row
        near(coded["predicted over lossless [x]"], float(full["predicted [ms]"]) / float(coded["predicted [ms]"]))
    assert os.listdir(folder) == ["predicted.yaml"], os.listdir(folder)


def layers_are_counted(folder):
    """A model has as many layers' bytes as it has layers, without its weights' being read."""
    import json
    with open(os.path.join(ROOT, "models", "demo", "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    numbers = config["num_hidden_layers"] * config["num_key_value_heads"] * dim * TOKENS * BATCH
    text = MODEL.split("  - token_group")[0]
    row = rows(run(folder, "FILE", "--predict", "h100", "--format", "csv", text=text))["full"]
    assert int(row["k recent [bytes]"]) == 2 * numbers, (row, numbers)


def bad_input(folder):
    for words, said in ((["FILE", "--predict", "h10"],
                         "unknown GPU 'h10' (did you mean 'h100'?); known: h100, a100, h200, l40s"),
                        (["FILE"], "--predict is missing: one of h100, a100, h200, l40s"),
                        ([os.path.join(ROOT, "configs", "quickstart.yaml"), "--predict", "h100"],
                         "kind eval, expected bench"),
                        (["nowhere.yaml", "--predict", "h100"], "nowhere.yaml")):
        done = run(folder, *words)
        assert done.returncode == 2 and done.stdout == "" and said in done.stderr, done
        assert len(done.stderr.splitlines()) == 1, done.stderr


def main():
    with tempfile.TemporaryDirectory() as folder:
        closed_forms(folder, FILE, DIM, of_tensor_cores)
        closed_forms(folder, PLAIN, PLAIN_DIM, of_plain_kernels)
        layers_are_counted(folder)
        bad_input(folder)
        shown = run(folder, "FILE", "--predict", "a100")
        assert shown.stdout.startswith("**predicted, not measured: one decode step's attention on a100**"), shown.stdout


if __name__ == "__main__":
    main()
