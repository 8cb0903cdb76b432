"""vllm_formulas.py KVC: stored values against vLLM's formulas in torch: int8 and fp8 value by value; int4 with its fixed signs,
its Hadamard matrix and the zero in the scale's lowest bits."""
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import torch
    from safetensors.torch import load_file, save_file
except ImportError as error:
    print(f"vllm_formulas: skipped, {error}")
    sys.exit(77)


def int8(x):
    scale = (x.abs().amax(-1, keepdim=True) / 127).clamp_min(1e-6)
    return (x * (1 / scale)).clamp(-128, 127).trunc() * scale


def fp8(x):
    scale = (x.abs().amax(-1, keepdim=True) / 448).clamp_min(1e-6)
    return (x * (1 / scale)).clamp(-448, 448).to(torch.float8_e4m3fn).float() * scale


def hadamard(x):
    """By butterflies, as the engine does on a CPU."""
    d, h = x.shape[-1], 1
    while h < d:
        pairs = x.view(*x.shape[:-1], d // (2 * h), 2, h)
        a, b = pairs[..., 0, :], pairs[..., 1, :]
        x = torch.stack([a + b, a - b], dim=-2).reshape(x.shape)
        h *= 2
    return x


def away(x):
    return torch.where(x >= 0, (x + 0.5).trunc(), (x - 0.5).trunc())


def int4(x):
    d = x.shape[-1]
    generator = torch.Generator(device="cpu")
    generator.manual_seed(0x9E3779B9)
    signs = 2.0 * torch.bernoulli(torch.full((d,), 0.5), generator=generator) - 1.0
    y = hadamard(x * signs)
    low, high = y.amin(-1, keepdim=True), y.amax(-1, keepdim=True)
    scale = ((high - low) / 15).clamp_min(1e-6)
    zero = away(-low / scale).clamp(0, 15)
    code = away(y * (1 / scale) + zero).clamp(0, 15)
    stored = ((scale.view(torch.int32) & -16) | zero.to(torch.int32)).view(torch.float32)
    return hadamard((code - zero) * stored) * signs / d


def main(kvc):
    torch.manual_seed(3)
    x = torch.randn(3, 500, 64) * torch.exp(2 * torch.randn(3, 500, 1))
    x[0, 0] = 0
    x[0, 1] = 1e-9
    x[0, 2] = x[0, 2].abs()
    x[0, 3, 7] = 1000
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        save_file({"k": x, "v": -x}, str(folder / "in.safetensors"))
        for name, formula in {"int8": int8, "fp8": fp8, "int4": int4}.items():
            run = subprocess.run([kvc, "apply", f"per_token_head: {{type: {name}}}", "--input",
                                  str(folder / "in.safetensors"), "--output", str(folder / "out.safetensors"),
                                  "--prompt-tokens", "99"], capture_output=True, text=True)
            if run.returncode != 0:
                sys.exit(f"vllm_formulas: kvc apply with {name}: {run.stderr}")
            stored = load_file(str(folder / "out.safetensors"))
            for side, given in (("k", x), ("v", -x)):
                expected = formula(given)
                size = given.abs().amax(-1, keepdim=True).clamp_min(1e-6)
                far = ((stored[side] - expected).abs() > 1e-5 * size).sum().item()
                print(f"{name} {side}: {far} of {given.numel()} values further than 1e-5 of the largest")
                # sums of a rotation in another order move a value across a middle now and then: a step of one code
                failed |= far > (0.001 * given.numel() if name == "int4" else 0)
    sys.exit(1 if failed else 0)


main(sys.argv[1])
