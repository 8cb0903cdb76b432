"""Records `plugin NAME ...` of a made set: methods on a prompt with its queries, from their published formulas with torch
in float64: add_methods(made, folder). Fields: plugin, options, n_heads (of queries), and layer, n_layers, rope_frequencies
where a method reads them, lead_in where it acts at the prompt's end (plugin_records.cpp says on what). What a method
evicts counts as zeros."""

import math
import os

import torch

GROUP = 2  # query heads of a KV head


class Prompt:
    def __init__(self, made):
        self.made, (self.h, self.n, self.d) = made, made.shape
        self.k, self.v, self.q = (made.of(side).double() for side in "KVQ")
        self.by_group = self.q.unflatten(0, (self.h, GROUP))  # [H, G, n, D]

    def record(self, plugin, words, k, v, options, **fields):
        for side, y in (("K", k), ("V", v)):
            self.made.add(f"plugin {plugin} {words}", side, y, plugin=plugin, options={**options, "precision": "exact"},
                          n_heads=self.h * GROUP, **fields)

    def keep(self, plugin, words, kept, options, **fields):  # kept: [H, n], true where a token stays
        mask = kept.unsqueeze(-1)
        self.record(plugin, words, self.k * mask, self.v * mask, options, **fields)


def votes(p, window, kernel):  # [H, n - window]: SnapKV's, of the last queries for the tokens before them
    scores = torch.einsum("hgtd,hsd->hgts", p.by_group[:, :, -window:], p.k) / math.sqrt(p.d)
    ahead = torch.ones(window, p.n).triu(p.n - window + 1).bool()
    weights = scores.masked_fill(ahead, -math.inf).softmax(-1)[..., :-window].sum((1, 2))
    return torch.nn.functional.avg_pool1d(weights, kernel, 1, kernel // 2)


def with_window(p, chosen):  # [H, n - window] -> [H, n]
    return torch.cat([chosen, torch.ones(p.h, p.n - chosen.shape[1], dtype=torch.bool)], 1)


def best(scores, count):
    chosen = torch.zeros_like(scores, dtype=torch.bool)
    return chosen.scatter(-1, scores.topk(count, -1).indices, True)


def add_voted(p, capacity, window):
    v = votes(p, window, 5)
    options, share, candidates = {"capacity": capacity, "window": window}, capacity - window, p.n - window
    p.keep("snapkv", f"c{capacity}", with_window(p, best(v, share)), options)
    beta, layers = 4, 5
    highest = min(2 * share - share / beta, candidates)
    lowest = 2 * share - highest
    for layer in (0, 1, 4):
        count = round(highest - layer * (highest - lowest) / (layers - 1))
        p.keep("pyramidkv", f"c{capacity} layer{layer}", with_window(p, best(v, count)), {**options, "beta": beta},
               layer=layer, n_layers=layers)
    for floor in (0.2, 0.7):
        safe = best(v, int(floor * share))
        rest = best(v.masked_fill(safe, -1).flatten(), p.h * (share - int(floor * share))).view_as(safe)
        p.keep("adakv", f"c{capacity} floor{floor}", with_window(p, safe | rest), {**options, "floor": floor})


def add_expected_attention(p, keep, sinks, horizon):
    half = p.d // 2
    frequencies = torch.tensor([100.0 ** (-i / half) for i in range(half)], dtype=torch.float32)

    def turned(x, positions, sign):  # RoPE of channel pairs i and i + D / 2
        angle = sign * positions.double().unsqueeze(-1) * frequencies.double()
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)

    before = turned(p.by_group[:, :, sinks:], torch.arange(sinks, p.n), -1)
    mean = before.mean(2)
    apart = before - mean.unsqueeze(2)
    spread = apart.transpose(-1, -2) @ apart / before.shape[2]
    eye = torch.eye(p.d, dtype=torch.float64)
    turn = torch.stack([turned(eye, torch.full((p.d,), at), 1) for at in range(p.n, p.n + horizon)]).mean(0).T
    mean, spread = mean @ turn.T, turn @ spread @ turn.T
    keys, scale = p.k[:, sinks:], 1 / math.sqrt(p.d)
    z = scale * torch.einsum("hgd,hsd->hgs", mean, keys)
    z = z + scale**2 / 2 * torch.einsum("hsd,hgde,hse->hgs", keys, spread, keys)
    score = z.softmax(-1).mean(1) * p.v[:, sinks:].norm(dim=-1)
    chosen = best(score, math.floor(keep * p.n + 0.5) - sinks)  # kvpress cuts off; the plugin's README says so
    kept = torch.cat([torch.ones(p.h, sinks, dtype=torch.bool), chosen], 1)
    p.keep("expected_attention", f"keep{keep}", kept, {"keep": keep, "sinks": sinks, "horizon": horizon},
           rope_frequencies=frequencies.tolist())


def add_think(p, ratio, window, recent):
    worth = p.by_group[:, :, -window:].square().mean((1, 2)) * p.k.square().mean(1)
    channels = best(worth, p.d - int(ratio * p.d)).unsqueeze(1).expand(-1, p.n, -1).clone()
    channels[:, p.n - recent:] = True
    p.record("think", f"r{ratio}", p.k * channels, p.v, {"ratio": ratio, "window": window, "recent": recent})


def add_duoattention(p, folder, sinks, recent):
    retrieves = torch.arange(p.h) % 2 == 1
    pattern = os.path.join(folder, "pattern.tsv")
    with open(pattern, "w", encoding="utf-8") as file:
        file.write("\t".join("1" if x else "0" for x in retrieves) + "\n")
    at = torch.arange(p.n)
    streams = (at < sinks) | (at >= p.n - recent)
    p.keep("duoattention", f"s{sinks} r{recent}", retrieves.unsqueeze(1) | streams,
           {"pattern": pattern, "select": "threshold", "sinks": sinks, "recent": recent})


def balanced(x, rounds):  # [rows, columns]: what is divided by, of the most even round, the later of equals
    def deviation(y, axis):
        return y.std(axis, keepdim=True).clamp(1e-3, 1e3)

    def imbalance(y):
        return sum((deviation(y, axis).max() / deviation(y, axis).min()).item() for axis in (0, 1))

    logs = [torch.zeros(1, x.shape[1], dtype=torch.float64), torch.zeros(x.shape[0], 1, dtype=torch.float64)]
    least, found = imbalance(x), list(logs)
    for _ in range(rounds):
        for axis in (0, 1):
            logs[axis] = (logs[axis] + deviation(x / (logs[0] + logs[1]).exp(), axis).log()).clamp(-0.3, 10)
        now = imbalance(x / (logs[0] + logs[1]).exp())
        if now <= least:
            least, found = now, list(logs)
    return found[0].exp(), found[1].exp()


def add_kvarn(p, tile, sinks, k_bits, v_bits):
    turn = torch.ones(1, 1, dtype=torch.float64)
    while turn.shape[0] < p.d:
        turn = torch.cat([torch.cat([turn, turn], 1), torch.cat([turn, -turn], 1)]) / math.sqrt(2)

    def held(x, bits, of_keys):
        y = x.clone()
        for head in range(p.h):
            for first in range(sinks, p.n - tile + 1, tile):
                turned = x[head, first:first + tile] @ turn
                rows = turned.T if of_keys else turned
                columns, of_rows = balanced(rows, 16)
                even = rows / columns / of_rows
                low = even.amin(1, True)
                step = ((even.amax(1, True) - low) / (2**bits - 1)).clamp(min=1e-10)
                rows = (((even - low) / step).round() * step + low) * columns * of_rows
                y[head, first:first + tile] = (rows.T if of_keys else rows) @ turn.T
        return y

    p.record("kvarn", f"k{k_bits}v{v_bits} t{tile}", held(p.k, k_bits, True), held(p.v, v_bits, False),
             {"k_bits": k_bits, "v_bits": v_bits, "tile": tile, "sinks": sinks})


def repeated(p, k, v, sinks, chunk, lead_in):  # [H, n]: the most that the pass over its chunk gives each token
    scores = []
    for first in range(0, p.n, chunk):
        end, begin = min(first + chunk, p.n), max(0, first - lead_in)
        keys = torch.cat([k[:, :min(sinks, first)], k[:, first:end], v[:, begin:end]], 1)
        z = torch.einsum("hgtd,hsd->hgts", p.by_group[:, :, begin:end], keys) / math.sqrt(p.d)
        n_pass = end - begin
        later = torch.ones(n_pass, n_pass, dtype=torch.bool).triu(1)
        later = torch.cat([torch.zeros(n_pass, keys.shape[1] - n_pass, dtype=torch.bool), later], 1)
        weights = z.masked_fill(later, -math.inf).softmax(-1)
        scores.append(weights[..., min(sinks, first):-n_pass].amax((1, 2)))
    return torch.cat(scores, 1)


def add_kvzip(p, keep, sinks, chunk, lead_in):
    scores = torch.cat([repeated(p, p.k, p.v, sinks, chunk, lead_in), repeated(p, p.v, p.k, sinks, chunk, lead_in)])
    scores[:, :sinks] = math.inf
    kept = best(scores.flatten(), math.floor(keep * scores.numel() + 0.5)).view_as(scores)[:p.h]
    p.keep("kvzip", f"keep{keep} chunk{chunk}", kept, {"keep": keep, "sinks": sinks, "chunk": chunk}, n_layers=2,
           lead_in=lead_in)


def add_methods(made, folder):
    p = Prompt(made)
    add_voted(p, 40, 8)
    add_expected_attention(p, 0.5, 4, 64)
    add_think(p, 0.4, 6, 5)
    add_duoattention(p, folder, 4, 20)
    add_kvzip(p, 0.3, 4, 48, 7)
    add_kvzip(p, 0.6, 1, 2048, 0)
    add_kvarn(p, 16, 8, 4, 2)
    add_kvarn(p, 32, 0, 4, 4)
