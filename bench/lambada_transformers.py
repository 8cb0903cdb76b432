"""The last word of LAMBADA's first texts by Hugging Face transformers in fp32, which reads the same GGUF file as kvc: the
share of words whose every token is the most likely one, and the mean log likelihood of a word. Next to kvc's
`tasks: [lambada/openai]` with `compressors: [full]`; see results/models/README.md.

usage: lambada_transformers.py FILE.gguf lambada_test.jsonl N_TEXTS
"""
import json
import os
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def main(path, texts, n_texts):
    folder, name = os.path.split(os.path.abspath(path))
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32).eval()
    n_right, total = 0, 0.0
    for n, line in zip(range(1, n_texts + 1), open(texts)):
        text = json.loads(line)["text"]
        context = tokenizer(text[:text.rindex(" ")])["input_ids"]
        ids = tokenizer(text)["input_ids"]
        word = ids[len(context):]
        assert ids[:len(context)] == context and word, text
        with torch.inference_mode():
            scores = model(torch.tensor([ids[:-1]])).logits[0, len(context) - 1:].log_softmax(-1)
        n_right += scores.argmax(-1).tolist() == word
        total += scores.gather(1, torch.tensor(word)[:, None]).sum().item()
        if n % 50 == 0 or n == n_texts:
            print(f"{n} texts: {100 * n_right / n:.1f} % right, mean log likelihood {total / n:.4f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
