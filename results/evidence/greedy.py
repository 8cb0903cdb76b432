#!/usr/bin/env python3
"""Are the answers at full precision the ones that Hugging Face transformers gives in fp32 with the same weights?

usage: greedy.py PROGRAM FILE.gguf DATABASE TASK N     (PROGRAM: build/bin/kvc; KVC_DATA: the datasets)

Takes the first N answers of compressor `full` in DATABASE. transformers reads the prompt (its ids from `kvc prompt`) and
the answer's tokens in one pass: where its most likely token is the next one at every place, greedy decoding gives the same
answer. Prints a row per place where they differ, with the difference of the two logits, and the count of answers before
whose end none is.
"""
import json
import os
import sqlite3
import subprocess
import sys

import torch
from transformers import AutoModelForCausalLM

ANSWERS = """SELECT sample, token_ids_json FROM sample JOIN cell ON cell.key = cell_key
 WHERE plugin = 'full' AND task = ? AND status = 'ok' ORDER BY sample LIMIT ?"""


def prompt_ids(program, weights, task, sample):
    told = subprocess.run([program, "prompt", task, str(sample), "--model", weights, "--json"], check=True,
                          capture_output=True, text=True).stdout
    return json.loads(told)["ids"]


def differences(model, prompt, answer):
    """Places at which another token is the most likely one: place, kvc's token, transformers', difference of logits."""
    with torch.inference_mode():
        logits = model(torch.tensor([prompt + answer[:-1]]), logits_to_keep=len(answer)).logits[0]
    best = logits.max(-1)
    gaps = best.values - logits.gather(1, torch.tensor(answer)[:, None])[:, 0]
    return [(place, token, best.indices[place].item(), gaps[place].item())
            for place, token in enumerate(answer) if best.indices[place].item() != token]


def main(program, weights, database, task, n_answers):
    torch.set_num_threads(1)
    folder, name = os.path.split(os.path.abspath(weights))
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32).eval()
    store = sqlite3.connect(f"file:{os.path.abspath(database)}?mode=ro", uri=True)
    n_equal = n_tokens = n_read = 0
    print("| question | place | of | kvc's token | transformers' | logits apart |\n|--:|--:|--:|--:|--:|--:|")
    for sample, text in store.execute(ANSWERS, (task, n_answers)):
        answer = json.loads(text)
        found = differences(model, prompt_ids(program, weights, task, sample), answer)
        for place, ours, theirs, gap in found:
            print(f"| {sample} | {place} | {len(answer)} | {ours} | {theirs} | {gap:.4f} |", flush=True)
        n_read, n_equal, n_tokens = n_read + 1, n_equal + (not found), n_tokens + len(answer)
    print(f"\n{n_equal} of {n_read} answers ({n_tokens} tokens) are equal in every token.")


if __name__ == "__main__":
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    main(*sys.argv[1:5], int(sys.argv[5]))
