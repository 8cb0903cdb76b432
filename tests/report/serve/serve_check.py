"""kvc serve: Datasette, on a free port, answers for every table, view, row page and query, and every column has its text;
of a file of an earlier schema it shows a copy, which is gone when it has ended. Its leaderboard has the rows of `kvc table`, and fits its window.

Argument: the program. Skipped (77) where Datasette is not installed; windows need Chromium, too.
"""

import csv
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
from browser import check_widths, why_not  # noqa: E402
from served import datasette_of, get, served  # noqa: E402

PROGRAM = sys.argv[1]
EXPERIMENT = """
name: gear_1_demo
model: models/demo
tasks: [demo/lookup, demo/swaps]
limit: 2
compressors: [full, kivi: {bits: 2, group_size: 32}]
"""
# One compressor in two chat frames, under another limit of its prompt, and two compressors under one label.
APART = """
name: {name}
model: models/demo
tasks: [longbench_mini/prompts/qasper, demo/lookup]
limit: 2
chat_template: {template}
max_prompt_tokens: {tokens}
compressors: [kivi: {{bits: 2, group_size: 32}}]
"""
MINE = """
name: mine{size}
model: models/demo
tasks: [demo/lookup]
limit: 2
compressors: [{{kivi: {{bits: 2, group_size: {size}}}, label: mine}}]
"""


def check(base, name, headings):
    tables = [t for t in json.loads(get(f"{base}/{name}.json"))["tables"] if not t["hidden"]]
    views = json.loads(get(f"{base}/{name}.json"))["views"]
    queries = json.loads(get(f"{base}/{name}.json"))["queries"]
    told = json.loads(get(f"{base}/-/metadata.json"))["databases"][name]["tables"]
    for table in [t["name"] for t in tables] + [v["name"] if isinstance(v, dict) else v for v in views]:
        page = get(f"{base}/{name}/{table}")
        columns = json.loads(get(f"{base}/{name}/{table}.json?_size=1"))["columns"]
        for column in columns:
            if column == "rowid" and column not in told[table]["columns"]:
                continue  # Datasette's own
            assert told[table]["columns"].get(column), f"no description of {table}.{column}"
        shown = re.findall(r"<dt>([^<]*)</dt>", page)
        assert set(told[table]["columns"]) <= set(shown), (table, shown)
    for query in queries:
        page = get(f"{base}/{name}/{query['name']}.json?_shape=objects")
        answer = json.loads(page)
        assert answer.get("ok", True) and not answer.get("error"), (query["name"], answer.get("error"))
    rows = json.loads(get(f"{base}/{name}/table_summary.json?_shape=array"))
    assert len(rows) == 4 and all(row["low_percent"] is not None for row in rows), rows
    rows = json.loads(get(f"{base}/{name}/gear_1.json?_shape=array"))
    assert [row["method"].split()[0] for row in rows] == ["full", "kivi"], rows
    assert list(rows[0]) == headings, rows
    print(f"{len(tables)} tables, {len(views)} views, {len(queries)} queries: all 200")


def check_leaderboard(base, name):
    """The first page: sorted by a heading's link, and a sample reached by links alone."""
    page = get(base + "/")
    assert 'id="leaderboard"' in page and "full" in page and "kivi" in page, page
    headings = re.findall(r'<th><a href="([^"]*)">([^<]*)</a>', page)
    assert [text for _, text in headings] == ["compressor", "KV size [% of 16 bits]", "demo/lookup [%]", "demo/swaps [%]"]
    sizes = []
    for falling in (0, 1):
        sorted_page = get(f"{base}/?_sort=kv&_desc={falling}")
        sizes.append([float(x) for x in re.findall(r"<tr><td>[^<]*</td><td>([0-9.]+)</td>", sorted_page)])
    assert len(sizes[0]) == 2 and sizes[0] == sorted(sizes[0]) and sizes[1] == sizes[0][::-1], sizes
    assert get(base + "/?_sort=%3Cscript%3E").count("<script>") == 0
    cell = re.search(r'<td><a href="(/cell/[^"/]+)">', page)[1]
    rows = get(base + cell)
    samples = re.findall(rf'<a href="({cell}/[0-9]+)">', rows)
    assert samples == [f"{cell}/0", f"{cell}/1"], rows[:2000]
    sample = get(base + samples[1])
    assert all(heading in sample for heading in ("<h2>Generation</h2>", "<h2>Prompt</h2>", "answer_is")), sample
    style = re.search(r"<style>(.*?)</style>", page, re.S)[0]
    assert style in rows and style in sample, "one style from the first page to a sample"
    assert "<svg" in get(base + "/figure/pareto.svg")
    for missing in ("/cell/none", cell + "/99", "/figure/rm.svg", "/figure/kl_by_position.svg"):
        assert status(base + missing, "localhost") == 404, missing
    queries = re.findall(rf'<li><a href="/{name}/([^"]*)">', page)
    assert queries[0] == "gear_1", queries  # what this database holds comes first
    linked = get(f"{base}/{name}/accuracy_and_bytes")
    assert re.search(rf'href="/{name}/bytes_by_kind\?cell_key=\w+"', linked), linked[:3000]
    print("the leaderboard sorts, and leads to a sample")


def status(url, host):
    try:
        return urllib.request.urlopen(urllib.request.Request(url, headers={"Host": host}), timeout=60).status
    except urllib.error.HTTPError as refused:
        return refused.code


def check_strangers(base, name):
    assert [status(base, host) for host in ("localhost", base[7:], "rebound.example", "127.0.0.1.evil.example:80")] == [
        200, 200, 421, 421]
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    start = time.monotonic()
    assert status(f"{base}/{name}.json?sql=" + urllib.parse.quote(endless), "localhost") == 400
    assert time.monotonic() - start < 20
    print("strangers' Host headers and an endless query are refused")


LONG_VALUES = ["randomblob(500000000)", "length(zeroblob(500000000))", "hex(zeroblob(3000000))",
               "replace(hex(zeroblob(1000000)), '0', '0000')",
               "(WITH RECURSIVE t(x) AS (SELECT 'a' UNION ALL SELECT x || x FROM t) SELECT max(length(x)) FROM t)",
               "(SELECT group_concat(hex(zeroblob(1000000))) FROM (SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3))"]
LARGE_ANSWERS = ["randomblob(4000000)", "printf('%.*c', 4000000, 'x')", "zeroblob(4000000)"]  # of each of 1,000 rows


def refusal(base, name, sql):
    url = f"{base}/{name}.json?sql=" + urllib.parse.quote(sql)
    try:
        return urllib.request.urlopen(url, timeout=60).read(1000).decode()
    except urllib.error.HTTPError as refused:
        return json.loads(refused.read())["error"]


def check_lengths(base, name):
    """Values and answers that take the machine's memory are refused in a line and at once; long honest ones are not."""
    start = time.monotonic()
    for value in LONG_VALUES:
        assert refusal(base, name, "SELECT " + value) == "string or blob too big", value
    many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 1000) SELECT {} FROM n"
    for value in LARGE_ANSWERS:
        assert refusal(base, name, many.format(value)).startswith("the answer is larger than 64 MB"), value
    assert time.monotonic() - start < 30, time.monotonic() - start
    assert json.loads(get(f"{base}/{name}.json?_shape=array&sql=" + urllib.parse.quote(
        "SELECT length(printf('%.*c', 4000000, 'x')) AS n")))[0]["n"] == 4000000
    print("values of more than 4 MB and answers of more than 64 MB are refused")


def serve(database, temporary, headings):
    """Starts it, checks all pages and the columns of gear:1, and ends it; returns what it said. Its own files are gone soon
    after."""
    with served(PROGRAM, database, TMPDIR=temporary) as (base, said):
        assert os.listdir(temporary), "its metadata stand there"
        check(base, "served", headings)
        check_leaderboard(base, "served")
        check_strangers(base, "served")
        check_lengths(base, "served")
    for _ in range(100):
        if not os.listdir(temporary):
            break
        time.sleep(0.1)
    assert os.listdir(temporary) == [], os.listdir(temporary)
    return said


def run(folder, experiment, database):
    file = os.path.join(folder, "x.yaml")
    with open(file, "w") as out:
        out.write(experiment)
    subprocess.run([PROGRAM, "run", file, "--db", database], check=True, stdout=subprocess.DEVNULL)


def table(database, *words):
    done = subprocess.run([PROGRAM, "table", *words, "--db", database, "--format", "csv"], check=True, capture_output=True,
                          text=True)
    return list(csv.DictReader(done.stdout.splitlines()))


def check_rows(folder):
    """A row a compressor, its options and settings, as `kvc table` has them; no two of one name, nothing added up."""
    if not os.path.exists(os.path.join(os.environ.get("KVC_DATA", ""), "longbench_mini")):
        print("skipped: rows of other settings need longbench_mini of KVC_DATA")
        return
    database = os.path.join(folder, "apart.sqlite")
    for name, template, tokens in (("a", "none", 300), ("b", "vicuna", 300), ("c", "none", 280)):
        run(folder, APART.format(name=name, template=template, tokens=tokens), database)
    for size in (16, 64):
        run(folder, MINE.format(size=size), database)
    with sqlite3.connect(database) as db:
        assert db.execute("SELECT count(*) FROM cell").fetchone() == (7,)  # demo/lookup has no frame: a and b share its cell
        sizes = [db.execute(
            "SELECT 100.0 * sum(kv_bytes) / sum(kv_bytes_fp16) FROM v_cell WHERE settings_json ->> 'max_prompt_tokens' = ?"
            " AND (chat_json = '' OR chat_json ->> 'chat_template' = ?)", setting).fetchone()[0]
            for setting in ((300, "none"), (300, "vicuna"), (280, "none"))]
    db.close()
    told = sorted(float(row["KV size [%]"]) for row in table(database))
    named = {row["compressor"]: row for row in table(database, "tasks")}  # by name alone: what has several sizes says none
    assert [row["KV size [%]"] for row in named.values()] == ["", ""] and named["mine"]["bits"] == "2", named
    assert [value for name, value in named["mine"].items() if name.startswith("demo/lookup") and not name.endswith(" n")] == [
        ""], named
    with served(PROGRAM, database) as (base, _):
        page = get(base + "/")
    rows = {name: float(kv) for name, kv in re.findall(r"<tr><td>([^<]*)</td><td>([0-9.]+)</td>", page)}
    kivi = "kivi bits 2"  # the other option is all rows'
    assert "<p>Options: kivi: group_size 32</p>" in page, page
    names = [f"{kivi} (chat_template={frame} max_prompt_tokens={n})" for frame, n in (
        ("none", 300), ("vicuna", 300), ("none", 280))]
    assert sorted(rows) == sorted(names + [f"mine (kivi bits 2, group_size {size})" for size in (16, 64)]), rows
    assert [rows[name] for name in names] == [round(size, 1) for size in sizes], (rows, sizes)
    assert sorted(rows.values()) == [round(size, 1) for size in told], (rows, told)
    print("rows of other settings stand apart, as in kvc table")
    if reason := why_not():
        print("windows: skipped:", reason)
    else:
        check_widths(page)


def make_older(database):
    """What schema 2 had, of the first schema 3."""
    with sqlite3.connect(database) as db:
        db.executescript("""
          DROP VIEW v_cell; ALTER TABLE cell DROP COLUMN kind; ALTER TABLE sample DROP COLUMN peak_bytes;
          ALTER TABLE sample DROP COLUMN peak_other_bytes; ALTER TABLE experiment_cell DROP COLUMN label;
          ALTER TABLE experiment_cell DROP COLUMN position; DROP TABLE probe; PRAGMA user_version = 2;""")
    db.close()


def main():
    if not os.path.exists(datasette_of(PROGRAM)):
        print(f"skipped: there is no '{datasette_of(PROGRAM)}'")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        database, temporary = os.path.join(folder, "served.sqlite"), os.path.join(folder, "temporary")
        os.mkdir(temporary)
        run(folder, EXPERIMENT, database)
        check_rows(folder)
        headings = list(table(database, "gear:1")[0])
        assert "copy" not in serve(database, temporary, headings)
        with sqlite3.connect(database) as db:
            db.executescript("""
              ALTER TABLE cell DROP COLUMN scoring_json; DROP TABLE likelihood;
              PRAGMA user_version = 3;""")  # as the first files of schema 3
        db.close()
        assert "(schema 3); showing an upgraded copy" in serve(database, temporary, headings)
        make_older(database)
        assert f"{database}: written by an earlier kvc (schema 2); showing an upgraded copy" in serve(database, temporary, headings)
        with sqlite3.connect(database) as db:
            assert db.execute("PRAGMA user_version").fetchone() == (2,)


main()
