"""The plugin snapkv in Python, with torch: token eviction."""
import kvc
import torch


class SnapKv(kvc.Compressor):
    """Keeps the prompt tokens that the prompt's last queries attend to; later tokens are kept."""

    source = "Li et al. 2024 (SnapKV), algorithm 1"
    evicts = True

    capacity: int = kvc.option(256, min=2, help="prompt tokens per head, window included")
    window: int = kvc.option(32, min=1, help="newest prompt tokens, which vote and are kept")
    kernel: int = kvc.option(5, min=1, help="neighbours over which votes are averaged; odd")

    @classmethod
    def check_model(cls, model, options):
        if options["kernel"] % 2 == 0 or options["capacity"] <= options["window"]:
            raise ValueError("kernel must be odd, and capacity larger than window")

    def append(self, k, v, q):
        if self.length > 0:
            self.k, self.v = torch.cat([self.k, k.half()], 1), torch.cat([self.v, v.half()], 1)
            return
        self.kept = None  # [H_kv, n] positions of the prompt's kept tokens, where some were evicted
        if k.size(1) > self.capacity:
            if q is None:
                raise ValueError("ranks tokens by attention, and there are no queries")
            self.kept = self.winners(q, k)
            rows = self.kept.long().unsqueeze(2).expand(-1, -1, k.size(2))
            k, v = k.gather(1, rows), v.gather(1, rows)
        self.k, self.v = k.half(), v.half()
        if not (self.k.isfinite().all() and self.v.isfinite().all()):
            raise ValueError("a value is beyond fp16 (65504)")

    def winners(self, q, k):
        n, window = k.size(1), self.window
        queries = q[:, n - window:].reshape(k.size(0), -1, window, k.size(2))  # [H_kv, G, window, D]
        scores = queries @ k.transpose(1, 2).unsqueeze(1) * self.info.attention_scale
        key, query = torch.arange(n), torch.arange(n - window, n).unsqueeze(1)
        hidden = key > query
        if self.info.sliding_window > 0:
            hidden |= key <= query - self.info.sliding_window
        mass = scores.masked_fill(hidden, -torch.inf).softmax(-1).sum((1, 2))  # [H_kv, n]
        votes = torch.nn.functional.avg_pool1d(mass[:, None, :n - window], self.kernel, 1, self.kernel // 2).squeeze(1)
        best = votes.sort(dim=1, descending=True, stable=True).indices[:, :self.capacity - window].sort(1).values
        return torch.cat([best, torch.arange(n - window, n).expand(k.size(0), -1)], 1).int()

    def attended(self):
        return self.k.float(), self.v.float()

    def positions(self):
        n_held, n_heads = self.k.size(1), self.info.n_kv_heads
        if self.kept is None:
            return torch.arange(n_held).expand(n_heads, n_held)
        n_later = n_held - self.kept.size(1)
        later = torch.arange(self.length - n_later, self.length).expand(n_heads, n_later)
        return torch.cat([self.kept.long(), later], 1)

    def n_encoded_tokens(self):
        return self.length - self.k.size(1)

    def n_encoded_numbers(self):
        return 0

    def held(self):
        held = {"k_recent": self.k, "v_recent": self.v}
        return held if self.kept is None else {**held, "index": self.kept}
