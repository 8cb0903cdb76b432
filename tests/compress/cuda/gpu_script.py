"""bench/gpu.sh on the emulated device: it writes what it promises, a row for every compressor of configs/bench_gpu.yaml
and of its Table 6, shares of the copy bandwidth, runs no step twice that passed, and refuses a step that it does not
know.

Argument: the program.
"""

import json
import os
import re
import subprocess
import sys
import tempfile

BUILD = os.path.dirname(os.path.dirname(os.path.abspath(sys.argv[1])))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


def torch_folder():
    with open(os.path.join(BUILD, "CMakeCache.txt"), encoding="utf-8") as file:
        return re.search(r"^KVC_TORCH:\w+=(.*)$", file.read(), re.M)[1]


def run(results, *steps):
    return subprocess.run([os.path.join(ROOT, "bench", "gpu.sh"), "--emulated", BUILD, *steps], text=True,
                          env=os.environ | {"KVC_TORCH": torch_folder(), "KVC_RESULTS": results}, capture_output=True)


def expect_run(results, *steps):
    done = run(results, *steps)
    assert done.returncode == 0, done.stdout + done.stderr
    for step in steps:
        assert re.search(rf"^{step} +passed", done.stdout, re.M), done.stdout
    return done.stdout


def load(results, name):
    with open(os.path.join(results, name), encoding="utf-8") as file:
        return json.load(file)


def summary(results, measured):
    """Of figures that are made up: 100 GB/s of copy, and torch's attention in 2 ms where `speed` was."""
    program = [sys.executable, os.path.join(ROOT, "bench", "gpu_summary.py"), results]
    with open(os.path.join(results, "copy.json"), "w", encoding="utf-8") as file:
        file.write(json.dumps({"device": "made up", "copy_gb_a_second": 100}) + "\n")
    with open(os.path.join(results, "baseline.json"), "w", encoding="utf-8") as file:
        file.write(json.dumps({"device": "made up", "copy_gb_a_second": 100}) + "\n")
        file.write(json.dumps({"tokens": 40, "batch": 1, "milliseconds": 2}) + "\n")
    done = subprocess.run(program, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = load(results, "summary.json")["rows"]
    assert len(rows) == len(measured)
    for row, was in zip(rows, measured):
        assert row["of_copy_percent"] == 100 * was["KV read [GB/s]"] / 100, (row, was)
        assert abs(row["over_torch_sdpa"] - 2 / was["attend [ms]"]) < 1e-9, (row, was)
    os.remove(os.path.join(results, "copy.json"))
    refused = subprocess.run(program, capture_output=True, text=True)
    assert refused.returncode != 0 and "no copy.json" in refused.stderr, refused.stderr


def main():
    with tempfile.TemporaryDirectory() as results:
        said = expect_run(results, "machine", "speed")
        assert re.search(r"^machine +passed +\d+  copies \d+ GB/s$", said, re.M), said
        with open(os.path.join(results, "machine.txt"), encoding="utf-8") as file:
            assert "LibTorch" in file.read()
        table = load(results, "speed.json")
        with open(os.path.join(ROOT, "configs", "bench_gpu.yaml"), encoding="utf-8") as file:
            wanted = set(re.findall(r"^  - (\w+)", file.read(), re.M))
        shown = {row["compressor"] for row in table["rows"]}
        assert shown == wanted, (shown, wanted)
        expect_run(results, "table6")
        assert len(load(results, "table6.json")["rows"]) == 4
        assert "== " not in expect_run(results, "machine", "table6")  # they passed
        summary(results, table["rows"])
        refused = run(results, "speeed")
        assert refused.returncode == 2 and "step 'speeed'" in refused.stderr, refused.stderr


if __name__ == "__main__":
    main()
