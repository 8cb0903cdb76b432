"""The decoder against Hugging Face transformers in fp32, on a random checkpoint of every kind and on the demo model
where it is there.

usage: logits_parity.py PROGRAM [MODEL_DIR ...]; exit code 77 where the Python packages are absent.
"""
import json
import os
import subprocess
import sys
import tempfile

try:
    import torch
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM
    from random_checkpoints import random_checkpoints
except ImportError as error:
    print(f"SKIP: {error}")
    sys.exit(77)

N_TOKENS, N_GREEDY = 300, 64
TOLERANCE = 1e-4  # on the random checkpoints
# A trained model may magnify rounding beyond that: two fp32 implementations then differ by a few times what the one
# differs from itself in fp64 (where it still takes softmax, norms and rotation in fp32).
TIMES_OWN_ERROR = 4


@torch.no_grad()
def reference(folder, ids):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    logits = model(torch.tensor([ids])).logits[0]
    out = model(torch.tensor([ids]), use_cache=True)
    greedy, margins = [], []
    for _ in range(N_GREEDY):
        best = out.logits[0, -1].topk(2)
        greedy.append(best.indices[0].item())
        margins.append((best.values[0] - best.values[1]).item())
        out = model(torch.tensor([[greedy[-1]]]), past_key_values=out.past_key_values, use_cache=True)
    own_error = (model.double()(torch.tensor([ids])).logits[0] - logits).abs().max().item()
    return logits, greedy, margins, own_error


def compare(program, name, folder, trained, out):
    vocab = json.load(open(os.path.join(folder, "config.json")))["vocab_size"]
    ids = torch.randint(0, vocab, (N_TOKENS,), generator=torch.Generator().manual_seed(1)).tolist()
    logits, greedy, margins, own_error = reference(folder, ids)
    tolerance = max(TOLERANCE, TIMES_OWN_ERROR * own_error) if trained else TOLERANCE
    run = subprocess.run([program, folder, out, str(N_GREEDY)], input=" ".join(map(str, ids)), text=True,
                         stdout=subprocess.PIPE, check=True)
    ours = load_file(out)
    prefill = (ours["prefill"] - logits).abs().max().item()
    decode = (ours["decode"] - logits).abs().max().item()
    same = sum(a == b for a, b in zip(ours["greedy"].tolist(), greedy))
    print(f"{name}: prefill {prefill:.1e} decode {decode:.1e} (allowed {tolerance:.1e}) greedy {same}/{N_GREEDY} "
          f"(least margin {min(margins):.1e}) logits to {logits.abs().max():.1f} {run.stdout.strip()}")
    return prefill <= tolerance and decode <= tolerance and same == N_GREEDY


def main():
    program, models = sys.argv[1], sys.argv[2:]
    with tempfile.TemporaryDirectory() as root:
        checkpoints = [(name, folder, False) for name, folder in random_checkpoints(root)]
        checkpoints += [(m, m, True) for m in models if os.path.exists(os.path.join(m, "config.json"))]
        results = [compare(program, *checkpoint, os.path.join(root, "out.safetensors")) for checkpoint in checkpoints]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
