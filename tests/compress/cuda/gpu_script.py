"""bench/gpu.sh on the emulated device: it writes what it promises, a row for every compressor of configs/bench_gpu.yaml
and of its Table 6, shares of the copy bandwidth, and refuses a step that it does not know.

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
SHORT = "bench.prompt_tokens=[40] bench.batch=[1] bench.new_tokens=1 bench.repeats=1 bench.warmups=0"

TABLE6 = "bench.config=models/demo/config.json bench.prompt_tokens=[160] bench.batch=[1] bench.new_tokens=1"


def torch_folder():
    with open(os.path.join(BUILD, "CMakeCache.txt"), encoding="utf-8") as file:
        return re.search(r"^KVC_TORCH:\w+=(.*)$", file.read(), re.M)[1]


def run(results, *steps):
    settings = {"KVC_DEVICE": "cuda-emulated", "KVC_RESULTS": results, "KVC_SPEED": SHORT, "KVC_TABLE6": TABLE6}
    return subprocess.run([os.path.join(ROOT, "bench", "gpu.sh"), BUILD, torch_folder(), *steps],
                          env=os.environ | settings, capture_output=True, text=True)


def summary(results, measured):
    """Of figures that are made up: 100 GB/s of copy, and torch's attention in 2 ms where `speed` was."""
    refused = run(results, "summary")
    assert refused.returncode != 0 and "no baseline.json" in refused.stderr, refused.stderr
    with open(os.path.join(results, "baseline.json"), "w", encoding="utf-8") as file:
        file.write(json.dumps({"device": "made up", "copy_gb_a_second": 100}) + "\n")
        file.write(json.dumps({"tokens": 40, "batch": 1, "milliseconds": 2}) + "\n")
    done = run(results, "summary")
    assert done.returncode == 0, done.stdout + done.stderr
    with open(os.path.join(results, "summary.json"), encoding="utf-8") as file:
        rows = json.load(file)["rows"]
    assert len(rows) == len(measured)
    for row, was in zip(rows, measured):
        assert row["of_copy_percent"] == 100 * was["KV read [GB/s]"] / 100, (row, was)
        assert abs(row["over_torch_sdpa"] - 2 / was["attend [ms]"]) < 1e-9, (row, was)


def main():
    with tempfile.TemporaryDirectory() as results:
        done = run(results, "machine", "speed")
        assert done.returncode == 0, done.stdout + done.stderr
        with open(os.path.join(results, "machine.txt"), encoding="utf-8") as file:
            assert "LibTorch" in file.read()
        with open(os.path.join(results, "speed.json"), encoding="utf-8") as file:
            table = json.load(file)
        with open(os.path.join(ROOT, "configs", "bench_gpu.yaml"), encoding="utf-8") as file:
            wanted = set(re.findall(r"^  - (\w+)", file.read(), re.M))
        column = table["columns"].index("compressor")
        shown = {row[column] if isinstance(row, list) else row["compressor"] for row in table["rows"]}
        assert shown == wanted, (shown, wanted)
        done = run(results, "table6")
        assert done.returncode == 0, done.stdout + done.stderr
        with open(os.path.join(results, "table6.json"), encoding="utf-8") as file:
            assert len(json.load(file)["rows"]) == 4
        summary(results, table["rows"])
        refused = run(results, "speeed")
        assert refused.returncode == 2 and "step 'speeed'" in refused.stderr, refused.stderr


if __name__ == "__main__":
    main()
