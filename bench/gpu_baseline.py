#!/usr/bin/env python3
"""gpu_baseline.py DEVICE [copy]: the device's copy bandwidth, and (not with `copy`) torch's scaled_dot_product_attention
of one token over caches of 16 bits, as JSON. Medians of 20 after 5 to warm up; the layer is that of
configs/bench_gpu.yaml."""
import json
import statistics
import sys
import time

import torch

HEADS, KV_HEADS, HEAD_DIM = 32, 8, 128


def seconds_of(run, synchronize):
    times = []
    for _ in range(25):
        synchronize()
        start = time.perf_counter()
        run()
        synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times[5:])


def main():
    device = torch.device(sys.argv[1] if sys.argv[1].startswith("cuda:") else "cpu")
    synchronize = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    n_bytes = 1 << (30 if device.type == "cuda" else 24)
    source = torch.empty(n_bytes, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    copy = seconds_of(lambda: target.copy_(source), synchronize)
    print(json.dumps({"device": str(device), "torch": torch.__version__, "copy_bytes": n_bytes,
                      "copy_gb_a_second": 2 * n_bytes / copy / 1e9}))
    if "copy" in sys.argv[2:]:
        return
    for n_tokens in (8192, 32768):
        for batch in (1, 8, 16):
            k = torch.randn(batch, KV_HEADS, n_tokens, HEAD_DIM, dtype=torch.float16, device=device)
            v, q = torch.randn_like(k), torch.randn(batch, HEADS, 1, HEAD_DIM, dtype=torch.float16, device=device)
            spent = seconds_of(
                lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True), synchronize)
            print(json.dumps({"tokens": n_tokens, "batch": batch, "milliseconds": 1e3 * spent,
                              "gb_a_second": 2 * k.numel() * 2 / spent / 1e9}))
            if device.type != "cuda":
                return


if __name__ == "__main__":
    main()
