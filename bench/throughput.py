"""Useful tokens per second and peak memory: kvc's uncompressed cache against Hugging Face transformers' generate with
DynamicCache. Same random checkpoints (made on the spot), same prompts, greedy, CPU, 2 threads.

usage: throughput.py PROGRAM FULL.so TOKENIZER_DIR [--sizes 7M,100M] [--dtypes fp32,bf16] [--repeats 3]
Prompts of 700 to 900 tokens and 32 to 256 new ones, each its own number; transformers pads on the left and decodes a
batch until its longest request is done. The prefix part: 32 questions behind 832 shared tokens, prefill alone.
"""
import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import torch
from transformers import AutoModelForCausalLM, DynamicCache, LlamaConfig, LlamaForCausalLM

SIZES = {
    "7M": dict(hidden_size=256, intermediate_size=688, num_hidden_layers=4, num_attention_heads=4,
               num_key_value_heads=4, vocab_size=8192),
    "100M": dict(hidden_size=768, intermediate_size=2048, num_hidden_layers=11, num_attention_heads=12,
                 num_key_value_heads=12, vocab_size=16000),
}
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
THREADS = 2


def make_checkpoint(folder, size, tokenizer):
    torch.manual_seed(0)
    config = LlamaConfig(**SIZES[size], max_position_embeddings=2048, tie_word_embeddings=False, bos_token_id=None,
                         eos_token_id=None, initializer_range=0.05)
    LlamaForCausalLM(config).save_pretrained(folder, safe_serialization=True)
    shutil.copy(os.path.join(tokenizer, "tokenizer.json"), folder)
    return sum(p.numel() for p in LlamaForCausalLM(config).parameters())


def make_work(vocab, n, lengths, new_tokens, seed):
    rng = random.Random(seed)
    return {"prompts": [[rng.randrange(vocab) for _ in range(rng.choice(lengths))] for _ in range(n)],
            "new_tokens": [rng.choice(new_tokens) for _ in range(n)]}


@torch.no_grad()
def run_transformers(folder, work_file):
    work = json.load(open(work_file))
    torch.set_num_threads(THREADS)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=DTYPES[work["dtype"]]).eval()
    prompts, limits, batch = work["prompts"], work["new_tokens"], work["batch"]
    ids, start = [], time.perf_counter()
    for first in range(0, len(prompts), batch):
        group = prompts[first:first + batch]
        width = max(map(len, group))
        padded = torch.tensor([[0] * (width - len(p)) + p for p in group])
        mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in group])
        longest = max(limits[first:first + batch])
        out = model.generate(padded, attention_mask=mask, max_new_tokens=longest, do_sample=False, pad_token_id=0,
                             past_key_values=DynamicCache(config=model.config))
        ids += [row[width:width + limit].tolist() for row, limit in zip(out, limits[first:first + batch])]
    seconds = time.perf_counter() - start
    with open("/proc/self/status") as status:
        peak = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
    print(json.dumps({"ids": ids, "seconds": seconds, "peak_bytes": peak}))


def measure(command):
    out = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout
    return json.loads(out.splitlines()[-1])


def compare(args, folder, size, dtype, batch, n_prompts, root):
    config = SIZES[size]
    lengths, limits = ([900], [256]) if batch == 1 else (range(700, 901), range(32, 257))
    work = make_work(config["vocab_size"], n_prompts, lengths, limits, seed=batch)
    work |= {"dtype": dtype, "threads": THREADS, "batch": batch, "shared": 0}
    work_file = os.path.join(root, "work.json")
    json.dump(work, open(work_file, "w"))
    ours, theirs = [], []
    for _ in range(args.repeats):  # interleaved: the machine's moods hit both
        ours.append(measure([args.program, folder, work_file, args.full]))
        theirs.append(measure([sys.executable, __file__, "--transformers", folder, work_file]))
    useful = sum(work["new_tokens"])
    rate = lambda runs: useful / statistics.median(run["seconds"] for run in runs)
    same = sum(a == b for x, y in zip(ours[0]["ids"], theirs[0]["ids"]) for a, b in zip(x, y)) / useful
    element = 4 if dtype == "fp32" else 2
    heads = config["num_key_value_heads"] * (config["hidden_size"] // config["num_attention_heads"])
    tokens = statistics.mean(len(p) + n / 2 for p, n in zip(work["prompts"], work["new_tokens"]))
    embedding = config["vocab_size"] * config["hidden_size"] * element  # a step reads a row of it
    step_bytes = ours[0]["weights_bytes"] - embedding + \
        batch * tokens * 2 * heads * config["num_hidden_layers"] * element
    bandwidth = max(run["read_bytes_per_second"] for run in ours)
    step = statistics.median(run["median_step_seconds"] for run in ours)
    print(f"| {size} | {dtype} | {batch} | {rate(ours):.1f} | {rate(theirs):.1f} | {rate(ours) / rate(theirs):.2f} | "
          f"{max(r['peak_bytes'] for r in ours) / 2**20:.0f} | {max(r['peak_bytes'] for r in theirs) / 2**20:.0f} | "
          f"{step * 1e3:.2f} | {step_bytes / bandwidth * 1e3:.2f} | {100 * step_bytes / bandwidth / step:.0f} | "
          f"{bandwidth / 1e9:.1f} | {100 * same:.1f} |", flush=True)


def compare_prefix(args, folder, size, root):
    rng = random.Random(1)
    vocab = SIZES[size]["vocab_size"]
    shared = [rng.randrange(vocab) for _ in range(840)]
    prompts = [shared + [rng.randrange(vocab) for _ in range(rng.randrange(40, 90))] for _ in range(32)]
    seconds = {}
    for n_shared in [0, 840] * args.repeats:
        work = {"dtype": "fp32", "threads": THREADS, "batch": 1, "shared": n_shared, "prompts": prompts,
                "new_tokens": [1] * 32}
        work_file = os.path.join(root, "work.json")
        json.dump(work, open(work_file, "w"))
        run = measure([args.program, folder, work_file, args.full])
        for part in ("forward_seconds", "prefill_seconds"):
            seconds.setdefault((part, n_shared), []).append(run[part])
    for part, name in (("forward_seconds", "exact forward pass"), ("prefill_seconds", "with filling and checking caches")):
        alone, together = (statistics.median(seconds[part, n]) for n in (0, 840))
        print(f"32 questions behind 840 shared tokens, {size} fp32, {name}: one by one {alone:.2f} s, prefix once "
              f"{together:.2f} s, {alone / together:.2f} x", flush=True)


def main():
    if sys.argv[1] == "--transformers":
        return run_transformers(*sys.argv[2:])
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("full")
    parser.add_argument("tokenizer")
    parser.add_argument("--sizes", default="7M,100M")
    parser.add_argument("--dtypes", default="fp32,bf16")
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    print("| model | dtype | batch | kvc tokens/s | transformers tokens/s | ratio | kvc peak MiB | transformers peak MiB | "
          "step ms | step at read speed ms | % of it | read GB/s | same tokens % |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as root:
        for size in args.sizes.split(","):
            folder = os.path.join(root, size)
            make_checkpoint(folder, size, args.tokenizer)
            for dtype in args.dtypes.split(","):
                compare(args, folder, size, dtype, 1, 2, root)
                compare(args, folder, size, dtype, 8, 16, root)
            compare_prefix(args, folder, size, root)


if __name__ == "__main__":
    main()
