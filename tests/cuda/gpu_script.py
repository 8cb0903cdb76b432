"""bench/gpu.sh on the emulated device: it writes what it promises, a row for every compressor of configs/bench_gpu.yaml,
and refuses a step that it does not know.

Argument: the program.
"""

import json
import os
import re
import subprocess
import sys
import tempfile

BUILD = os.path.dirname(os.path.dirname(os.path.abspath(sys.argv[1])))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SHORT = "bench.prompt_tokens=[40] bench.batch=[1] bench.new_tokens=1 bench.repeats=1 bench.warmups=0"


def torch_folder():
    with open(os.path.join(BUILD, "CMakeCache.txt"), encoding="utf-8") as file:
        return re.search(r"^KVC_TORCH:\w+=(.*)$", file.read(), re.M)[1]


def run(results, *steps):
    settings = {"KVC_DEVICE": "cuda-emulated", "KVC_RESULTS": results, "KVC_SPEED": SHORT}
    return subprocess.run([os.path.join(ROOT, "bench", "gpu.sh"), BUILD, torch_folder(), *steps],
                          env=os.environ | settings, capture_output=True, text=True)


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
        refused = run(results, "speeed")
        assert refused.returncode == 2 and "step 'speeed'" in refused.stderr, refused.stderr


if __name__ == "__main__":
    main()
