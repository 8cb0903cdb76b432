"""census_of_made_sets.py PROGRAM...: the census of sets that are none of the shipped one: other tag, shape, seeds, ranks,
groups, order of records. Then of sets that are wrong: an unknown method, a value that is off, samples that are missing.
Exits 77 where torch or safetensors is absent."""

import json
import os
import random
import re
import subprocess
import sys
import tempfile

try:
    import torch
    from safetensors.torch import load_file, save_file
except ImportError:
    sys.exit(77)

import made_set

torch.set_num_threads(1)


def census(folder):
    ran = subprocess.run([sys.argv[1]], env={**os.environ, "KVC_SHARED": folder}, capture_output=True, text=True)
    return ran.returncode, ran.stdout + ran.stderr


def failed(output):
    return sorted({line.split("GetParam() = ")[1].split(" (")[0].strip('"') for line in output.splitlines()
                   if line.startswith("[  FAILED  ]") and "GetParam() = " in line})


def set_in(root, *shape):
    folder = os.path.join(root, "oracle")
    return folder, made_set.write(folder, *shape)


def change(folder, edit):
    path = f"{folder}/oracle.json"
    file = json.load(open(path, encoding="utf-8"))
    edit(file["records"])
    json.dump(file, open(path, "w", encoding="utf-8"))


def expect(condition, what, output=""):
    if not condition:
        print(output[-4000:])
        sys.exit(f"census_of_made_sets: {what}")


def right_sets():
    for shape in (("B", 2, 160, 128, 5), ("long_tag", 3, 101, 64, 6)):
        with tempfile.TemporaryDirectory() as root:
            folder, records = set_in(root, *shape)
            change(folder, lambda all: random.Random(1).shuffle(all))
            code, output = census(root)
            expect(code == 0, f"set {shape}: {failed(output)}", output)
            unnamed = [r["id"] for r in records if r["id"] + " via" not in output]
            expect(not unnamed, f"set {shape}: not named in the output: {unnamed}")
            print(f"set {shape}: {len(records)} records reproduced")


def shipped_set_renamed():
    """Half of the shipped set's records, under another tag and in another order."""
    shipped = os.path.join(os.environ.get("KVC_SHARED", ""), "oracle")
    if not os.path.exists(f"{shipped}/oracle.json"):
        return print("KVC_SHARED names no folder that holds oracle/oracle.json")
    records = json.load(open(f"{shipped}/oracle.json", encoding="utf-8"))["records"]
    tags = "|".join({re.escape(name[2:]) for name in load_file(f"{shipped}/inputs.safetensors")})

    def renamed(name):
        return re.sub(rf"(?<=[_|])({tags})(?=$|[ |])", r"other_\1", name)

    with tempfile.TemporaryDirectory() as root:
        folder = os.path.join(root, "oracle")
        os.makedirs(folder)
        for file in ("inputs", "samples", "full", "init"):
            tensors = load_file(f"{shipped}/{file}.safetensors")
            save_file({renamed(name): t.contiguous() for name, t in tensors.items()}, f"{folder}/{file}.safetensors")
        half = random.Random(2).sample(records, len(records) // 2)
        whole = [r for r in records if r["id"].startswith("qjl") and r not in half]  # their parts lie in full
        half += whole + [r for r in records if r not in half + whole and r["id"] in load_file(f"{shipped}/full.safetensors")]
        for record in half:
            record["id"] = renamed(record["id"])
        json.dump({"records": half}, open(f"{folder}/oracle.json", "w", encoding="utf-8"))
        code, output = census(root)
        expect(code == 0, f"renamed set: {failed(output)}", output)
        print(f"shipped set, renamed: {len(half)} records reproduced")


def wrong_sets():
    with tempfile.TemporaryDirectory() as root:
        folder, records = set_in(root, "B", 2, 64, 64, 5)
        samples = load_file(f"{folder}/samples.safetensors")
        off, missing = "gear_sim.token_group b4 g64|V_B", "deco.rtn b4|K_B"
        samples[off] = samples[off] + 0.01
        del samples[missing]
        save_file(samples, f"{folder}/samples.safetensors")

        def edit(all):
            all[-1]["id"] = "kvquant.float b3 sparseNone|V_B"
            for record in all:
                if record["id"].startswith("hqq b4 axis0 optTrue|K_B"):
                    record["rel_fro"] *= 1.001
                if record["id"].startswith("hqq b4 axis0 optTrue|V_B"):
                    record["max_abs"] += 0.001

        change(folder, edit)
        code, output = census(root)
        expected = sorted([off, missing, "kvquant.float b3 sparseNone|V_B", "hqq b4 axis0 optTrue|K_B",
                           "hqq b4 axis0 optTrue|V_B"])
        expect(code == 1 and failed(output) == expected, f"wrong set: failed {failed(output)}, expected {expected}", output)
        expect("no reproduction for method kvquant.float" in output, "unknown method is not named")
        print(f"wrong set: {len(expected)} of {len(records)} records fail, as they must")


right_sets()
shipped_set_renamed()
wrong_sets()
