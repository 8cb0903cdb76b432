"""LongBench prompts as `kvc prompt` prints them, against the official rule over the Python package `tokenizers`: the template
filled by str.format, half of the limit from either end decoded without special tokens, joined, and encoded again.

usage: prompt_parity.py KVC"""
import json
import os
import subprocess
import sys

SKIP = 77


def main(kvc):
    try:
        from tokenizers import Tokenizer
    except ImportError:
        print("the Python package tokenizers is not there")
        return SKIP
    data = os.environ.get("KVC_DATA")
    if not data:
        print("KVC_DATA is not set: the folder that holds LongBench and the tokenizers")
        return SKIP
    folder = os.path.join(data, "tokenizers", "llama2")
    tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))

    def encode(text):
        ids = tokenizer.encode(text).ids
        return ids if ids[:1] == [1] else [1] + ids

    with open(os.path.join(data, "longbench_config", "dataset2prompt.json"), encoding="utf-8") as file:
        templates = json.load(file)
    n = n_cut = 0
    for name in ("multi_news", "multifieldqa_zh", "passage_retrieval_zh"):
        with open(os.path.join(data, "longbench_data", name + ".jsonl"), encoding="utf-8") as file:
            items = [json.loads(line) for line in file]
        for index in (7, 199):
            for limit in (501, 3500):
                text = templates[name].format(**items[index])
                ids = encode(text)
                n_before = len(ids)
                if n_before > limit:
                    half = limit // 2
                    text = tokenizer.decode(ids[:half]) + tokenizer.decode(ids[-half:])
                    ids = encode(text)
                    n_cut += 1
                command = [kvc, "prompt", "longbench/" + name, str(index), "--model", folder, "--context", "8192",
                           "--chat", "none", "--max-prompt-tokens", str(limit), "--json"]
                printed = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
                expected = {"text": text, "ids": ids, "n_tokens_before": n_before, "n_bos": 1}
                for key, value in expected.items():
                    if printed[key] != value:
                        print(f"{name} {index}, limit {limit}: {key} is {printed[key]!r:.200}, expected {value!r:.200}")
                        return 1
                n += 1
    print(f"{n} prompts, {n_cut} of them cut, are the same")
    return 0 if n_cut > 8 else 1


sys.exit(main(sys.argv[1]))
