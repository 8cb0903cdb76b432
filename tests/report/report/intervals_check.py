"""One number has one interval: every output of a database prints the same bounds for the same score, and none where there
are too few windows of text.

Argument: the program.
"""

import csv
import io
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
from served import datasette_of, get, served  # noqa: E402

PROGRAM = sys.argv[1]
ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../.."))
TEXT = """version: 1
summary: a text of the test
kind: likelihood
data: {file: book.txt, root: task, format: text}
fields: {text: text}
prompt: {template: "{text}"}
likelihood: {tokens: 256, prompt_tokens: 192, windows: %d, block: 16, reference: full}
"""
GRADED = """version: 1
summary: how much of the worked answer is there
like: demo/lookup
gold: {from: answer}
extractors: [{name: f1, steps: [strip], compare: f1}]
metric: f1
extract_cases:
  - {extractor: f1, text: " teal", gold: "teal", answer: "teal", correct: true}
  - {extractor: f1, text: "teal ", gold: "teal", answer: "teal", correct: true}
  - {extractor: f1, text: "Kim teal", gold: "Kim teal", answer: "Kim teal", correct: true}
  - {extractor: f1, text: "rose", gold: "teal", answer: "rose", correct: false}
  - {extractor: f1, text: " ruby ", gold: "teal", answer: "ruby", correct: false}
  - {extractor: f1, text: "Kim", gold: "teal", answer: "Kim", correct: false}
"""
EXPERIMENT = """name: one
model: models/demo
tasks: [tasks/mine/long.yaml, tasks/mine/short.yaml, tasks/mine/graded.yaml, demo/lookup]
limit: 6
sizes: [128]
compressors:
  - full
  - {kivi: {bits: 2, group_size: 32, recent: 32}, label: two}
"""
TASKS = ("mine/long", "mine/short", "mine/graded", "demo/lookup")


def kvc(*arguments):
    return subprocess.run([PROGRAM, *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


def query(database, sql):
    answer = json.loads(kvc("query", database, sql, "--format", "json"))
    return answer["rows"]


def write(path, text):
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def numbers(text):
    return [float(x) for x in re.findall(r"-?[0-9.]+(?:e-?[0-9]+)?", text)]


def bounds_in(text):
    """The numbers between the brackets of "92.0 [85.0, 95.9]"; None: there are none."""
    found = re.search(r"\[([^]]*)\]", text)
    return numbers(found[1]) if found else None


class Outputs:
    """What each output says of each score, to be compared with v_interval's."""

    def __init__(self, database):
        rows = query(database, """
            SELECT e.label, c.plugin, c.task, i.measure, 100 * i.mean AS mean, 100 * i.low AS low, 100 * i.high AS high
            FROM v_interval AS i JOIN cell AS c ON c.key = i.cell_key
            JOIN experiment_cell AS e ON e.cell_key = c.key AND e.experiment = 'one'""")
        self.truth = {(row["label"] or row["plugin"], row["task"], "kl" if row["measure"] == "kl" else "score"): row
                      for row in rows if row["measure"] != "nll"}
        self.seen = {}

    def compare(self, output, compressor, task, bounds, decimals, measure="score", scale=1.0):
        """decimals: after the point, or None for all digits; scale: of what is printed, from percent."""
        compressor = "full" if compressor.startswith("full") else compressor  # or "full defaults"
        truth = self.truth[compressor, task, measure]
        self.seen.setdefault(output, set()).add((compressor, task, measure))
        if truth["low"] is None:
            assert bounds is None, (output, compressor, task, bounds)
            return
        assert bounds is not None, (output, compressor, task)
        for printed, exact in zip(bounds, (truth["low"] * scale, truth["high"] * scale), strict=True):
            room = 1e-9 * abs(exact) if decimals is None else 0.500001 * 10 ** -decimals
            assert abs(printed - exact) <= room, (output, compressor, task, bounds, exact)

    def rows(self, output, rows, low, high, compressor="plugin"):
        for row in rows:
            name = "two" if row[compressor] in ("kivi", "two") else "full"
            bounds = None if row[low] in (None, "") else [float(row[low]), float(row[high])]
            self.compare(output, name, row["task"], bounds, None)


def check_tables(outputs, database):
    for row in csv.DictReader(io.StringIO(kvc("table", database, "--format", "csv"))):
        for heading, cell in row.items():
            task = heading.split(" [")[0]
            if task in TASKS:
                outputs.compare("table", row["compressor"], task, bounds_in(cell), 1)
    for table in ("tasks", "by_size"):
        shown = json.loads(kvc("table", table, "--db", database, "--format", "json"))
        for row in shown["rows"]:
            for column, cell in row["cells"].items():
                words = column.split(" ")
                task = words[-1]
                if task not in TASKS or words[0] == "KV" or (table == "by_size" and row["row"] == "full"):
                    continue
                bounds = [cell["low"], cell["high"]] if "low" in cell else None
                measure = "kl" if words[0] == "KL" else "score"
                outputs.compare("table " + table, row["row"], task, bounds, None, measure, 10 if measure == "kl" else 1)
    for row in csv.DictReader(io.StringIO(kvc("table", "likelihood", "--db", database, "--format", "csv"))):
        if row["position"] == "all":
            outputs.compare("table likelihood", row["compressor"], row["task"], bounds_in(row["top-1 [%]"]), 2)


def check_queries(outputs, database):
    sql = open(os.path.join(ROOT, "results/queries/accuracy_and_bytes.sql")).read()
    outputs.rows("query", query(database, sql), "low_percent", "high_percent")


def check_figures(outputs, database):
    for figure in ("bars", "pareto", "pareto_kl"):
        kvc("figure", figure, "--db", database, "-o", figure + ".svg")
        measure = "kl" if figure == "pareto_kl" else "score"
        for block in open(figure + ".dat").read().split("\n\n"):
            check_figure_block(outputs, figure, measure, block)


def check_figure_block(outputs, figure, measure, block):
    heading = re.search(r"panel '([^']*)'(?:, series '([^']*)')?", block)
    if not heading:
        return
    task = heading[1].split(", ")[-1]
    for line in block.splitlines():
        point = re.match(r'\S+ "([^"]*)" \S+ (\S+) (\S+)$', line)
        if point and task in TASKS:
            bounds = None if point[2] == "?" else [float(point[2]), float(point[3])]
            scale = 0.01 if measure == "kl" else 1.0
            outputs.compare("figure " + figure, heading[2] or point[1], task, bounds, None, measure, scale)


def check_report(outputs, database):
    kvc("report", database, "-o", "report.html")
    page = open("report.html").read()
    for title, table in re.findall(r"points of ([^;<]*);.*?<table.*?<tbody>(.*?)</table>", page, re.S):
        for row in re.findall(r"<tr>(.*?)</tr>", table, re.S):
            cells = [re.sub(r"<[^>]*>", "", cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row, re.S)]
            if title in TASKS:
                outputs.compare("report", cells[0], title, numbers(" ".join(cells[3:5])) or None, 1)


def check_datasette(outputs, database):
    if not os.path.exists(datasette_of(PROGRAM)):
        print("Datasette is not there: its numbers were not compared")
        return
    name = os.path.basename(database).removesuffix(".sqlite")
    with served(PROGRAM, database) as (base, _):
        answer = json.loads(get(f"{base}/{name}/accuracy_and_bytes.json?_shape=array"))
        outputs.rows("serve, a query", answer, "low_percent", "high_percent")
        page = get(base + "/")
        headings = [text.split(" [")[0] for text in re.findall(r'<th><a href="[^"]*">([^<]*)</a>', page)]
        for row in re.findall(r"<tr>(<td>.*?)</tr>", page):
            cells = re.findall(r"<td>(.*?)</td>", row)
            for heading, cell in zip(headings[2:], cells[2:], strict=True):
                task = heading.split(" ")[-1]
                if heading.startswith("KL"):
                    check_three_digits(outputs, cells[0], task, bounds_in(cell))
                else:
                    outputs.compare("serve, its first page", cells[0], task, bounds_in(cell), 1)


def check_three_digits(outputs, compressor, task, bounds):
    """KL as the first page of serve prints it."""
    truth = outputs.truth["full" if compressor.startswith("full") else compressor, task, "kl"]
    exact = None if truth["low"] is None else [float(f"{truth[end] / 100:.3g}") for end in ("low", "high")]
    assert bounds == exact, (compressor, task, bounds, exact)


def check_of_check(database):
    """`kvc check` on one length has one cell of text a compressor."""
    card = json.loads(kvc("check", "models/demo", "kivi: {bits: 2, group_size: 32, recent: 32}", "--quick", "--db", database,
                          "--text", os.path.join(ROOT, "docs/methodology.md"), "--context", "256", "--format", "json"))
    said = {row["plugin"]: row["text"] for row in card["models"][0]["compressors"] if row["plugin"] == "kivi"}["kivi"]
    for measure, of in (("kl", said["kl_nats"]), ("top-1", said["top1_agreement"])):
        row = query(database, f"""SELECT i.* FROM v_interval AS i JOIN cell ON cell.key = i.cell_key
            WHERE cell.plugin = 'kivi' AND i.measure = '{measure}'""")
        assert len(row) == 1 and row[0]["low"] is not None, row
        for key, end in (("low", 0), ("high", 1)):
            assert abs(row[0][key] - of["interval_95"][end]) <= 1e-9, (measure, row, of)


def main():
    write("tasks/mine/long.yaml", TEXT % 6)
    write("tasks/mine/short.yaml", TEXT % 4)
    write("tasks/mine/graded.yaml", GRADED)
    write("tasks/mine/book.txt", open(os.path.join(ROOT, "docs/design.md")).read())
    write("one.yaml", EXPERIMENT)
    kvc("run", "one.yaml", "--db", "one.sqlite")
    outputs = Outputs("one.sqlite")
    assert len(outputs.truth) == 12, outputs.truth
    for check in (check_tables, check_queries, check_figures, check_report, check_datasette):
        check(outputs, "one.sqlite")
    check_of_check("check.sqlite")
    for output, seen in outputs.seen.items():
        print(f"{output}: {len(seen)} scores")
        assert len(seen) >= 2, output
    print("one interval for each number, check's included")


with tempfile.TemporaryDirectory() as folder:
    os.symlink(os.path.join(ROOT, "models"), os.path.join(folder, "models"))
    os.chdir(folder)
    main()
