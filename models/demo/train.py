#!/usr/bin/env python3
"""Trains the demo model from scratch on generate_data.py's text and exports it next to this file.

    python models/demo/generate_data.py && python models/demo/train.py

Every step's data is a function of the seed and the step number, so that a run stopped at any
moment goes on from its last checkpoint (.train/state.pt) as if it had not been stopped.
"""
import argparse
import json
import os
import random
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import LlamaConfig, LlamaForCausalLM

import generate_data as data
from evaluate import evaluate

HERE = Path(__file__).resolve().parent
WORK = HERE / ".train"
SEED = 11
VOCAB = 608
BOS, EOS = 0, 1
QUESTION_WEIGHT = 0.05  # the loss weight of tokens that are not an answer's

# (first step, row length, rows per step, longest list, shares of the families)
PHASES = [
    (0, 160, 16, 8, {"arithmetic": 1.5, "swaps": 1.5, "truth": 0.5, "lookup": 1.5, "copies": 0.5, "shuffles": 0.5}),
    (300, 320, 12, 14, {"arithmetic": 1.5, "swaps": 1.5, "truth": 0.5, "lookup": 1.5}),
    (700, 512, 8, 20, {"arithmetic": 1.5, "swaps": 1.5, "truth": 1, "lookup": 1.5}),
    (1300, 512, 8, 20, {"arithmetic": 2, "swaps": 2, "truth": 1, "lookup": 1}),
    (2450, 640, 6, 20, {"arithmetic": 2, "swaps": 2, "truth": 1, "lookup": 1}),
]
STEPS = 3200
# (step, learning rate as a share of the peak), linear in between: warm-up, decay, a short second decay
RATES = [(0, 0.01), (99, 1.0), (1550, 1.0), (2850, 0.0), (2851, 0.25), (3200, 0.0)]
# A blank line at the end of a text is one piece, inside a text (as in every prompt) it is two. Rows
# were put together from single exemplars, with the one piece, up to this step; with the two after it.
BLANK_LINE_FROM = 2850
MUON_LR, ADAM_LR = 0.02, 0.004


# ---- tokenizer ---------------------------------------------------------------------------------

def make_tokenizer():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    tokenizer.decoder = decoders.ByteLevel()
    rng = random.Random(f"{SEED}/tokenizer")
    families = [*data.FAMILIES, "copies", "shuffles"]
    texts = []
    for n in range(8000):
        stream = data.exemplars(rng, families[n % len(families)], set())
        texts.append("".join(a + b for a, b in (next(stream), next(stream))))
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=VOCAB, special_tokens=["<s>", "</s>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", BOS)])
    return tokenizer


# ---- data --------------------------------------------------------------------------------------

def make_row(rng, tokenizer, family, length, longest, blank_line, held_out):
    """One document in one row: as many exemplars as fit, the last one cut or closed by </s>."""
    ids, weights = [BOS], [0.0]
    close = rng.random() < 0.1
    for question, answer in data.exemplars(rng, family, held_out, longest):
        q = tokenizer.encode(question, add_special_tokens=False).ids
        a = tokenizer.encode(answer, add_special_tokens=False).ids
        if blank_line:
            a = tokenizer.encode(answer.rstrip("\n"), add_special_tokens=False).ids + blank_line
        if close and len(ids) + len(q) + len(a) > length:
            cut = len(blank_line) or 2
            ids[-cut:], weights[-cut:] = [EOS], [1.0]  # in place of the blank line
            break
        ids += q + a
        weights += [QUESTION_WEIGHT] * len(q) + [1.0] * len(a)
        if len(ids) > length:
            break
    short = length + 1 - len(ids)
    return (ids + [EOS] * short)[:length + 1], (weights + [0.0] * short)[:length + 1]


def make_batch(step, tokenizer, held_out):
    _, length, rows, longest, shares = [p for p in PHASES if p[0] <= step][-1]
    rng = random.Random(f"{SEED}/step/{step}")
    families = rng.choices(list(shares), list(shares.values()), k=rows)
    blank_line = [tokenizer.token_to_id("Ċ")] * 2 if step >= BLANK_LINE_FROM else []
    made = [make_row(rng, tokenizer, f, length, longest, blank_line, held_out) for f in families]
    ids, weights = torch.tensor([m[0] for m in made]), torch.tensor([m[1] for m in made])
    return ids[:, :-1], ids[:, 1:], weights[:, 1:], families


# ---- optimizer ---------------------------------------------------------------------------------

def orthogonal(g, steps=5):
    """Newton-Schulz iteration (Muon's quintic) on a stack of matrices with rows <= columns."""
    x = (g / (g.norm(dim=(1, 2), keepdim=True) + 1e-7)).bfloat16()
    for _ in range(steps):
        a = x @ x.mT
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.float()


class Muon(torch.optim.Optimizer):
    """Momentum whose update is made orthogonal; for the hidden matrices."""

    def __init__(self, params, lr, momentum=0.95, decay=0.01):
        super().__init__(list(params), {"lr": lr, "momentum": momentum, "decay": decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            by_shape = {}
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["momentum"] = torch.zeros_like(p)
                m = state["momentum"].lerp_(p.grad, 1 - group["momentum"])
                g = p.grad.lerp(m, group["momentum"])
                flip = g.shape[0] > g.shape[1]
                g = g.T if flip else g
                by_shape.setdefault(tuple(g.shape), []).append((p, g, flip))
            for entries in by_shape.values():
                for (p, _, flip), u in zip(entries, orthogonal(torch.stack([e[1] for e in entries]))):
                    scale = max(1.0, p.shape[0] / p.shape[1]) ** 0.5
                    p.mul_(1 - group["lr"] * group["decay"])
                    p.add_(u.T if flip else u, alpha=-group["lr"] * scale)


def make_optimizers(model):
    hidden = [p for n, p in model.named_parameters() if p.ndim == 2 and "embed" not in n]
    other = [p for n, p in model.named_parameters() if p.ndim < 2 or "embed" in n]
    return [Muon(hidden, MUON_LR), torch.optim.AdamW(other, ADAM_LR, betas=(0.9, 0.98), weight_decay=0.0)]


def rate(step):
    return float(np.interp(step, *zip(*RATES)))


# ---- model and export --------------------------------------------------------------------------

@torch.no_grad()
def start_with_induction(model):
    """Starts two heads of layer 0 as previous-token heads and one of layer 1 as an induction head."""
    embed = model.model.embed_tokens.weight
    embed.normal_(0, 0.1)
    embed[:, 0] = 0.4  # the same for all tokens: what a head that looks at positions reads
    basis = torch.linalg.qr(torch.randn(255, 255))[0]
    basis = torch.cat([torch.zeros(255, 1), basis], 1)  # orthonormal rows, blind to dimension 0
    token, before, before2 = basis[:64], basis[64:128], basis[128:192]
    first, second = model.model.layers[0].self_attn, model.model.layers[1].self_attn
    fast = torch.arange(8)
    theta = 10000.0 ** (-fast / 32)
    first.k_proj.weight[:64] = 0
    first.k_proj.weight[fast, 0] = 1.6
    for head, (back, space) in enumerate([(1, before), (2, before2)]):
        rows = slice(64 * head, 64 * head + 64)
        first.q_proj.weight[rows] = 0
        first.q_proj.weight[64 * head + fast, 0] = 1.6 * torch.cos(back * theta)
        first.q_proj.weight[64 * head + 32 + fast, 0] = -1.6 * torch.sin(back * theta)
        first.o_proj.weight[:, rows] = 0.2 * space.T
    first.v_proj.weight[:64] = token
    slow = (torch.arange(64) % 32 >= 12).float()[:, None]
    second.q_proj.weight[:64] = 1.2 * slow * token
    second.k_proj.weight[:64] = 1.2 * slow * before
    second.v_proj.weight[:64] = token
    second.o_proj.weight[:, :64] = 0.5 * token.T


def make_model():
    torch.manual_seed(SEED)
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=VOCAB, hidden_size=256, intermediate_size=704, num_hidden_layers=4,
        num_attention_heads=4, num_key_value_heads=2, head_dim=64, max_position_embeddings=4096,
        rms_norm_eps=1e-5, rope_theta=10000.0, tie_word_embeddings=True, bos_token_id=BOS,
        eos_token_id=EOS, attn_implementation="sdpa", use_cache=False))
    start_with_induction(model)
    return model


def write(name, save):
    """Writes a file whole or not at all."""
    save(str(HERE / f".{name}.tmp"))
    os.replace(HERE / f".{name}.tmp", HERE / name)


def write_json(name, value):
    write(name, lambda path: Path(path).write_text(json.dumps(value, indent=2) + "\n"))


def export(model, tokenizer):
    tensors = {k: v.detach().to(torch.bfloat16).contiguous().clone()
               for k, v in model.state_dict().items() if k != "lm_head.weight"}
    write("tokenizer.json", tokenizer.save)
    write_json("tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>",
        "model_max_length": 4096, "clean_up_tokenization_spaces": False})
    write_json("config.json", {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
        "vocab_size": VOCAB, "hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 4,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "hidden_act": "silu",
        "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": True,
        "bos_token_id": BOS, "eos_token_id": EOS, "use_cache": True})
    write_json("generation_config.json", {"bos_token_id": BOS, "eos_token_id": EOS, "do_sample": False})
    write("model.safetensors", lambda path: save_file(tensors, path, metadata={"format": "pt"}))


# ---- training ----------------------------------------------------------------------------------

def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stop-after", type=int, default=STEPS, help="stop early (trials)")
    parser.add_argument("--eval-every", type=int, default=500)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)
    WORK.mkdir(exist_ok=True)

    def log(text):
        print(time.strftime("%H:%M:%S", time.gmtime()), text, flush=True)

    @torch.compile(dynamic=False)
    def token_losses(x, y):
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(x).logits
        return F.cross_entropy(logits.float().flatten(0, 1), y.flatten(), reduction="none")

    held_out = data.reserved_questions()
    if not (WORK / "tokenizer.json").exists():
        make_tokenizer().save(str(WORK / "tokenizer.json"))
    tokenizer = Tokenizer.from_file(str(WORK / "tokenizer.json"))
    model = make_model()
    optimizers = make_optimizers(model)
    peaks = [group["lr"] for o in optimizers for group in o.param_groups]
    step = tokens = seconds = 0
    if (WORK / "state.pt").exists():
        state = torch.load(WORK / "state.pt")
        step, tokens, seconds = state["step"], state["tokens"], state["seconds"]
        model.load_state_dict(state["model"])
        for optimizer, saved in zip(optimizers, state["optimizers"]):
            optimizer.load_state_dict(saved)
    log(f"{sum(p.numel() for p in model.parameters())} parameters, from step {step}")

    sums = {}
    began = time.time()
    while step < min(STEPS, args.stop_after):
        x, y, w, families = make_batch(step, tokenizer, held_out)
        for o, peak in zip([g for o in optimizers for g in o.param_groups], peaks):
            o["lr"] = peak * rate(step)
        losses = token_losses(x, y).view_as(w)
        ((losses * w).sum() / w.sum()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        step, tokens = step + 1, tokens + x.numel()
        answer = (w == 1.0)
        for family, loss, mask in zip(families, losses.detach(), answer):
            total = sums.setdefault(family, [0.0, 0])
            total[0] += float(loss[mask].sum())
            total[1] += int(mask.sum())
        if step % 50 == 0:
            log(f"step {step} tokens {tokens} seconds {seconds + time.time() - began:.0f} " + " ".join(
                f"{family} {a / max(b, 1):.4f}" for family, (a, b) in sorted(sums.items())))
            sums = {}
        if step % args.eval_every == 0 or step == STEPS:
            export(model, tokenizer)
        if step % 100 == 0 or step == STEPS:
            torch.save({"step": step, "tokens": tokens, "seconds": seconds + time.time() - began,
                        "model": model.state_dict(),
                        "optimizers": [o.state_dict() for o in optimizers]}, WORK / "state.tmp")
            os.replace(WORK / "state.tmp", WORK / "state.pt")
        if step % args.eval_every == 0 or step == STEPS:
            os.chmod(HERE / "model.safetensors", 0o644)
            evaluate(250 if step == STEPS else 50, log=log)
    log(f"done: {step} steps, {tokens} tokens, {seconds + time.time() - began:.0f} seconds")


if __name__ == "__main__":
    main()
