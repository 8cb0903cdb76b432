"""Whether the Python package gives what the program and the database say, and the notebook's cells run.

usage: frames_check.py PROGRAM
"""
import json
import os
import signal
import sqlite3
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))

EXPERIMENT = """name: frames
model: models/demo
tasks: [demo/lookup, demo/truth]
limit: 3
sizes: []
compressors:
  - full
  - {kivi: {bits: 2, group_size: 32, recent: 32}, label: "KIVI, 2 bits"}
"""


def check(holds, what):
    if not holds:
        sys.exit(f"frames_check: {what}")


def refused(action):
    try:
        action()
    except Exception as error:  # KvcError
        return str(error)
    return ""


def check_experiments_that_are_no_files(kvc, database):
    experiment = {"model": "models/demo", "tasks": ["demo/truth"], "limit": 1, "sizes": [], "compressors": ["full"]}
    results = kvc.run(experiment, db=database)
    check("notebook" in set(results.experiments().experiment), "an experiment that is a dict")
    kvc.run("name: text\n" + json.dumps(experiment)[1:-1].replace(', "', '\n"'), db=database)
    check("text" in set(results.experiments().experiment), "an experiment that is a text")
    check(not [name for name in os.listdir(".") if name.startswith(".kvc-")], "what was written for it is gone")
    check("unknown key 'limt'" in refused(lambda: kvc.run({**experiment, "limt": 1})), "a wrong key of a dict")

    def interrupt():
        while not os.path.exists("long.sqlite"):
            time.sleep(0.1)
        time.sleep(2)
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=interrupt).start()
    try:
        kvc.run({**experiment, "name": "long", "tasks": ["demo"], "limit": 1000, "workers": 1,
                 "compressors": ["full", "kivi", "gear"]}, db="long.sqlite", progress=False)
        check(False, "a long run ended before it was interrupted")
    except KeyboardInterrupt:
        check(sqlite3.connect("long.sqlite").execute("PRAGMA integrity_check").fetchone() == ("ok",), "the database is whole")


def check_verdicts(kvc, pandas):
    found = kvc.check("models/demo", [{"kivi": {"bits": 2, "group_size": 32}}, "q8_0"], quick=True, db="check.sqlite",
                      settings={"workers": 1})
    check(list(found.table.compressor) == ["full precision", "kivi bits 2, group_size 32", "q8_0"], "rows of a check")
    for name in ("kv_percent", "kl_nats", "kl_nats_low", "top1_agreement", "kl_max"):
        check(pandas.api.types.is_numeric_dtype(found.table[name]), f"{name} is a number")
    check(found.table.verdict[1] == "breaks" and found.card["kv_card"] == 1, "verdict and card")
    tokens = found.results.tokens()
    mean = tokens[tokens.compressor == found.table.compressor[1]].kl.mean()
    check(abs(mean - found.table.kl_nats[1]) < 1e-4, f"the mean of the tokens' KL {mean} is the check's {found.table.kl_nats[1]}")
    likelihood = found.results.table("likelihood")
    check(pandas.api.types.is_numeric_dtype(likelihood["KL"]) and "KL low" in likelihood, "numbers of the likelihood table")
    stored = found.results.check()
    for name in ("KL", "KL low", "top-1", "passkey right", "of 16 bits"):
        check(pandas.api.types.is_numeric_dtype(stored[name]), f"{name} of stored verdicts is a number")
    check(list(stored.verdict[1:]) == list(found.table.verdict[1:]), "stored verdicts are the check's")
    check("<table" in found._repr_html_() and "<table" in found.results._repr_html_(), "tables in a notebook")
    check(len(found.plot().texts) == 2, "a plot names both compressors")
    check("did you mean 'bits'" in refused(lambda: kvc.check("models/demo", [{"kivi": {"bit": 2}}])), "a wrong option")
    check("a dict of one name" in refused(lambda: kvc.check("models/demo", [{"a": {}, "b": {}}])), "two compressors in one")


def main():
    try:
        import matplotlib
        import pandas
    except ImportError as error:
        print(f"skipped: {error}")
        sys.exit(77)
    matplotlib.use("Agg")
    os.environ["KVC"] = os.path.abspath(sys.argv[1])
    os.environ["KVC_ROOT"] = ROOT
    import kvc
    with tempfile.TemporaryDirectory() as folder:
        experiment, database = os.path.join(folder, "frames.yaml"), os.path.join(folder, "frames.sqlite")
        with open(experiment, "w") as file:
            file.write(EXPERIMENT)
        results = kvc.run(experiment, db=database, settings={"workers": 1})
        connection = sqlite3.connect(database)
        samples = results.samples()
        check(len(samples) == 12 == connection.execute("SELECT count(*) FROM sample").fetchone()[0], "a row a sample")
        check(set(samples.compressor) == {"full", "KIVI, 2 bits"}, f"labels are the experiment's: {set(samples.compressor)}")
        check(samples.attrs["units"]["kv_bytes"] == "bytes", "units")
        tasks = results.table("tasks")
        check(list(tasks["row"]) == ["full", "KIVI, 2 bits"], f"rows of the table: {list(tasks['row'])}")
        kivi = samples[samples.plugin == "kivi"]
        share = 100 * kivi.kv_bytes.sum() / kivi.kv_bytes_fp16.sum()
        check(abs(tasks["KV size"][1] - share) < 1e-9, f"KV size {tasks['KV size'][1]} of the table, {share} of samples")
        check(tasks.attrs["units"]["demo/lookup"] == "%" and tasks.attrs["notes"], "the table's units and notes")
        accuracy = 100 * kivi[kivi.task == "demo/lookup"].score.mean()
        check(abs(tasks["demo/lookup"][1] - accuracy) < 1e-9, "the table's accuracy is the samples'")
        check(tasks["demo/lookup low"][1] <= accuracy <= tasks["demo/lookup high"][1], "the interval holds it")
        check(results.experiments()["done"].sum() == 12, "experiments")
        check(len(results.compare("full", "KIVI, 2 bits")) == 3, "compare: two tasks and both")
        check("KV size" in results.table().columns, "the summary")
        check("no such table" in refused(lambda: results.query("SELECT * FROM no_table")), "a wrong query")
        check("attempt to write" in refused(lambda: results.query("DELETE FROM sample")), "a query that writes")
        check("did you mean 'tasks'" in refused(lambda: results.table("task")), "a wrong table")
        check("no such file" in refused(lambda: kvc.results(os.path.join(folder, "none.sqlite"))), "no database")
        check("not_there" in refused(lambda: kvc.run("not_there.yaml")), "no experiment")

        os.chdir(folder)
        check_experiments_that_are_no_files(kvc, database)
        check_verdicts(kvc, pandas)

        with open(os.path.join(ROOT, "docs/notebook.ipynb")) as file:
            cells = [cell for cell in json.load(file)["cells"] if cell["cell_type"] == "code"]
        names = {}
        for number, cell in enumerate(cells):
            exec(compile("".join(cell["source"]), f"notebook.ipynb, code cell {number + 1}", "exec"), names)
        check(os.path.getsize(os.path.join(folder, "pareto.svg")) > 1000, "the notebook drew its figure")
        check("\\textbf" in open(os.path.join(folder, "table_1.tex")).read(), "the notebook wrote its table")
    print("the package and the notebook agree with the database")


main()
