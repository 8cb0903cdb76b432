"""kvc serve: Datasette, on a free port, answers for every table, view, row page and query, and every column has its text;
of a file of an earlier schema it shows a copy, which is gone when it has ended.

Argument: the program. Skipped (77) where Datasette is not installed.
"""

import csv
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

PROGRAM = sys.argv[1]
BUILD = os.path.dirname(os.path.dirname(PROGRAM))
DATASETTE = os.environ.get("KVC_DATASETTE", os.path.join(BUILD, "datasette-venv/bin/datasette"))
EXPERIMENT = """
name: gear_1_demo
model: models/demo
tasks: [demo/lookup, demo/swaps]
limit: 2
compressors: [full, kivi: {bits: 2, group_size: 32}]
"""


def get(url):
    with urllib.request.urlopen(url, timeout=60) as answer:
        assert answer.status == 200, (url, answer.status)
        return answer.read().decode()


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
    sample = re.search(r'<td><a href="([^"]*sample\?cell_key=[^"]*)">', page)[1]
    rows = get(base + sample)
    assert "2 rows" in rows, rows[:2000]
    row = re.search(rf'href="(/{name}/sample/[^"?]+)"', rows)[1]
    assert "generation" in get(base + row)
    queries = re.findall(rf'<li><a href="/{name}/([^"]*)">', page)
    assert queries[0] == "gear_1", queries  # what this database holds comes first
    linked = get(f"{base}/{name}/accuracy_and_bytes")
    assert re.search(rf'href="/{name}/bytes_by_kind\?cell_key=\w+"', linked), linked[:3000]
    print("the leaderboard sorts, and leads to a sample")


def cell(label, task, chat="", options="bits 4", limit=1, held=25):
    settings = json.dumps({"max_prompt_tokens": limit})
    return {"model": "m", "plugin": "kivi", "options": options, "label": label, "task": task, "chat_json": chat,
            "variant": "\n".join(["{}", "0" * 64, options, settings]), "kv_bytes": held, "kv_bytes_fp16": 100}


def check_rows():
    """A row adds up no bytes but its own, and says in what it differs from one of the same name."""
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../results/datasette"))
    from leaderboard import rows_of

    chatml, plain = '{"chat_template": "chatml"}', '{"chat_template": "none"}'
    seen = lambda cells: [(row["name"], row["kv"], sorted(row["tasks"])) for row in rows_of(cells)]
    assert seen([cell("KIVI", "qa", chatml), cell("KIVI", "needle")]) == [("KIVI", 25, ["needle", "qa"])]
    assert seen([cell("KIVI", "qa", chatml), cell("KIVI", "qa", plain, held=75), cell("KIVI", "needle", held=35)]) == [
        ("KIVI (chat_template chatml)", 30, ["needle", "qa"]), ("KIVI (chat_template none)", 55, ["needle", "qa"])]
    assert seen([cell("KIVI", "qa"), cell("KIVI", "qa", options="bits 2")]) == [
        ("KIVI (bits 4)", 25, ["qa"]), ("KIVI (bits 2)", 25, ["qa"])]
    assert seen([cell("KIVI", "qa"), cell("KIVI", "qa", limit=9)]) == [
        ("KIVI (max_prompt_tokens 1)", 25, ["qa"]), ("KIVI (max_prompt_tokens 9)", 25, ["qa"])]
    print("rows of frames, options and settings stand apart")


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


def serve(database, temporary, headings):
    """Starts it, checks all pages and the columns of gear:1, and ends it; returns what it said. Its own files are gone soon
    after."""
    server = subprocess.Popen(
        [PROGRAM, "serve", database, "--port", "0", "--no-open"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
        text=True, env={**os.environ, "KVC_DATASETTE": DATASETTE, "TMPDIR": temporary})
    said = ""
    try:
        for line in server.stderr:
            said += line
            found = re.search(r"http://127\.0\.0\.1:\d+", line)
            if found:
                assert os.listdir(temporary), "its metadata stand there"
                check(found[0], "served", headings)
                check_leaderboard(found[0], "served")
                check_strangers(found[0], "served")
                return said
        sys.exit(f"datasette ended before it served: {said}")
    finally:
        server.send_signal(signal.SIGKILL)
        server.wait()
        for _ in range(100):
            if not os.listdir(temporary):
                break
            time.sleep(0.1)
        assert os.listdir(temporary) == [], os.listdir(temporary)


def make_older(database):
    """What schema 2 had, of the first schema 3."""
    with sqlite3.connect(database) as db:
        db.executescript("""
          DROP VIEW v_cell; ALTER TABLE cell DROP COLUMN kind; ALTER TABLE sample DROP COLUMN peak_bytes;
          ALTER TABLE sample DROP COLUMN peak_other_bytes; ALTER TABLE experiment_cell DROP COLUMN label;
          ALTER TABLE experiment_cell DROP COLUMN position; DROP TABLE probe; PRAGMA user_version = 2;""")
    db.close()


def main():
    if not os.path.exists(DATASETTE):
        print(f"skipped: there is no '{DATASETTE}'")
        sys.exit(77)
    check_rows()
    with tempfile.TemporaryDirectory() as folder:
        database, temporary = os.path.join(folder, "served.sqlite"), os.path.join(folder, "temporary")
        os.mkdir(temporary)
        with open(os.path.join(folder, "x.yaml"), "w") as file:
            file.write(EXPERIMENT)
        subprocess.run([PROGRAM, "run", os.path.join(folder, "x.yaml"), "--db", database], check=True, stdout=subprocess.DEVNULL)
        done = subprocess.run([PROGRAM, "table", "gear:1", "--db", database, "--format", "csv"], check=True,
                              capture_output=True, text=True)
        headings = next(csv.reader(done.stdout.splitlines()))
        assert "copy" not in serve(database, temporary, headings)
        with sqlite3.connect(database) as db:
            db.executescript("""
              ALTER TABLE cell DROP COLUMN scoring_json; DROP TABLE likelihood;
              PRAGMA user_version = 3;""")  # as the first files of schema 3
        db.close()
        assert "(schema 3); what is shown is a copy" in serve(database, temporary, headings)
        make_older(database)
        assert f"{database}: an earlier kvc wrote it (schema 2); what is shown is a copy" in serve(database, temporary, headings)
        with sqlite3.connect(database) as db:
            assert db.execute("PRAGMA user_version").fetchone() == (2,)


main()
