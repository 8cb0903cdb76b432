"""The decoder against Hugging Face transformers in fp32, on random checkpoints and on the demo model where it is there.

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
    from tokenizers import Tokenizer
    from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM
except ImportError as error:
    print(f"SKIP: {error}")
    sys.exit(77)

N_TOKENS, N_GREEDY, TOLERANCE = 256, 200, 1e-4
torch.manual_seed(0)


def random_checkpoints(root):
    """(name, folder): GQA 1:1, 4:1, 8:1; tied and untied; one file and shards."""
    for n_kv_heads, tied, sharded in [(8, True, False), (2, False, True), (1, True, True), (1, False, False)]:
        model = LlamaForCausalLM(LlamaConfig(
            vocab_size=331, hidden_size=96, intermediate_size=200, num_hidden_layers=3, num_attention_heads=8,
            num_key_value_heads=n_kv_heads, head_dim=16, max_position_embeddings=1024, rope_theta=20000.0,
            rms_norm_eps=1e-6, tie_word_embeddings=tied, initializer_range=0.1, bos_token_id=1, eos_token_id=[2, 3]))
        for name, parameter in model.named_parameters():
            if "norm" in name:
                torch.nn.init.uniform_(parameter, 0.5, 1.5)
        name = f"gqa_{8 // n_kv_heads}{'_tied' if tied else ''}{'_sharded' if sharded else ''}"
        folder = os.path.join(root, name)
        model.save_pretrained(folder, max_shard_size="100KB" if sharded else "1GB")
        shards = [f for f in os.listdir(folder) if f.endswith(".safetensors")]
        assert (len(shards) > 1) == sharded, shards
        yield name, folder


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
    return logits, greedy, margins


def token_ids(folder):
    """N_TOKENS ids: random ones, or for a model with a tokenizer the text it was made for.

    A trained model's sharp attention turns the last bits of fp32 into 1e-3 on ids that are no text: there the
    reference's own logits are as far from its float64 ones, and its two attention paths 1e-4 from each other.
    """
    if os.path.exists(os.path.join(folder, "tokenizer.json")):
        prompts = os.path.join(os.path.dirname(__file__), "..", "..", "prompts", "demo")
        text = "".join(open(os.path.join(prompts, name)).read() for name in ["truth.txt", "swaps.txt"])
        return Tokenizer.from_file(os.path.join(folder, "tokenizer.json")).encode(text).ids[:N_TOKENS]
    vocab = json.load(open(os.path.join(folder, "config.json")))["vocab_size"]
    return torch.randint(0, vocab, (N_TOKENS,), generator=torch.Generator().manual_seed(1)).tolist()


def compare(program, name, folder, out):
    ids = token_ids(folder)
    logits, greedy, margins = reference(folder, ids)
    run = subprocess.run([program, folder, out, str(N_GREEDY)], input=" ".join(map(str, ids)), text=True,
                         stdout=subprocess.PIPE, check=True)
    ours = load_file(out)
    prefill = (ours["prefill"] - logits).abs().max().item()
    decode = (ours["decode"] - logits).abs().max().item()
    same = sum(a == b for a, b in zip(ours["greedy"].tolist(), greedy))
    print(f"{name}: prefill {prefill:.1e} decode {decode:.1e} greedy {same}/{N_GREEDY} "
          f"(least margin {min(margins):.1e}) logits to {logits.abs().max():.1f} {run.stdout.strip()}")
    return prefill <= TOLERANCE and decode <= TOLERANCE and same == N_GREEDY


def main():
    program, models = sys.argv[1], sys.argv[2:]
    with tempfile.TemporaryDirectory() as root:
        checkpoints = list(random_checkpoints(root))
        checkpoints += [(m, m) for m in models if os.path.exists(os.path.join(m, "config.json"))]
        results = [compare(program, name, folder, os.path.join(root, "out.safetensors")) for name, folder in checkpoints]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
