"""Perplexity of a text with the full cache, read token by token, against Hugging Face transformers on the same ids.

usage: likelihood_parity.py PROGRAM; exit code 77 where the Python packages are absent.
"""
import math
import os
import sqlite3
import subprocess
import sys
import tempfile

try:
    import torch
    from tokenizers import Tokenizer
    from transformers import AutoModelForCausalLM
except ImportError as error:
    print(f"SKIP: {error}")
    sys.exit(77)

torch.set_num_threads(1)
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
DEMO = os.path.join(ROOT, "models", "demo")
N_TOKENS = 400
TASK = f"""version: 1
summary: a text
kind: likelihood
data: {{file: t.txt, root: task, format: text}}
fields: {{text: text}}
prompt: {{template: "{{text}}"}}
likelihood: {{tokens: {N_TOKENS}, prompt_tokens: 1, block: 64, reference: full}}
"""


@torch.no_grad()
def perplexities(text):
    model = AutoModelForCausalLM.from_pretrained(DEMO, dtype=torch.float32, attn_implementation="eager").eval()
    ids = Tokenizer.from_file(os.path.join(DEMO, "tokenizer.json")).encode(text).ids
    bos, ids = ids[:1], ids[1:]  # every window begins with it
    for begin in range(0, len(ids) - N_TOKENS + 2, N_TOKENS - 1):
        window = torch.tensor([bos + ids[begin:begin + N_TOKENS - 1]])
        yield math.exp(model(window, labels=window).loss.item())


def main():
    program, folder = sys.argv[1], tempfile.mkdtemp()
    os.makedirs(os.path.join(folder, "tasks", "s"))
    text = open(os.path.join(ROOT, "tasks", "demo", "data", "swaps.jsonl")).read(6000)
    for name, content in [("t.yaml", TASK), ("t.txt", text)]:
        with open(os.path.join(folder, "tasks", "s", name), "w") as f:
            f.write(content)
    experiment, database = os.path.join(folder, "x.yaml"), os.path.join(folder, "x.sqlite")
    with open(experiment, "w") as f:
        f.write(f"name: x\nmodel: models/demo\ntasks: [{folder}/tasks/s/t.yaml]\ncompressors:\n  - full: {{dtype: fp32}}\n")
    subprocess.run([program, "run", experiment, "--db", database], check=True, capture_output=True,
                   env={**os.environ, "KVC_ROOT": ROOT})
    ours = sqlite3.connect(database).execute(
        "SELECT exp(sum(nll) / sum(n_tokens)) FROM likelihood GROUP BY sample ORDER BY sample").fetchall()
    theirs = list(perplexities(text))
    assert len(ours) == len(theirs) > 0, (len(ours), len(theirs))
    off = max(abs(a - b) / b for (a,), b in zip(ours, theirs))
    print(f"{len(ours)} windows of {N_TOKENS} tokens, perplexity {min(theirs):.3f} to {max(theirs):.3f}, off by {off:.1e}")
    assert off <= 1e-4


main()
