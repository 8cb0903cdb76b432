"""chunked_prefill_parity.py KVC: prompts in chunks (`kvc logits --chunk`) against transformers with a cache that compresses
what each chunk brings, on random checkpoints in fp32: through earlier chunks, and through the chunk's own keys and values
as well; an eviction, whose budget holds after every chunk and which takes place once the chunk has attended, and a
quantizer."""
import itertools
import json
import os
import subprocess
import sys
import tempfile

try:
    import torch
    from safetensors.torch import load_file
    from transformers import DynamicCache
    from random_checkpoints import random_checkpoints
except ImportError as error:
    print(f"SKIP: {error}")
    sys.exit(77)

torch.set_num_threads(1)
N_PROMPT, N_MORE, N_MODELS, N_SINKS, N_RECENT = 150, 6, 4, 4, 50


def rounded(x):
    """bf16, of tokens [B, H, T, D]."""
    return x.bfloat16().float()


def first_and_last(x):
    """What the window compressor keeps."""
    return x if x.shape[2] <= N_SINKS + N_RECENT else torch.cat([x[:, :, :N_SINKS], x[:, :, -N_RECENT:]], 2)


class CompressingCache(DynamicCache):
    """Holds compress(what it was given); gives out what it held before and the new tokens, or what it holds after."""

    def __init__(self, compress, through_all):
        super().__init__()
        self.compress, self.through_all, self.held = compress, through_all, {}

    def update(self, k, v, layer, *args, **kwargs):
        held = self.held.get(layer)
        together = (k, v) if held is None else tuple(torch.cat([a, b], 2) for a, b in zip(held, (k, v)))
        self.held[layer] = tuple(self.compress(x) for x in together)
        return self.held[layer] if self.through_all else together


def causal_mask(held, queries):
    """Of tokens at the positions `held` for queries at positions `queries`."""
    hidden = held[None, :] > queries[:, None]
    return torch.zeros(hidden.shape).masked_fill(hidden, float("-inf"))[None, None]


@torch.no_grad()
def by_transformers(model, ids, chunk, through_all, compress):
    cache, held, rows = CompressingCache(compress, through_all), torch.arange(0), []

    def read(first, part):
        nonlocal held
        queries = torch.arange(first, first + len(part))
        together = torch.cat([held, queries])
        held = compress(together.view(1, 1, -1, 1).float()).flatten().long() if compress is first_and_last else together
        mask = causal_mask(held if cache.through_all else together, queries)
        out = model(torch.tensor([part]), past_key_values=cache, attention_mask=mask, position_ids=queries[None])
        return out.logits[0, -1]

    for first in range(0, N_PROMPT, chunk):
        last = read(first, ids[first:min(first + chunk, N_PROMPT)])
    cache.through_all = True  # a decode step reads its own token from the cache
    return torch.stack([last] + [read(t, [ids[t]]) for t in range(N_PROMPT, len(ids))])


def by_kvc(kvc, path, ids, chunk, through, compressor, folder):
    names = [os.path.join(folder, name) for name in ("ids.json", "out.safetensors")]
    json.dump(ids, open(names[0], "w"))
    subprocess.run([kvc, "logits", path, "--ids", names[0], "--output", names[1], "--compressor", compressor,
                    "--prompt-tokens", str(N_PROMPT), "--chunk", str(chunk), "--through", through], check=True)
    return load_file(names[1])["logits"]


def compare(kvc, name, path, model, folder):
    ids = torch.randint(0, model.config.vocab_size, (N_PROMPT + N_MORE,), generator=torch.Generator().manual_seed(3)).tolist()
    failed = False
    for compress, compressor, tolerance in METHODS:
        for chunk, through in itertools.product((37, 64, N_PROMPT), ("earlier", "all")):
            got = by_kvc(kvc, path, ids, chunk, through, compressor, folder)
            through_all = through == "all" and compress is not first_and_last
            expected = by_transformers(model, ids, chunk, through_all, compress)
            error = (got - expected).abs().max().item()
            print(f"{name}, {compressor}: chunks of {chunk}, through {through}: {error:.2e}")
            failed |= not error <= tolerance
    return failed


# A code of bf16 that is one off, because sums were rounded in another order, changes logits by some 1e-4.
METHODS = [(first_and_last, f"window: {{sinks: {N_SINKS}, recent: {N_RECENT}, precision: exact}}", 1e-4),
           (rounded, "full: {dtype: bf16}", 3e-3)]


def main(kvc):
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for name, path, model in itertools.islice(random_checkpoints(folder), N_MODELS):
            failed |= compare(kvc, name, path, model, folder)
    sys.exit(1 if failed else 0)


main(sys.argv[1])
