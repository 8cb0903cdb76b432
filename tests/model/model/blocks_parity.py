"""Values of random blocks, bit by bit those of the public gguf package. Usage: blocks_parity.py EXPAND_BLOCKS"""
import subprocess
import sys

try:
    import numpy as np
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
    from gguf.quants import dequantize
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

# Where a block's halves stand, the last of them counted from its end.
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q4_K": [0, 2],
          "Q5_K": [0, 2], "Q6_K": [-2], "MXFP4": []}  # its scale is a byte of any value
# Zeros of both signs, the least subnormal, the greatest one, the least normal, the greatest finite
EXTREME = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x7BFF, 0xFBFF]
NOT_FINITE = [0x7C00, 0xFC00, 0x7E00, 0xFE01, 0x7D00]


def expand(program, name, blocks):
    out = subprocess.run([program, name], input=blocks.tobytes(), stdout=subprocess.PIPE, check=True).stdout
    return np.frombuffer(out, np.float32)


def with_scales(rng, name, scales, n):
    blocks = rng.integers(0, 256, (n, GGML_QUANT_SIZES[GGMLQuantizationType[name]][1]), np.uint8)
    for place in HALVES[name]:
        halves = rng.choice(np.array(scales, np.uint16), n)
        blocks[:, place % blocks.shape[1]] = halves & 255
        blocks[:, place % blocks.shape[1] + 1] = halves >> 8
    return blocks


def main(program):
    rng = np.random.default_rng(12)
    finite = [bits for bits in range(1 << 16) if bits & 0x7C00 != 0x7C00]
    n_values = 0
    for name in HALVES:
        for scales in (finite, EXTREME, finite + NOT_FINITE * 1000):
            blocks = with_scales(rng, name, scales, 20000)
            with np.errstate(all="ignore"):
                expected = dequantize(blocks, GGMLQuantizationType[name]).reshape(-1)
            got = expand(program, name, blocks)
            # Of a NaN the processor chooses the bits.
            same = (got.view(np.uint32) == expected.view(np.uint32)) | (np.isnan(got) & np.isnan(expected))
            assert got.size == expected.size and same.all(), (name, np.flatnonzero(~same)[:5])
            n_values += got.size
    print(f"{n_values} values of {len(HALVES)} types: equal bits")


main(sys.argv[1])
