"""kvc report in Chromium: the page's script runs without an error, headings sort, links resolve, differences are marked,
and a database of an earlier schema is read.

Argument: the program. Skipped (77) where there is no Chromium, or where it cannot show even an empty page.
"""

import os
import re
import sqlite3
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
from browser import check_widths, open_page, why_not  # noqa: E402

PROGRAM = sys.argv[1]
EXPERIMENT = """
name: shown
model: models/demo
tasks: [demo/swaps]
limit: 3
compressors: [full, token_group: {bits: [2, 4], group_size: 64}]
"""
# Runs behind the page's own script and writes what it saw into the document.
PROBE = """<script>
const seen = [];
addEventListener('error', (event) => seen.push('error: ' + event.message));
addEventListener('load', () => {
  const table = document.querySelector('#summary table');
  const column = [...table.tHead.rows[0].cells].findIndex((th) => th.textContent.startsWith('KV size'));
  const values = () => [...table.tBodies[0].rows].map((row) => parseFloat(row.cells[column].textContent));
  const button = table.tHead.rows[0].cells[column].querySelector('button');
  for (const turn of [1, 2]) { button.click(); seen.push('sorted: ' + values().join(' ')); }
  const bad = [...document.querySelectorAll('a[href^="#"]')].filter((a) => !document.getElementById(a.getAttribute('href').slice(1)));
  seen.push('links: ' + document.querySelectorAll('a[href^="#"]').length + ', dead: ' + bad.length);
  seen.push('outside: ' + document.querySelectorAll('[src], link[href^="http"], a[href^="http"]').length);
  seen.push('files: ' + (document.querySelectorAll('figure .download').length > 0));
  seen.push('marks: ' + document.querySelectorAll('#s-view mark').length);
  const entry = document.querySelector('#pareto .legend button');
  entry.click();
  seen.push('hidden: ' + document.querySelector('#pareto figure g[data-series="0"]').style.display);
  const out = document.createElement('pre');
  out.id = 'seen';
  out.textContent = seen.join('\\n');
  document.body.append(out);
});
</script>"""


def check_older(database, folder):
    """What schema 2 had: the report is of a copy, the file stays as it is."""
    with sqlite3.connect(database) as db:
        db.executescript("""
          DROP VIEW v_cell; ALTER TABLE cell DROP COLUMN kind; ALTER TABLE cell DROP COLUMN scoring_json;
          ALTER TABLE sample DROP COLUMN peak_bytes;
          ALTER TABLE sample DROP COLUMN peak_other_bytes; ALTER TABLE experiment_cell DROP COLUMN label;
          ALTER TABLE experiment_cell DROP COLUMN position; DROP TABLE probe; PRAGMA user_version = 2;""")
    db.close()
    temporary = os.path.join(folder, "temporary")
    os.mkdir(temporary)
    done = subprocess.run([PROGRAM, "report", database, "-o", os.path.join(folder, "older.html")], check=True,
                          capture_output=True, text=True, env={**os.environ, "TMPDIR": temporary})
    assert "schema 2" in done.stderr and "3 cells; 9 of 9 generations" in done.stdout, done
    assert os.listdir(temporary) == []
    with sqlite3.connect(database) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (2,)


def skip(reason):
    print("skipped:", reason)
    sys.exit(77)


def main():
    if reason := why_not():
        skip(reason)
    with tempfile.TemporaryDirectory() as folder:
        database, page = os.path.join(folder, "x.sqlite"), os.path.join(folder, "x.html")
        with open(os.path.join(folder, "x.yaml"), "w") as file:
            file.write(EXPERIMENT)
        subprocess.run([PROGRAM, "run", os.path.join(folder, "x.yaml"), "--db", database], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([PROGRAM, "report", database, "-o", page], check=True)
        with open(page) as file:
            text = file.read()
        assert text.count("<head>") == 1
        with open(page, "w") as file:
            file.write(text.replace("<head>", "<head>" + PROBE, 1))
        done = open_page("file://" + page, os.path.join(folder, "profile"))
        check_widths(text)
        check_older(database, folder)
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert not console, console
    seen = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.S)
    assert seen, "the page's script did not come to its end"
    lines = seen[1].splitlines()
    print("\n".join(lines))
    up, down = ([float(x) for x in line.split()[1:]] for line in lines if line.startswith("sorted"))
    assert len(up) == 3 and up == sorted(up) and down == up[::-1], (up, down)
    assert not any(line.startswith("error") for line in lines)
    assert re.search(r"^links: [1-9]\d*, dead: 0$", seen[1], re.M) and "outside: 0" in lines and "hidden: none" in lines
    assert "files: true" in lines, "each chart can be saved"
    assert "marks: 2" in lines, "two compressors differ, so each side has its mark"


main()
