"""A set of reference outputs of other tags, shapes, seeds, ranks and groups than the shipped one, computed here from the
methods' formulas with torch: write(folder, tag, heads, tokens, channels, seed)."""

import hashlib
import json
import math
import os

import torch
from safetensors.torch import save_file

import made_methods


def min_max(groups, levels):
    low = groups.amin(-1, True)
    step = (groups.amax(-1, True) - low) / levels
    codes = ((groups - low) / step).round().clamp(0, levels)
    return codes * step + low, codes, step, low


class Made:
    def __init__(self, tag, heads, tokens, channels, seed):
        generator = torch.Generator().manual_seed(seed)

        def normal(*sizes):
            return torch.randn(*sizes, generator=generator)

        self.tag, self.shape = tag, (heads, tokens, channels)
        bias, spread = 2 * normal(heads, 1, channels), normal(heads, 1, channels).exp().clamp(max=3)
        self.x = {
            "K": (normal(heads, tokens, channels) * spread + bias).half(),
            "V": normal(heads, tokens, channels).half(),
        }
        self.q = normal(heads, 1, channels).half()
        count = min(200, heads * tokens * channels)
        self.index = torch.randperm(heads * tokens * channels, generator=generator)[:count].sort().values
        self.records, self.samples, self.full, self.init = [], {f"index_{tag}": self.index}, {}, {}
        sizes = torch.linspace(0.3, 3, heads * made_methods.GROUP).view(-1, 1, 1)  # attention that spreads or gathers
        self.x["Q"] = (sizes * normal(heads * made_methods.GROUP, tokens, channels)).half()

    def of(self, side):
        return self.x[side].float()

    def add(self, name, side, y, **fields):
        x, y = self.of(side), y.float().contiguous()
        id = f"{name}|{side}_{self.tag}"
        error = y.double() - x.double()
        self.records.append({
            "id": id, "rel_fro": (error.norm() / x.double().norm()).item(), "max_abs": (x - y).abs().max().item(),
            "nan": 0, "sha256": hashlib.sha256(y.numpy().tobytes()).hexdigest(), **fields})
        self.samples[id] = y.flatten()[self.index].clone()
        return id

    # [H, n, d] as rows: K's channels along the tokens, V's tokens along all channels; and back.
    def rows(self, x, side):
        h, n, d = self.shape
        return x.transpose(1, 2).reshape(h * d, n) if side == "K" else x.transpose(0, 1).reshape(n, h * d)

    def back(self, rows, side):
        h, n, d = self.shape
        return rows.view(h, d, n).transpose(1, 2) if side == "K" else rows.view(n, h, d).transpose(0, 1)

    def row_groups(self, x, side, bits, group):
        rows = self.rows(x, side)
        return self.back(min_max(rows.unflatten(1, (-1, group)), 2**bits - 1)[0].flatten(1), side).contiguous()

    def token_groups(self, x, bits, group):
        return self.row_groups(x, "V", bits, group)


def add_groups(m, bits, group):
    h, n, d = m.shape
    for g in {group, d, h * d}:
        for side in "KV":
            m.add(f"gear_sim.token_group b{bits} g{g}", side, m.token_groups(m.of(side), bits, g), bits=bits, group=g)
    m.add(f"kivi.AsymGroupedQuantizer b{bits} g{d}", "V", m.token_groups(m.of("V"), bits, d), bits=bits, group=d)
    m.add(f"kivi.AsymGroupedQuantizerByChannel b{bits}", "K", m.row_groups(m.of("K"), "K", bits, n), bits=bits,
          group="vector")
    for g in (group, n):
        if n % g == 0:
            m.add(f"gear_sim.channel_group b{bits} g{g}", "K", m.row_groups(m.of("K"), "K", bits, g), bits=bits, group=g)
    for side in "KV":
        m.add(f"flexgen.compress b{bits} g{group} dim2", side, m.token_groups(m.of(side), bits, group), bits=bits,
              group=group)
        rows = m.of(side).transpose(0, 1).reshape(n, -1)
        for name, largest in (("deco.rtn", rows.abs().amax(1, True)), ("deco.rtn_per_tensor", rows.abs().max())):
            step = largest.clamp(min=1e-5) / (2**(bits - 1) - 1)
            y = ((rows / step).round() * step).view(n, h, d).transpose(0, 1)
            m.add(f"{name} b{bits}", side, y, bits=bits)
        if (h * n) % 64 == 0 and (h * n * d) % 64 == 0:
            add_quanto(m, side, bits)
        for axis in (0, 1):
            for optimized in (False, True):
                m.add(f"hqq b{bits} axis{axis} opt{optimized}", side, hqq(m.of(side), bits, axis, optimized), bits=bits,
                      group=64)
    if n % group == 0:
        add_kivi_store(m, bits, group)


def add_quanto(m, side, bits):
    h, n, d = m.shape
    x = m.of(side)
    y = min_max(x.reshape(-1, 64), 2**bits - 1)[0].view(h, n, d)
    m.add(f"quanto.max b{bits} axis0 g64", side, y, bits=bits, group=64)
    runs = x.reshape(h * n // 64, 64, d).transpose(1, 2)
    y = min_max(runs, 2**bits - 1)[0].transpose(1, 2).reshape(h, n, d)
    m.add(f"quanto.max b{bits} axis-1 g64", side, y, bits=bits, group=64)


def hqq(x, bits, axis, optimized):
    w, levels = (x.reshape(-1, 64) if axis == 1 else x.reshape(64, -1)), 2**bits - 1
    low, high = w.amin(axis, True), w.amax(axis, True)
    scale = torch.where(high - low <= 1e-4, torch.ones_like(low), levels / (high - low)).clamp(max=2e4)
    zero, best = -low * scale, 1e4
    for _ in range(20 if optimized else 0):
        codes = (w * scale + zero).round().clamp(0, levels)
        error = w - (codes - zero) / scale
        shrunk = error.sign() * torch.relu(error.abs() - (1 / 10) * error.abs().pow(0.7 - 1))
        zero = torch.mean(codes - (w - shrunk) * scale, axis, True)
        if not error.abs().mean().item() < best:
            break
        best = error.abs().mean().item()
    codes = (w * scale + zero).round().clamp(0, levels)
    return ((codes - zero) * (1 / scale)).view(x.shape)


def add_kivi_store(m, bits, group):
    for side, name in (("K", "kivi.kcache"), ("V", "kivi.vcache")):
        for kind in ("f32", "f16"):
            x = m.of(side) if kind == "f32" else m.x[side]
            runs = (x.transpose(1, 2) if side == "K" else x).unflatten(-1, (-1, group)).contiguous()
            y, codes, step, low = min_max(runs, 2**bits - 1)
            y, codes = y.flatten(-2), codes.flatten(-2).to(torch.int64)
            per_word = 32 // bits
            words = (codes.unflatten(-1, (-1, per_word)) << (bits * torch.arange(per_word))).sum(-1)
            words = torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)
            if side == "K":
                y, words, step, low = (t.transpose(1, 2).contiguous() for t in (y, words, step.squeeze(-1), low.squeeze(-1)))
            m.add(f"{name} {kind} b{bits} g{group}", side, y, bits=bits, group=group,
                  codes_sha256=hashlib.sha256(words.numpy().tobytes()).hexdigest())
            if kind == "f32":
                held = {"codes int32": words, "scale": step, "mn": low}
                for part, tensor in held.items():
                    m.full[f"{name} {part} b{bits} g{group}|{side}_{m.tag}"] = tensor.unsqueeze(0).contiguous()


def projection_on(x, p, loops):
    for i in range(loops):
        p = torch.linalg.qr(p).Q if i == loops - 1 else p
        q = x @ p
        q = torch.linalg.qr(q).Q if i == loops - 1 else q
        p = x.transpose(1, 2) @ q
    return q @ p.transpose(1, 2)


def add_gear(m, bits, group, rank, s, loops):
    h, n, d = m.shape
    seed = 7000 + 100 * bits + rank
    torch.manual_seed(seed)
    start = {}
    for side in "KV":
        start[side] = torch.rand(1, h, d, rank)
        torch.rand(1, h, n, rank)
        m.init[f"P0_{side}|{m.tag}|seed{seed}"] = start[side]
    for side in "KV":
        x, whole = m.of(side), (n if side == "K" else h * d)
        for suffix, g in (("", group), ("-KCVT", whole)):
            if whole % g:
                continue
            fields = {"bits": bits, "rank": rank, "loop": loops, "group": "vector" if suffix else g, "seed": seed}
            base = m.row_groups(x, side, bits, g)
            m.add(f"gear.{'KCVT' if suffix else 'KIVI_V2'} b{bits} r{rank} s{s} L{loops}", side, base, s=0.0,
                  peer_outliers_per_vector=0, **fields)
            low_rank = projection_on(x - base, start[side][0].clone(), loops)
            m.add(f"gear.GEARL{suffix} b{bits} r{rank} s{s} L{loops}", side, base + low_rank, s=0.0,
                  peer_outliers_per_vector=0, **fields)
            k = int(h * d * s / 2)  # of the token's width, for K as well
            rows = m.rows(x, side)
            low, high = rows.topk(k, -1, largest=False), rows.topk(k, -1)
            filled = rows.clone()
            for end in (low, high):
                filled.scatter_(-1, end.indices, rows.mean(-1, True).expand_as(end.values))
            dense = min_max(filled.unflatten(1, (-1, g)), bits**2 - 1)[0].flatten(1)
            for end in (low, high):
                dense.scatter_(-1, end.indices, end.values)
            kept = m.back(dense, side).half().float()
            y = (kept + projection_on(x - kept, start[side][0].clone(), loops)).half()
            id = m.add(f"gear.GEAR{suffix} b{bits} r{rank} s{s} L{loops}", side, y, s=s, peer_outliers_per_vector=2 * k,
                       **fields)
            if suffix and side == "V":
                m.full[id] = y.unsqueeze(0).contiguous()


def add_power_iteration(m, rank):
    h, n, d = m.shape
    left = m.of("K") - m.row_groups(m.of("K"), "K", 2, n)
    spectrum = torch.linalg.svdvals(left.double()).square()
    fields = {"svd_floor": (spectrum[:, rank:].sum() / spectrum.sum()).sqrt().item()}
    for loops in (1, 2, 4):
        torch.manual_seed(900 + loops)
        fields[f"rel_L{loops}"] = ((left - projection_on(left, torch.rand(h, d, rank), loops)).norm() / left.norm()).item()
    m.records.append({"id": f"gear.poweriter residual2bitKCVT r{rank}|K_{m.tag}", **fields})


def add_decoquant(m, bits):
    h, n, d = m.shape
    for side in "KV":
        x = m.of(side).transpose(0, 1).reshape(n, h * d).double()
        for shape, matrix in (("icl16", x.reshape(-1, 16)), ("icl32", x.reshape(-1, 32)), ("lm", x.t()),
                              ("n3", x.reshape(-1, 64)), ("n4", x.reshape(-1, 128) if h * d % 128 == 0 else None)):
            if matrix is None:
                continue
            u, s, v = torch.linalg.svd(matrix, full_matrices=False)
            large, small = u * s.sqrt(), s.sqrt().unsqueeze(1) * v
            by_row = (large if shape == "lm" else large.reshape(n, -1)).float()
            step = by_row.abs().amax(1, True).clamp(min=1e-5) / (2**(bits - 1) - 1)
            rounded = ((by_row / step).round() * step).view(large.shape).double()
            for name, factor, fields in ((f"b{bits}", rounded, {"bits": bits, "largest": 0}), ("unquantised", large, {})):
                y = (factor @ small).t() if shape == "lm" else (factor @ small).reshape(n, h * d)
                m.add(f"deco.mpo {shape} {name}", side, y.reshape(n, h, d).transpose(0, 1), **fields)
            if shape == "icl16":
                m.full[f"deco.icl16 T1|{side}_{m.tag}"] = small.float().view(1, 16, 1, 16).squeeze(2).contiguous()


def add_qjl(m, signs, group, outliers):
    h, n, d = m.shape
    if n % group:
        return
    raw = torch.randn(d, signs, generator=torch.Generator().manual_seed(42))
    blocks = [torch.linalg.qr(block).Q * math.sqrt(d) for block in raw.split(d, 1)]
    s, k, q = torch.cat(blocks, 1), m.of("K"), m.q.float()
    chosen = k.view(h, n // group, group, d).norm(2, 2).topk(outliers, -1).indices  # [H, n/g, C]
    mask = torch.zeros(h, n // group, d).scatter_(2, chosen, 1).repeat_interleave(group, 1)
    k_out, k_in = k * mask, k * (1 - mask)
    half = signs // 2
    inner, outer = (k_in @ s > 0).float() * 2 - 1, (k_out @ s[:, :half] > 0).float() * 2 - 1
    q_out, q_in = q * mask, q * (1 - mask)
    score = math.sqrt(math.pi / 2) * (k_in.norm(2, 2) / signs * ((q_in @ s) * inner).sum(2) +
                                      k_out.norm(2, 2) / half * ((q_out @ s[:, :half]) * outer).sum(2))
    exact = (k @ q.transpose(1, 2)).squeeze(2)
    noise = ((score - exact).abs().mean() / (q.norm(2, 2) * k.norm(2, 2)).mean()).item()
    id = f"qjl m{signs}|{m.tag}"
    m.records.append({"id": id, "rel_score": ((score - exact).norm() / exact.norm()).item(), "rel_score_noise": noise})

    def as_bytes(x):
        bits = (x > 0).to(torch.int64).view(1, h, n // group, group, -1, 8)
        return (bits << torch.arange(8)).sum(-1).to(torch.uint8)

    m.full.update({f"{id} proj": s, f"{id} outlier_idx": chosen.unsqueeze(0).to(torch.uint8).contiguous(),
                   f"{id} inlier_code": as_bytes(inner), f"{id} outlier_code": as_bytes(outer),
                   f"{id} score": score.unsqueeze(0).contiguous()})


def quantile(x, p, axis):  # between two entries by a line in float64
    return torch.quantile(x.double(), p, axis, True).float()


def add_kvquant(m, bits):
    h, n, d = m.shape
    for side in "KV":
        x = m.of(side).transpose(0, 1).reshape(n, h * d)
        axis = 0 if side == "K" else 1
        for kept in (None, 0.99):
            low, high = -math.inf, math.inf
            if kept:
                low, high = quantile(x, (1 - kept) / 2, axis), quantile(x, 1 - (1 - kept) / 2, axis)
            outlier = (x >= high) | (x <= low)
            zero = x.masked_fill(outlier, math.inf).amin(axis, True)
            step = (x.masked_fill(outlier, -math.inf).amax(axis, True) - zero) / (2**bits - 1)
            y = ((x - zero) / step).round().clamp(0, 2**bits - 1) * step + zero
            m.add(f"kvquant.int b{bits} sparse{kept}", side, torch.where(outlier, x, y).view(n, h, d).transpose(0, 1),
                  bits=bits, outlier_fraction=outlier.float().mean().item())
        low, high = quantile(x, 0.005, axis), quantile(x, 0.995, axis)
        outlier, middle, half = (x > high) | (x < low), (high + low) / 2, (high - low) / 2
        lut = torch.linspace(-0.9, 0.9, 2**bits).pow(3) * 0.4 + torch.linspace(-0.9, 0.9, 2**bits) * 0.6
        z = (x - middle) / half
        y = lut[(z.unsqueeze(-1) - lut).abs().argmin(-1)] * half + middle
        m.add(f"kvquant.nuq{bits}-1% (no Fisher)", side, torch.where(outlier, x, y).view(n, h, d).transpose(0, 1),
              bits=bits, outlier_fraction=outlier.float().mean().item(), lut=lut.tolist())


def write(folder, tag, heads, tokens, channels, seed):
    m = Made(tag, heads, tokens, channels, seed)
    for bits in (2, 4, 8):
        add_groups(m, bits, 32)
    add_gear(m, 2, 32, 3, 0.03, 2)
    add_gear(m, 4, 16, 5, 0.05, 4)
    add_gear(m, 8, 32, 1, 0.1, 1)
    add_power_iteration(m, 3)
    add_decoquant(m, 4)
    add_qjl(m, 2 * channels, 32, 6)
    add_kvquant(m, 3)
    os.makedirs(folder, exist_ok=True)
    made_methods.add_methods(m, folder)
    inputs = {f"{side}_{tag}": x.unsqueeze(0).contiguous() for side, x in m.x.items()}
    save_file({**inputs, f"q_{tag}": m.q.unsqueeze(0).contiguous()}, f"{folder}/inputs.safetensors")
    save_file(m.samples, f"{folder}/samples.safetensors")
    save_file(m.full, f"{folder}/full.safetensors")
    save_file({name: t.contiguous() for name, t in m.init.items()}, f"{folder}/init.safetensors")
    with open(f"{folder}/oracle.json", "w", encoding="utf-8") as file:
        json.dump({"records": m.records}, file)
    return m.records
