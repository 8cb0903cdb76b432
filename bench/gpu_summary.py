#!/usr/bin/env python3
"""gpu_summary.py RESULTS: of copy.json and speed.json in that folder, which bench/gpu.sh wrote, summary.json: for each
compressor and point the times of a step's append and attention, the share of the copy bandwidth that it reads its caches
at, and torch's attention over 16 bits at the same point beside it, where baseline.json has one."""
import json
import os
import sys


def lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def main():
    folder = sys.argv[1]
    for name in ("copy.json", "speed.json"):
        if not os.path.isfile(os.path.join(folder, name)):
            sys.exit(f"gpu_summary.py: {folder}: no {name}; bench/gpu.sh's steps machine and speed write them")
    machine, attention = lines(os.path.join(folder, "copy.json"))[0], []
    if os.path.isfile(os.path.join(folder, "baseline.json")):
        attention = lines(os.path.join(folder, "baseline.json"))[1:]
    with open(os.path.join(folder, "speed.json"), encoding="utf-8") as file:
        measured = json.load(file)["rows"]
    torch = {(row["tokens"], row["batch"]): row["milliseconds"] for row in attention}
    rows = []
    for row in measured:
        step, beside = row["attend [ms]"] / row["new"], torch.get((row["prompt"], row["batch"]))
        rows.append({"compressor": row["compressor"], "options": row["options"], "prompt": row["prompt"],
                     "batch": row["batch"], "milliseconds_a_step": step, "read_gb_a_second": row["KV read [GB/s]"],
                     "of_copy_percent": 100 * row["KV read [GB/s]"] / machine["copy_gb_a_second"],
                     "torch_sdpa_milliseconds": beside, "over_torch_sdpa": beside / step if beside else None})
    with open(os.path.join(folder, "summary.json"), "w", encoding="utf-8") as file:
        json.dump({**machine, "rows": rows}, file, indent=1)
    for row in rows:
        print(f"{row['compressor']:20}{row['options']:40}{row['prompt']:7}{row['batch']:4}"
              f"{row['milliseconds_a_step']:10.3f} ms{row['of_copy_percent']:7.1f} % of copy", end="")
        print(f"{row['over_torch_sdpa']:8.2f} x torch" if row["over_torch_sdpa"] else "")


if __name__ == "__main__":
    main()
