"""Results of kvc as pandas frames, and its program from Python.

results(path) opens a database, run(experiment) fills one. The database is read as it is, while a run writes to it, too;
tables, figures and comparisons are the program's own, so that no number is computed twice in two ways.
"""
import functools
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import urllib.request

import pandas

__all__ = ["KvcError", "Results", "program", "results", "run"]


class KvcError(RuntimeError):
    """What the program refused, in its own line."""


def program():
    """The program: the environment's KVC, the kvc of the checkout that this package stands in, or that of PATH."""
    beside = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "kvc")
    for file in (os.environ.get("KVC"), beside, shutil.which("kvc")):
        if file and os.path.isfile(file):
            return file
    raise KvcError("no program kvc: set KVC to it, or put it into PATH")


def _call(*arguments, ok=(0,)):
    """The program's standard output; what it says of its progress and its notes goes where ours goes."""
    done = subprocess.run([program(), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode not in ok:
        lines = [line for line in done.stderr.splitlines() if line.startswith("kvc: ")] or done.stderr.splitlines()
        raise KvcError(lines[-1] if lines else f"kvc {arguments[0]} ended with exit code {done.returncode}")
    return done.stdout, done.stderr


def run(experiment, db=None, limit=None, settings=None):
    """Runs what is missing of an experiment file and returns its Results.

    settings: {"path": value} put over the file, as --set does. Samples that failed and suspect cells are no exception:
    they are told on standard error, and stand in the tables' notes.
    """
    arguments = ["run", os.fspath(experiment)]
    if db is not None:
        arguments += ["--db", os.fspath(db)]
    if limit is not None:
        arguments += ["--limit", str(limit)]
    for path, value in (settings or {}).items():
        arguments += ["--set", f"{path}={json.dumps(value) if not isinstance(value, str) else value}"]
    _, said = _call(*arguments, ok=(0, 4, 5))
    sys.stderr.write("".join(line + "\n" for line in said.splitlines() if line.startswith(("failed:", "suspect:"))))
    named = re.findall(r"; database (.+)$", said, re.MULTILINE)
    if not named:
        raise KvcError(f"kvc run {experiment} did not say where its results are")
    return Results(db if db is not None else named[-1])


def results(path):
    """The results of a database that is there."""
    return Results(path)


def _split(heading):
    """'KV size [%]' -> ('KV size', '%')"""
    found = re.fullmatch(r"(.*) \[(.*)\]", heading)
    return found.groups() if found else (heading, "")


class Results:
    """One results database. Frames have attrs["units"], tables attrs["title"] and attrs["notes"], too."""

    def __init__(self, path):
        self.path = os.path.abspath(os.fspath(path))
        if not os.path.isfile(self.path):
            raise KvcError(f"results database '{path}': no such file")

    def __repr__(self):
        return f"kvc.results({self.path!r})"

    def query(self, sql, parameters=()):
        """What a SELECT returns. The program's own functions (wilson_low, score_low) are not there: see table()."""
        connection = sqlite3.connect("file:" + urllib.request.pathname2url(self.path) + "?mode=ro", uri=True)
        try:
            connection.execute("PRAGMA query_only = ON")
            cursor = connection.execute(sql, parameters)
            frame = pandas.DataFrame(cursor.fetchall(), columns=[column[0] for column in cursor.description])
        finally:
            connection.close()
        frame.attrs["units"] = {name: unit for name, unit in _units().items() if name in frame.columns}
        return frame

    def samples(self, experiment=None):
        """A row a sample: whose it is, its headline score and answer, its bytes and seconds."""
        return self.query(
            """SELECT e.experiment, c.model, c.task,
                 CASE
                   WHEN e.label <> '' THEN e.label
                   WHEN c.options_label IN ('', 'defaults') THEN c.plugin
                   ELSE c.plugin || ' ' || c.options_label
                 END AS compressor,
                 c.plugin, c.options_json, c.bits, s.sample, s.status, s.error, x.extractor, x.answer, s.gold,
                 x.value AS score, s.generation, s.n_prompt_tokens, s.n_new_tokens, s.kv_bytes, s.kv_bytes_fp16,
                 s.n_encoded_tokens, s.k_error, s.v_error, s.prefill_seconds, s.encode_seconds, s.attend_seconds,
                 s.other_seconds
               FROM experiment_cell AS e JOIN cell AS c ON c.key = e.cell_key JOIN sample AS s ON s.cell_key = c.key
               LEFT JOIN score AS x ON x.cell_key = s.cell_key AND x.sample = s.sample AND x.position = 0
               WHERE ?1 IS NULL OR e.experiment = ?1
               ORDER BY e.experiment, e.position, c.task, s.sample""", (experiment,))

    def table(self, name="summary", experiment=None, with_suspects=False):
        """A table as `kvc table NAME` prints it, its numbers as numbers; intervals in columns of their own."""
        arguments = ["table", name, "--db", self.path, "--format", "json"]
        if experiment is not None:
            arguments += ["--experiment", experiment]
        if with_suspects:
            arguments.append("--with-suspects")
        return _frame(json.loads(_call(*arguments)[0]))

    def experiments(self):
        """A row an experiment: its cells and samples, done, failed and missing."""
        return _frame(json.loads(_call("ls", self.path, "--format", "json")[0])).drop(columns="database")

    def compare(self, a, b=None):
        """B against A on the same questions, as `kvc compare`; without b everything against a."""
        chosen = [self.path, a, b] if b is not None else ["--db", self.path, "--baseline", a]
        return _frame(json.loads(_call("compare", *chosen, "--format", "json")[0]))

    def figure(self, name, output, experiment=None, title=True, width=None):
        """Draws a figure (pareto, pareto_kl, bars, lines, or a paper's) and returns its path."""
        arguments = ["figure", name, "--db", self.path, "-o", os.fspath(output)]
        if experiment is not None:
            arguments += ["--experiment", experiment]
        if not title:
            arguments.append("--no-title")
        if width is not None:
            arguments += ["--width", str(width)]
        _call(*arguments)
        return os.fspath(output)


@functools.lru_cache(maxsize=None)
def _units():
    """Of every column of a database, by its name."""
    rows = json.loads(_call("columns", "--format", "json")[0])["rows"]
    return {row["column"]: row["unit"] for row in rows if row["unit"]}


def _frame(table):
    """What --format json gives, of a plain table or of one whose cells have intervals."""
    rows, units = [], {}
    for row in table["rows"]:
        if not isinstance(row.get("cells"), dict):
            cells = {_split(heading)[0]: value for heading, value in row.items()}
            units.update({name: unit for name, unit in map(_split, row) if unit})
        else:
            cells = {"group": row["group"], "row": row["row"]} if row["group"] else {"row": row["row"]}
            for heading, cell in row["cells"].items():
                name, unit = _split(heading)
                cells[name] = cell["value"]
                cells.update({f"{name} {side}": cell[side] for side in ("low", "high") if side in cell})
                units.update({part: unit for part in (name, f"{name} low", f"{name} high") if unit and part in cells})
        rows.append(cells)
    frame = pandas.DataFrame(rows)
    frame.attrs.update(title=table["title"], units=units, notes=table.get("warnings", []) + table["notes"])
    return frame
