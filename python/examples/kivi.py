"""The plugin kivi in Python, with torch."""
import kvc
import torch


def pack(codes, bits):
    """uint8 [..., n], n * bits a multiple of 32 -> int32 [..., n * bits / 32], the first code in the lowest bits."""
    n_a_byte = 8 // bits
    shifts = torch.arange(n_a_byte, dtype=torch.uint8) * bits
    return (codes.unflatten(-1, (-1, n_a_byte)) << shifts).sum(-1, dtype=torch.uint8).view(torch.int32)


def unpack(words, bits):
    shifts = torch.arange(8 // bits, dtype=torch.uint8) * bits
    return (words.view(torch.uint8).unsqueeze(-1) >> shifts & (2**bits - 1)).flatten(-2).float()


class Kivi(kvc.Compressor):
    """K per channel in groups of tokens, V per token in groups of channels, the newest tokens exact."""

    source = "Liu et al. 2024 (KIVI), section 3.2 and algorithm 1"

    bits: int = kvc.option(2, choices=(2, 4, 8), help="bits per code")
    group_size: int = kvc.option(32, choices=(16, 32, 64, 128), help="tokens (K) or channels (V) per scale and zero")
    recent: int = kvc.option(128, min=16, help="newest tokens kept uncompressed; a multiple of group_size")

    @classmethod
    def check_model(cls, model, options):
        if options["recent"] % options["group_size"]:
            raise ValueError(f"recent {options['recent']} is not a multiple of group_size {options['group_size']}")
        if model.head_dim % options["group_size"]:
            raise ValueError(f"group_size {options['group_size']} does not divide head_dim {model.head_dim}")

    def __init__(self):
        self.k_codes, self.v_codes = [], []  # (codes, scales, zeros) of tokens that were encoded together
        self.k_recent = self.v_recent = torch.empty(self.info.n_kv_heads, 0, self.info.head_dim, dtype=torch.half)

    def append(self, k, v, q):
        is_prompt = self.length == 0
        self.k_recent = torch.cat([self.k_recent, self.half(k)], 1)
        self.v_recent = torch.cat([self.v_recent, self.half(v)], 1)
        # A decode step attends before what it made full is encoded: that waits for the next append.
        due = self.k_recent.size(1) - (not is_prompt)
        self.encode_k(due - due % self.recent)
        self.encode_v(self.v_recent.size(1) - (not is_prompt) - self.recent)

    def half(self, x):
        x = x.half()
        if not x.isfinite().all():
            raise ValueError("a value is beyond fp16 (65504), in which recent tokens are stored")
        return x

    def encode_k(self, n):
        if n > 0:
            front, self.k_recent = self.k_recent[:, :n].float(), self.k_recent[:, n:].clone()
            self.k_codes.append(self.encode(front.transpose(1, 2)))

    def encode_v(self, n):
        if n > 0:
            front, self.v_recent = self.v_recent[:, :n].float(), self.v_recent[:, n:].clone()
            self.v_codes.append(self.encode(front))

    def encode(self, x):
        groups = x.unflatten(-1, (-1, self.group_size))
        zero, top = groups.amin(-1), groups.amax(-1)
        scale = ((top - zero) / (2**self.bits - 1)).half()
        zero = zero.half()
        step = scale.float().unsqueeze(-1)
        codes = ((groups - zero.float().unsqueeze(-1)) / step).clamp(0, 2**self.bits - 1).round()
        codes = codes.masked_fill(step == 0, 0).to(torch.uint8).flatten(-2)
        return pack(codes.contiguous(), self.bits), scale, zero

    def decode(self, codes, scale, zero):
        groups = unpack(codes, self.bits).unflatten(-1, (-1, self.group_size))
        return (groups * scale.float().unsqueeze(-1) + zero.float().unsqueeze(-1)).flatten(-2)

    def attended(self):
        k = [self.decode(*each).transpose(1, 2) for each in self.k_codes] + [self.k_recent.float()]
        v = [self.decode(*each) for each in self.v_codes] + [self.v_recent.float()]
        return torch.cat(k, 1), torch.cat(v, 1)

    def n_encoded_tokens(self):
        return self.length - min(self.k_recent.size(1), self.v_recent.size(1))

    def n_encoded_numbers(self):
        n_recent = self.k_recent.size(1) + self.v_recent.size(1)
        return (2 * self.length - n_recent) * self.info.n_kv_heads * self.info.head_dim
