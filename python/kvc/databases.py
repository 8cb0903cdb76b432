"""A results database as pandas frames."""
import functools
import json
import os
import sqlite3
import urllib.request

import numpy
import pandas

from .frames import frame_of
from .calls import KvcError, call


_COMPRESSOR = """CASE
    WHEN e.label <> '' THEN e.label
    WHEN c.options_label IN ('', 'defaults') THEN c.plugin
    ELSE c.plugin || ' ' || c.options_label
  END AS compressor"""


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
            f"""SELECT e.experiment, c.model, c.task, {_COMPRESSOR},
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
        return frame_of(json.loads(call(*arguments)[0]))

    def check(self, experiment=None):
        """The verdicts on compressors by the bounds of configs/check.yaml, of every experiment that scored text."""
        frame = self.table("check", experiment)
        frame[["passkey right", "passkey n"]] = frame.pop("passkey").str.extract(r"(\d+) of (\d+)").astype(float)
        return frame

    def tokens(self, experiment=None):
        """A row per scored token of running text: KL, loss, whether the top-1 prediction is the same, acceptance."""
        windows = self.query(
            f"""SELECT e.experiment, c.model, c.task, {_COMPRESSOR},
                 t.sample, t.position, t.n_tokens, t.kl, t.nll, t.acceptance, t.top1_same, t.tokens_json
               FROM experiment_cell AS e JOIN cell AS c ON c.key = e.cell_key JOIN token_likelihood AS t
                 ON t.cell_key = c.key
               WHERE ?1 IS NULL OR e.experiment = ?1
               ORDER BY e.experiment, e.position, c.task, t.sample""", (experiment,))
        frames = []
        for window in windows.itertuples(index=False):
            frame = pandas.DataFrame({"position": window.position + numpy.arange(window.n_tokens)})
            for name in ("experiment", "model", "task", "compressor", "sample"):
                frame[name] = getattr(window, name)
            for name in ("kl", "nll", "acceptance"):
                frame[name] = numpy.frombuffer(getattr(window, name), dtype="<f4")
            frame["top1_same"] = numpy.frombuffer(window.top1_same, dtype=numpy.uint8) != 0
            frame["token"] = json.loads(window.tokens_json)
            frames.append(frame)
        columns = ["experiment", "model", "task", "compressor", "sample", "position", "token", "kl", "nll", "top1_same",
                   "acceptance"]
        tokens = pandas.concat(frames, ignore_index=True)[columns] if frames else pandas.DataFrame(columns=columns)
        tokens.attrs["units"] = {"kl": "nats", "nll": "nats"}
        return tokens

    def _repr_html_(self):
        return self.table().to_html(index=False, float_format="%.4g")

    def experiments(self):
        """A row an experiment: its cells and samples, done, failed and missing."""
        return frame_of(json.loads(call("ls", self.path, "--format", "json")[0])).drop(columns="database")

    def compare(self, a, b=None):
        """B against A on the same questions, as `kvc compare`; without b everything against a."""
        chosen = [self.path, a, b] if b is not None else ["--db", self.path, "--baseline", a]
        return frame_of(json.loads(call("compare", *chosen, "--format", "json")[0]))

    def figure(self, name, output, experiment=None, title=True, width=None):
        """Draws a figure (pareto, pareto_kl, bars, lines, or a paper's) and returns its path."""
        arguments = ["figure", name, "--db", self.path, "-o", os.fspath(output)]
        if experiment is not None:
            arguments += ["--experiment", experiment]
        if not title:
            arguments.append("--no-title")
        if width is not None:
            arguments += ["--width", str(width)]
        call(*arguments)
        return os.fspath(output)


@functools.lru_cache(maxsize=None)
def _units():
    """Of every column of a database, by its name."""
    rows = json.loads(call("columns", "--format", "json")[0])["rows"]
    return {row["column"]: row["unit"] for row in rows if row["unit"]}
