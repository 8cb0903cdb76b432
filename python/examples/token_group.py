"""The plugin token_group in Python, with NumPy alone."""
import kvc
import numpy as np


def pack(codes, bits):
    """uint8 [..., n] -> uint32 [..., n * bits / 32], the first code in the lowest bits."""
    n_a_word = 32 // bits
    rest = -codes.shape[-1] % n_a_word
    codes = np.pad(codes, [(0, 0)] * (codes.ndim - 1) + [(0, rest)]).astype(np.uint32)
    shifts = np.arange(n_a_word, dtype=np.uint32) * bits
    return np.bitwise_or.reduce(codes.reshape(*codes.shape[:-1], -1, n_a_word) << shifts, axis=-1)


def unpack(words, bits, n):
    shifts = np.arange(32 // bits, dtype=np.uint32) * bits
    codes = words[..., None] >> shifts & (2**bits - 1)
    return codes.reshape(*words.shape[:-1], -1)[..., :n].astype(np.float32)


class TokenGroup(kvc.Compressor):
    """Each token's K and V, in groups of channels, rounded between the group's smallest and largest value."""

    source = "Sheng et al. 2023 (FlexGen)"
    one_by_one_same = prefix_local = chunked_prompt = True

    bits: int = kvc.option(4, choices=(2, 4, 8), help="bits per code")
    group_size: int = kvc.option(64, min=1, help="channels per scale and zero; divides head_dim")

    @classmethod
    def check_model(cls, model, options):
        if model.head_dim % options["group_size"]:
            raise ValueError(f"group_size {options['group_size']} does not divide head_dim {model.head_dim}")

    def append(self, k, v, q):
        if self.length == 0:
            self.k, self.v = self.encode(k), self.encode(v)
        else:
            self.k = [np.concatenate(both, 1) for both in zip(self.k, self.encode(k))]
            self.v = [np.concatenate(both, 1) for both in zip(self.v, self.encode(v))]

    def encode(self, x):
        groups = x.reshape(*x.shape[:2], -1, self.group_size)
        with np.errstate(over="ignore"):
            zero = groups.min(-1).astype(np.float16)
            scale = ((groups.max(-1) - groups.min(-1)) / np.float32(2**self.bits - 1)).astype(np.float16)
        if not (np.isfinite(zero).all() and np.isfinite(scale).all()):
            raise ValueError("a value is beyond fp16 (65504), in which scales and zeros are stored")
        step = scale.astype(np.float32)[..., None]
        codes = (groups - zero.astype(np.float32)[..., None]) / np.where(step == 0, 1, step)
        codes = np.where(step == 0, 0, codes.clip(0, 2**self.bits - 1).round())
        return [pack(codes.reshape(x.shape).astype(np.uint8), self.bits), scale, zero]

    def decode(self, codes, scale, zero):
        head_dim = self.info.head_dim
        groups = unpack(codes, self.bits, head_dim).reshape(*codes.shape[:2], -1, self.group_size)
        x = groups * scale.astype(np.float32)[..., None] + zero.astype(np.float32)[..., None]
        return x.reshape(*codes.shape[:2], head_dim)

    def attended(self):
        return self.decode(*self.k), self.decode(*self.v)

    def held(self):
        names = ("codes", "scales", "zeros")
        return {f"{tensor}_{name}": x for tensor, held in (("k", self.k), ("v", self.v)) for name, x in zip(names, held)}
