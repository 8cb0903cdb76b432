"""The decoder against Hugging Face transformers in fp32, on a random checkpoint of every kind and on the demo model
where it is there.

usage: logits_parity.py PROGRAM [MODEL_DIR ...]; exit code 77 where the Python packages are absent.
"""
import os
import subprocess
import sys
import tempfile

try:
    import torch
    from safetensors.torch import load_file
    from tokenizers import Tokenizer
    from transformers import AutoModelForCausalLM
    from random_checkpoints import random_checkpoints
except ImportError as error:
    print(f"SKIP: {error}")
    sys.exit(77)

torch.set_num_threads(1)  # tiny models: threads would only wait for each other
N_TOKENS, TOLERANCE = 300, 1e-4
N_GREEDY, N_GREEDY_DEMO, N_IN_BATCH = 100, 200, 25


@torch.no_grad()
def reference(model, ids, n_greedy):
    logits = model(torch.tensor([ids])).logits[0]
    out = model(torch.tensor([ids]), use_cache=True)
    greedy, margins = [], []
    for _ in range(n_greedy):
        best = out.logits[0, -1].topk(2)
        greedy.append(best.indices[0].item())
        margins.append((best.values[0] - best.values[1]).item())
        out = model(torch.tensor([[greedy[-1]]]), past_key_values=out.past_key_values, use_cache=True)
    return logits, greedy, margins


def token_ids(folder, model):
    """N_TOKENS ids: random ones, or for a model with a tokenizer the text it was made for.

    A trained model's sharp attention turns the last bits of fp32 into 1e-3 on ids that are no text: there the
    reference's own logits are as far from its float64 ones, and its two attention paths 1e-4 from each other.
    """
    if os.path.exists(os.path.join(folder, "tokenizer.json")):
        prompts = os.path.join(os.path.dirname(__file__), "..", "..", "..", "prompts", "demo")
        text = "".join(open(os.path.join(prompts, name)).read() for name in ["truth.txt", "swaps.txt"])
        return Tokenizer.from_file(os.path.join(folder, "tokenizer.json")).encode(text).ids[:N_TOKENS]
    return torch.randint(0, model.config.vocab_size, (N_TOKENS,), generator=torch.Generator().manual_seed(1)).tolist()


def loaded(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


def compare_ids(program, name, path, model, ids, n_greedy, out):
    """The program's model at `path` against transformers' on these ids."""
    logits, greedy, margins = reference(model, ids, n_greedy)
    run = subprocess.run([program, path, out, str(n_greedy)], input=" ".join(map(str, ids)), text=True,
                         stdout=subprocess.PIPE, check=True)
    ours = load_file(out)
    prefill = (ours["prefill"] - logits).abs().max().item()
    decode = (ours["decode"] - logits).abs().max().item()
    same = sum(a == b for a, b in zip(ours["greedy"].tolist(), greedy))
    in_batch = sum(sum(a == b for a, b in zip(row, reference(model, ids[:length], N_IN_BATCH)[1]))
                   for row, length in zip(ours["batch_greedy"].tolist(), ours["lengths"].tolist()))
    print(f"{name}: prefill {prefill:.1e} decode {decode:.1e} greedy {same}/{n_greedy} "
          f"batch of 5 behind one prefix {in_batch}/{5 * N_IN_BATCH} "
          f"(least margin {min(margins):.1e}) logits to {logits.abs().max():.1f} {run.stdout.strip()}")
    return prefill <= TOLERANCE and decode <= TOLERANCE and same == n_greedy and in_batch == 5 * N_IN_BATCH


def main():
    program, models = sys.argv[1], sys.argv[2:]
    with tempfile.TemporaryDirectory() as root:
        out = os.path.join(root, "out.safetensors")
        results = [compare_ids(program, name, folder, model, token_ids(folder, model), N_GREEDY, out)
                   for name, folder, model in random_checkpoints(root)]
        for folder in models:
            if os.path.exists(os.path.join(folder, "config.json")):
                model = loaded(folder)
                results.append(compare_ids(program, folder, folder, model, token_ids(folder, model), N_GREEDY_DEMO, out))
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
