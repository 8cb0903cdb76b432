"""probe_numpy.py PROGRAM: probes on the embedded model, and every measure again in NumPy from the tensors that the run
dumps; values agree to 1e-6. Exits 77 where numpy or safetensors is absent."""

import os
import sqlite3
import subprocess
import sys
import tempfile

try:
    import numpy as np
    from safetensors.numpy import load_file
except ImportError:
    sys.exit(77)

EXPERIMENT = """
name: numpy
kind: probe
model: models/demo
tasks: [demo/lookup]
limit: 2
probe: {queries: 7, dump: %s}
compressors:
  - full
  - kivi: {bits: 2, group_size: 32, recent: 32}
  - gear: {backbone: kcvt, bits: 2, rank: 2, sparsity: 0.05}
  - h2o: {}
  - decoquant: {bits: 4}
  - qjl: {sketch: 64, outlier_sketch: 32, outlier_channels: 2, initial_layers: 0, buffer: 32}
"""


def softmax(x):
    with np.errstate(invalid="ignore"):
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)


def attention(q, k, v, kept):
    """q [H_q, n, D], k, v [H, T, D], kept [H, T] -> weights [H_q, n, T], outputs [H_q, n, D]"""
    group, n, t = q.shape[0] // k.shape[0], q.shape[1], k.shape[1]
    k, v, kept = (np.repeat(x, group, 0) for x in (k, v, kept))
    scores = np.einsum("hnd,htd->hnt", q, k) / np.sqrt(q.shape[2])
    seen = np.arange(t)[None, :] <= np.arange(t - n, t)[:, None]
    weights = softmax(np.where(seen[None] & kept[:, None, :], scores, -np.inf))
    return weights, np.einsum("hnt,htd->hnd", weights, v)


def frobenius(values, layer, tensor, x, y, suffix):
    for head in range(-1, x.shape[0]):
        a, b = (x, y) if head < 0 else (x[head], y[head])
        error = np.sqrt(((a - b) ** 2).sum())
        values["abs_fro" + suffix, layer, head, tensor, -1] = error
        values["rel_fro" + suffix, layer, head, tensor, -1] = error / np.sqrt((a**2).sum())


def quartiles(values, layer, tensor, x):
    for measure, share in (("min", 0), ("q1", 25), ("median", 50), ("q3", 75), ("max", 100)):
        values[measure, layer, -1, tensor, -1] = np.percentile(x, share)


def of_layer(values, layer, d):
    for tensor in "kv":
        x, y = d[tensor], d[tensor + "_held"]
        frobenius(values, layer, tensor, x, y, "")
        frobenius(values, layer, tensor, d[tensor + "_end"], d[tensor + "_held_end"], "_end")
        for head in range(x.shape[0]):
            for name, matrix in ((tensor, x[head]), (tensor + "_residual", x[head] - y[head])):
                for step, sigma in enumerate(np.linalg.svd(matrix, compute_uv=False)):
                    values["sigma", layer, head, name, step] = sigma
        quartiles(values, layer, tensor, x)
        means = np.abs(x).mean(1).reshape(-1)
        values.update({("channel_mean_abs", layer, -1, tensor, step): m for step, m in enumerate(means)})
    for name, part in d.items():
        if name.endswith("_mask"):
            sigma = np.linalg.svd(part, compute_uv=False)
            values["lambda1", layer, -1, name[5:], -1], values["lambda2", layer, -1, name[5:], -1] = sigma[:2]
        elif name.startswith("part."):
            quartiles(values, layer, name[5:], part)
    a, o = attention(d["q"], d["k"], d["v"], np.ones(d["kept"].shape, bool))
    b, p = attention(d["q"], d["k_attended"], d["v_attended"], d["kept"] > 0)
    score = (((a - b) ** 2).sum(-1) / (a**2).sum(-1)).mean(-1)
    for head in range(-1, len(score)):
        values["score_rel_sq", layer, head, "scores", -1] = score.mean() if head < 0 else score[head]
        x, y = (o, p) if head < 0 else (o[head], p[head])
        values["output_rel_fro", layer, head, "output", -1] = np.sqrt(((x - y) ** 2).sum() / (x**2).sum())


def of_logits(values, d):
    for step, (x, y) in enumerate(zip(d["logits"], d["logits_held"])):
        p, q = softmax(x), softmax(y)
        values["logit_max_abs", -1, -1, "logits", step] = np.abs(x - y).max()
        values["logit_l2", -1, -1, "logits", step] = np.sqrt(((x - y) ** 2).sum())
        values["kl", -1, -1, "logits", step] = (p * (np.log(p) - np.log(q))).sum()
        values["top1_same", -1, -1, "logits", step] = float(x.argmax() == y.argmax())
    n = min(len(d["answer"]), len(d["answer_free"]))
    differ = np.nonzero(d["answer"][:n] != d["answer_free"][:n])[0]
    first = int(differ[0]) if len(differ) else n
    values["first_divergence", -1, -1, "logits", -1] = first if first < len(d["answer"]) else None
    for step, (x, y) in enumerate(zip(d["logits"][:first], d["logits_free"])):
        values["logit_max_abs_free", -1, -1, "logits", step] = np.abs(x - y).max()


def expected(file):
    tensors = {name: x.astype(np.float64) for name, x in load_file(file).items()}
    values, layers = {}, {}
    for name, x in tensors.items():
        if name.startswith("layer."):
            _, layer, rest = name.split(".", 2)
            layers.setdefault(int(layer), {})[rest] = x
    for layer, d in layers.items():
        of_layer(values, layer, d)
    of_logits(values, tensors)
    return values


def of_full(values, d, prompt):
    """What 16 bits of storage must give: the teacher-forced answer is its own, and the caches' end is what came in."""
    assert all(v is None for k, v in values.items() if k[0] == "first_divergence"), values
    for key, value in values.items():
        bound = {"logit_max_abs": 0.02, "logit_max_abs_free": 0.02, "rel_fro_end": 1e-3, "rel_fro": 1e-3}.get(key[0])
        assert bound is None or abs(value) < bound, (key, value)
    n = min(len(d["logits"]), len(d["logits_free"]))
    assert np.abs(d["logits"][:n] - d["logits_free"][:n]).max() < 0.02
    for name, x in d.items():
        if name.endswith("_end"):
            before = d[name[:-4]]
            assert (x[:, : before.shape[1]] == before).all() and x.shape[1] > before.shape[1], name
        if name.endswith(".q"):  # of the last tokens: those of a probe of fewer queries are its last
            assert (x[:, -3:] == prompt[name]).all(), name


def main():
    folder = tempfile.mkdtemp()
    file, database, dump = (os.path.join(folder, name) for name in ("x.yaml", "x.sqlite", "dump"))
    with open(file, "w") as f:
        f.write(EXPERIMENT % dump)
    subprocess.run([sys.argv[1], "run", file, "--db", database], check=True, capture_output=True)
    few, few_dump = os.path.join(folder, "few.yaml"), os.path.join(folder, "few")
    with open(few, "w") as f:
        f.write((EXPERIMENT % few_dump).replace("queries: 7", "measures: [rel_fro], queries: 3").split("  - kivi")[0])
    subprocess.run([sys.argv[1], "run", few, "--db", database], check=True, capture_output=True)
    db = sqlite3.connect(database)
    names = ["full", "kivi", "gear", "h2o", "decoquant", "qjl"]
    n_values, worst, worst_at = 0, 0.0, None
    for index, plugin in enumerate(names):
        for (sample,) in db.execute("SELECT DISTINCT sample FROM probe ORDER BY 1").fetchall():
            rows = db.execute(
                "SELECT measure, layer, head, tensor, step, value FROM probe JOIN cell ON key = cell_key"
                " WHERE plugin = ? AND sample = ? AND generation_json LIKE '%\"queries\":7%'",
                (plugin, sample)).fetchall()
            stored = {row[:5]: row[5] for row in rows}
            if plugin == "full":
                of_full(stored, *(load_file(os.path.join(folder, f"demo_lookup-{sample}-0.safetensors"))
                                  for folder in (dump, few_dump)))
            wanted = expected(os.path.join(dump, f"demo_lookup-{sample}-{index}.safetensors"))
            assert stored.keys() == wanted.keys(), (plugin, sorted(stored.keys() ^ wanted.keys())[:9])
            for key, value in wanted.items():
                if value is None or stored[key] is None:
                    assert value is None and stored[key] is None, (plugin, key, value, stored[key])
                    continue
                off = abs(stored[key] - value) / max(1.0, abs(value))
                n_values += 1
                if not off <= worst:
                    worst, worst_at = off, (plugin, sample, key, stored[key], value)
    print(f"{n_values} values, off by at most {worst:.2e} {worst_at}")
    assert n_values > 10000 and worst <= 1e-6


main()
