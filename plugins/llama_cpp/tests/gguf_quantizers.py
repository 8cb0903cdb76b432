"""gguf_quantizers.py KVC: the plugin's stored values against the `gguf` package's quantizers, bit by bit: 10,000 blocks of
32 values, among them zeros, one sign, equal magnitudes, huge, tiny, -0. iq4_nl, which the package only decodes, against
its rule in float64."""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import numpy as np
    import torch
    from gguf import quants
    from gguf.constants import GGMLQuantizationType
    from safetensors.torch import load_file, save_file
except ImportError as error:
    print(f"gguf_quantizers: skipped, {error}")
    sys.exit(77)

LEVELS = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], dtype=np.float64)
N_BLOCKS, HEADS, HEAD_DIM = 10000, 2, 160  # 160: no rotation


def blocks():
    rng = np.random.default_rng(7)
    x = rng.normal(size=(N_BLOCKS, 32)) * np.exp(rng.normal(size=(N_BLOCKS, 1)) * 3)
    x[0] = 0
    x[1] = -0.0
    x[2] = np.abs(x[2])
    x[3] = -np.abs(x[3])
    x[4] = 60000
    x[5] = -60000
    x[6] = 6e-8
    x[7, 1:] = 0
    x[8] = 2.5
    x[9] = np.where(np.arange(32) % 2, 3.0, -3.0)
    x[10] = np.where(np.arange(32) % 2, -3.0, 3.0)
    x[11] = np.arange(32) - 15.5
    x[12:512] = rng.integers(-8, 8, size=(500, 32))  # middles between codes
    x[512:1012] = rng.integers(0, 32, size=(500, 32)) / 2
    return np.clip(x, -60000, 60000).astype(np.float16).astype(np.float32)


def by_levels(x):
    """iq4_nl: codes of the signed maximum on the first level, then the scale by least squares."""
    out = np.zeros_like(x)
    for i, row in enumerate(x.astype(np.float64)):
        top = row[np.argmax(np.abs(row))]
        if abs(top) < 1e-15:
            continue
        scaled = (x[i] * (np.float32(1) / np.float32(top / LEVELS[0]))).astype(np.float64)
        distance = np.abs(scaled[:, None] - LEVELS)
        codes = 15 - np.argmin(distance[:, ::-1], axis=1)  # a middle goes up
        chosen, weight = LEVELS[codes], row * row
        d = np.float16(np.float32((weight * chosen * row).sum() / (weight * chosen * chosen).sum()))
        out[i] = np.float32(d) * chosen.astype(np.float32)
    return out


def main(kvc):
    x = blocks()
    tokens = N_BLOCKS * 32 // (HEADS * HEAD_DIM)
    tensor = torch.from_numpy(x.reshape(HEADS, tokens, HEAD_DIM))
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        save_file({"k": tensor, "v": tensor.clone()}, str(folder / "in.safetensors"))
        for name in ["q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl", "f16", "bf16", "f32"]:
            run = subprocess.run([kvc, "apply", f"llama_cpp: {{type_k: {name}, type_v: {name}}}", "--input",
                                  str(folder / "in.safetensors"), "--output", str(folder / "out.safetensors"),
                                  "--prompt-tokens", "100"], capture_output=True, text=True)
            if run.returncode != 0:
                sys.exit(f"gguf_quantizers: kvc apply with {name}: {run.stderr}")
            stored = load_file(str(folder / "out.safetensors"))
            got = stored["k"].numpy().reshape(-1, 32)
            if name == "iq4_nl":
                expected = by_levels(x)
                n_block, n_value = 18, None
            elif name.startswith("q"):
                kind = GGMLQuantizationType[name.upper()]
                codes = quants.quantize(x, kind)
                expected, n_block = quants.dequantize(codes, kind), codes.shape[1]
            else:
                dtype = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}[name]
                expected = torch.from_numpy(x).to(dtype).float().numpy()
                n_block = 32 * dtype.itemsize
            differing = int((got != expected).sum())
            same_v = torch.equal(stored["k"], stored["v"])
            n_bytes = json.loads(run.stdout)["bytes"]
            wanted = 2 * N_BLOCKS * n_block
            print(f"{name}: {differing} of {x.size} values differ, {n_bytes} bytes, expected {wanted}")
            failed |= differing > 0 or not same_v or n_bytes != wanted
    sys.exit(1 if failed else 0)


main(sys.argv[1])
