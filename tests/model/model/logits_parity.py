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
def logits_of(model, ids):
    return model(torch.tensor([ids])).logits[0]


def greedy_equal(model, ids, continuation):
    """Checks a greedy continuation in one forward pass: the number of its tokens that are the model's top-1 prediction
    given all tokens before them, and the smallest margin between top-1 and top-2. If every token is top-1, the model's
    own greedy decoding produces the same continuation, by induction."""
    best = logits_of(model, ids + continuation[:-1])[len(ids) - 1:].topk(2)
    same = (best.indices[:, 0] == torch.tensor(continuation)).sum().item()
    return same, (best.values[:, 0] - best.values[:, 1]).min().item()


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
    logits = logits_of(model, ids)
    run = subprocess.run([program, path, out, str(n_greedy)], input=" ".join(map(str, ids)), text=True,
                         stdout=subprocess.PIPE, check=True)
    ours = load_file(out)
    prefill = (ours["prefill"] - logits).abs().max().item()
    decode = (ours["decode"] - logits).abs().max().item()
    same, margin = greedy_equal(model, ids, ours["greedy"].tolist())
    in_batch = sum(greedy_equal(model, ids[:length], row[:N_IN_BATCH])[0]
                   for row, length in zip(ours["batch_greedy"].tolist(), ours["lengths"].tolist()))
    print(f"{name}: prefill {prefill:.1e} decode {decode:.1e} greedy {same}/{n_greedy} "
          f"batch of 5 behind one prefix {in_batch}/{5 * N_IN_BATCH} "
          f"(least margin {margin:.1e}) logits to {logits.abs().max():.1f} {run.stdout.strip()}")
    # fp32 rounds in proportion: on a machine without AVX-512 logits of 9 were 1.1e-4 apart
    allowed = TOLERANCE * max(1.0, logits.abs().max().item() / 5)
    return prefill <= allowed and decode <= allowed and same == n_greedy and in_batch == 5 * N_IN_BATCH


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
