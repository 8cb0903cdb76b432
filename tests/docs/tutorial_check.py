"""The tutorial's section 5 as one script: its experiment and its commands, in their order, in a folder with no results,
on a question a task; then what they made is read. A LaTeX table becomes a PDF, the figure's PDF has its points and
names, the report is shown in two windows, and the leaderboard leads to a sample by links alone.

Argument: the program. Skipped (77) where SmolLM2 is not here. What pdflatex, pdftotext, Chromium or Datasette would read is
left out, with a word, where one of them is not installed.
"""

import csv
import html
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../support"))
from browser import check_widths, why_not  # noqa: E402
from served import datasette_of, get, served  # noqa: E402

PROGRAM = os.path.abspath(sys.argv[1])
ROOT = os.path.abspath(os.path.join(HERE, "../.."))
BUILD = os.path.dirname(os.path.dirname(PROGRAM))
NAME = "smollm2_chat"
ROWS = ["full precision", "KIVI 2 bits", "GEAR 2 bits", "FlexGen 4 bits", "SnapKV, 128 tokens", "mine, 4 bits"]
TASKS = ["passkey/to_512", "needle/to_512", "check/passkey/256", "demo/lookup"]


def left_out(what, reason):
    print(f"left out: {what}: {reason}")


def section():
    """-> (the experiment, the lines of its command blocks)"""
    with open(os.path.join(ROOT, "docs/tutorial.md"), encoding="utf-8") as file:
        text = re.search(r"^## 5\. .*?(?=^## 6\.)", file.read(), re.S | re.M)[0]
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", text, re.S | re.M)
    (experiment,) = (body for language, body in blocks if language == "yaml")
    return experiment, [line for language, body in blocks if not language for line in body.splitlines() if line.strip()]


def carry_out(lines, folder):
    """-> what each printed"""
    said = {}
    for line in lines:
        if re.match(r"\./kvc serve", line):  # at the end, on a free port
            continue
        tool = line.split()[0]
        if not tool.startswith("./") and not shutil.which(tool):
            left_out(line, f"there is no {tool}")
            continue
        start = time.monotonic()
        short = " --limit 1 --set 'sizes=[512]'" if line.startswith("./kvc run") else ""
        done = subprocess.run(["bash", "-c", line + short], cwd=folder, capture_output=True, text=True)
        print(f"{time.monotonic() - start:5.1f} s: {line}", flush=True)
        assert done.returncode == 0, (line, done.returncode, done.stdout[-2000:], done.stderr[-2000:])
        said[line] = done.stdout
        print(done.stdout[-1500:])
    return said


def text_of(pdf):
    return subprocess.run(["pdftotext", "-layout", pdf, "-"], check=True, capture_output=True, text=True).stdout


def check_pdfs(folder):
    if not shutil.which("pdftotext"):
        return left_out("the text of PDFs", "there is no pdftotext")
    figure = text_of(os.path.join(folder, NAME + ".pdf"))
    for word in (*ROWS, *TASKS):
        assert word in figure, (word, figure)
    table = os.path.join(folder, NAME + "_table.pdf")
    if os.path.exists(table):
        text = text_of(table)
        for row in ROWS:
            assert row in text, (row, text)
        assert re.search(r"\b100\.0\b", text), text
    print("the PDFs hold all compressors and tasks")


def check_points(folder):
    """The figure's data: of each task and compressor the accuracy that `kvc table` prints."""
    with open(os.path.join(folder, NAME + ".dat"), encoding="utf-8") as file:
        found = re.findall(r"^# index \d+, panel '(.*)', series '(.*)':.*\n(\S+) \S+ (\S+)", file.read(), re.M)
    points = {(panel, series): (float(x), float(y)) for panel, series, x, y in found}
    done = subprocess.run([PROGRAM, "table", "--db", f"results/{NAME}.sqlite", "--format", "csv"], cwd=folder, check=True,
                          capture_output=True, text=True)
    rows = {row["compressor"]: row for row in csv.DictReader(done.stdout.splitlines())}
    assert sorted(rows) == sorted(ROWS), list(rows)
    for row in ROWS:
        for task in TASKS:
            (accuracy,) = (float(value.split()[0]) for column, value in rows[row].items() if column.startswith(task))
            size, drawn = points[task, row]
            assert drawn == accuracy and 0 < size <= 100, (row, task, size, drawn, accuracy)
    assert len(points) == len(ROWS) * (len(TASKS) + 1), "and their mean"
    print(f"the figure's {len(points)} points are those of the table")


def follow(base, page, pattern):
    """The page behind the first link that fits."""
    links = [html.unescape(link) for link in re.findall(r'href="([^"]*)"', page)]
    link = next(link for link in links if re.search(pattern, link))
    return get(urllib.parse.urljoin(base, link))


def check_leaderboard(database):
    if not os.path.exists(datasette_of(PROGRAM)):
        return left_out("the leaderboard", f"there is no {datasette_of(PROGRAM)}")
    with served(PROGRAM, database) as (base, _):
        front = get(base + "/")
        rising = follow(base + "/", front, r"_sort=kv&_desc=0$|_sort=kv&_desc=1$")
        sizes = [float(x) for x in re.findall(r"<tr><td>[^<]*</td><td>([0-9.]+)</td>", rising)]
        assert len(sizes) == len(ROWS) and sizes in (sorted(sizes), sorted(sizes)[::-1]), sizes
        for row in ROWS:
            assert row in front, (row, front)
        samples = follow(base + "/", rising, r"^/cell/[^/]+$")
        sample = follow(base + "/", samples, r"^/cell/[^/]+/[0-9]+$")
        assert "Generation" in sample
    print("the leaderboard sorts, and links lead to a sample")


def main():
    model = subprocess.run([PROGRAM, "model", "show", "smollm2-135m"], capture_output=True, text=True)
    if model.returncode != 0 or re.search(r"^here +no", model.stdout, re.M):
        print("skipped: SmolLM2-135M is not here")
        sys.exit(77)
    experiment, lines = section()
    with tempfile.TemporaryDirectory() as folder:
        for name in ("models", "prompts", "tasks"):
            os.symlink(os.path.join(ROOT, name), os.path.join(folder, name))
        os.symlink(BUILD, os.path.join(folder, "build"))
        os.symlink(PROGRAM, os.path.join(folder, "kvc"))
        os.mkdir(os.path.join(folder, "results"))
        with open(os.path.join(folder, NAME + ".yaml"), "w", encoding="utf-8") as file:
            file.write(experiment)
        os.environ.update(KVC_ROOT=ROOT, KVC_DATA="", OMP_NUM_THREADS="1")  # no data of others is needed
        said = carry_out(lines, folder)
        compared = next(out for line, out in said.items() if line.startswith("./kvc compare"))
        assert all(row in compared for row in ROWS[1:]), compared
        asked = next(out for line, out in said.items() if line.startswith("./kvc prompt"))
        assert "<|im_start|>user" in asked and "<|im_start|>assistant" in asked, asked
        check_pdfs(folder)
        check_points(folder)
        with open(os.path.join(folder, NAME + ".html"), encoding="utf-8") as file:
            report = file.read()
        assert all(html.escape(row) in report for row in ROWS)
        if reason := why_not():
            left_out("windows", reason)
        else:
            check_widths(report)
        check_leaderboard(os.path.join(folder, "results", NAME + ".sqlite"))


main()
