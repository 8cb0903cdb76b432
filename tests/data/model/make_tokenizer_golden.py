"""Writes <name>/tokenizer.json and tokenizer_golden.json beside this file: what the `tokenizers` package (0.23.3) makes of some
hostile strings with three small tokenizers. usage: python make_tokenizer_golden.py"""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "model"))

from tokenizer_parity import FIXED
from tokenizer_variants import variants

NAMES = ["demo_like", "spm", "added"]
MORE = ["a<mask>b", "x  <end>  y", " [BOTH] z", "whole unwhole whole", "MiXed mixed RAW raw", "the the the", "lö löb", "<mask>"]

golden = {}
for name, tokenizer in variants():
    if name not in NAMES:
        continue
    os.makedirs(os.path.join(HERE, name), exist_ok=True)
    tokenizer.save(os.path.join(HERE, name, "tokenizer.json"), pretty=False)
    golden[name] = {"vocab_size": tokenizer.get_vocab_size(), "strings": []}
    for text in FIXED + MORE:
        ids = tokenizer.encode(text).ids
        golden[name]["strings"].append({"text": text, "ids": ids, "decoded": tokenizer.decode(ids), "all": tokenizer.decode(ids, skip_special_tokens=False)})
with open(os.path.join(HERE, "tokenizer_golden.json"), "w") as file:
    json.dump(golden, file, separators=(",", ":"))
    file.write("\n")
