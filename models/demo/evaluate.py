#!/usr/bin/env python3
"""Exact match of the demo model on its held-out questions: few-shot, greedy, full precision.

    python models/demo/evaluate.py            # all 250 questions of each family
    python models/demo/evaluate.py --n 50     # the first 50 of each
"""
import argparse
import json
import math
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM, StoppingCriteria
from transformers.utils import logging

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FAMILIES = ("arithmetic", "swaps", "truth", "lookup")
PAD = 1


class BlankLine(StoppingCriteria):
    def __init__(self, newline):
        self.newline = newline

    def __call__(self, ids, scores, **_):
        return (ids[:, -1] == self.newline) & (ids[:, -2] == self.newline)


def extract(text):
    """What stands between the last "The answer is " and the full stop after it."""
    _, found, rest = text.partition("\n\n")[0].rpartition("The answer is ")
    return rest.partition(".")[0].strip() if found else None


def wilson(right, n, z=1.959964):
    p, d = right / n, 1 + z * z / n
    mid, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return (mid - half) / d, (mid + half) / d


@torch.inference_mode()
def family_score(model, tokenizer, family, n, batch=25, new_tokens=160, show=0):
    prompt = (ROOT / "prompts" / "demo" / f"{family}.txt").read_text()
    lines = (ROOT / "tasks" / "demo" / "data" / f"{family}.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines[:n]]
    stop = [BlankLine(tokenizer.token_to_id("Ċ"))]
    right, lengths = 0, []
    for at in range(0, len(rows), batch):
        part = rows[at:at + batch]
        ids = [tokenizer.encode(f"{prompt}Q: {row['question']}\nA:").ids for row in part]
        lengths += map(len, ids)
        width = max(map(len, ids))
        padded = torch.tensor([[PAD] * (width - len(i)) + i for i in ids])
        mask = torch.tensor([[0] * (width - len(i)) + [1] * len(i) for i in ids])
        out = model.generate(padded, attention_mask=mask, do_sample=False, eos_token_id=1,
                             pad_token_id=PAD, max_new_tokens=new_tokens, stopping_criteria=stop)
        for row, generated in zip(part, out[:, width:].tolist()):
            text = tokenizer.decode(generated)
            right += extract(text) == row["gold"]
            if extract(text) != row["gold"] and show > 0:
                show -= 1
                print(f"  [{family}] {row['question']}\n    want {row['answer']}\n    got {text!r}")
    return right, len(rows), min(lengths), max(lengths)


def evaluate(n=250, show=0, log=print, directory=HERE):
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    model = LlamaForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
    for family in FAMILIES:
        right, total, low, high = family_score(model, tokenizer, family, n, show=show)
        a, b = wilson(right, total)
        log(f"{family}: {right}/{total} = {100 * right / total:.1f} % "
            f"(95 % Wilson {100 * a:.1f} to {100 * b:.1f}), prompts of {low} to {high} tokens")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=250)
    parser.add_argument("--show", type=int, default=0, help="wrong answers to print per family")
    args = parser.parse_args()
    evaluate(args.n, args.show)
