"""kvc export lm-eval, read by lm-eval's own code: its table, its names of files, and samples as a data set.

Argument: the program. Skipped (77) where lm-eval is not installed.
"""

import glob
import json
import os
import subprocess
import sys
import tempfile

try:
    from datasets import load_dataset
    from lm_eval.utils import get_file_task_name, get_results_filenames, get_sample_results_filenames, make_table
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

PROGRAM = sys.argv[1]
EXPERIMENT = """
name: exported
model: models/demo
tasks: [demo/lookup, demo/swaps]
limit: 4
compressors: [full, token_group: {bits: 2, group_size: 64}]
"""


def run(*arguments):
    return subprocess.run([PROGRAM, *arguments], check=True, capture_output=True, text=True).stdout


def check(folder, accuracies, cache):
    files = glob.glob(folder + "/*")
    assert len(get_results_filenames(files)) == 1 and len(get_sample_results_filenames(files)) == 2, files
    with open(get_results_filenames(files)[0]) as file:
        results = json.load(file)
    table = make_table(results)
    print(table)
    for task, accuracy in accuracies.items():
        row = next(line for line in table.splitlines() if line.startswith("|" + task))
        assert abs(float(row.split("|")[7]) - accuracy) < 6e-4, (row, accuracy)
    for name in get_sample_results_filenames(files):
        task = get_file_task_name(os.path.basename(name))
        samples = load_dataset("json", data_files=name, split="train", cache_dir=cache)
        metric = samples["metrics"][0][0]
        mean = sum(samples[metric]) / len(samples)
        assert len(samples) == 4 and abs(mean - results["results"][task][f"{metric},{samples['filter'][0]}"]) < 1e-12
    return results["kv_compression"]["method"]


def main():
    with tempfile.TemporaryDirectory() as folder:
        database, out = os.path.join(folder, "x.sqlite"), os.path.join(folder, "out")
        with open(os.path.join(folder, "x.yaml"), "w") as file:
            file.write(EXPERIMENT)
        run("run", os.path.join(folder, "x.yaml"), "--db", database)
        run("export", "lm-eval", database, "-o", out)
        rows = json.loads(run("query", "--db", database, "--format", "json",
                              "SELECT c.plugin, c.task, s.sum_value / s.n AS a FROM v_cell AS c JOIN v_score AS s"
                              " ON s.cell_key = c.key AND s.position = 0"))["rows"]
        folders = sorted(glob.glob(out + "/*"))
        assert len(folders) == 2, folders
        for one in folders:
            plugin = "full" if "full" in os.path.basename(one) else "token_group"
            accuracies = {row["task"]: row["a"] for row in rows if row["plugin"] == plugin}
            assert check(one, accuracies, os.path.join(folder, "cache")) == plugin


main()
