"""kvc check: what compressors do to a model, with verdicts."""
import json
import os
import re

import pandas

from .calls import KvcError, call, settings_options
from .databases import Results


def _word(compressor):
    """{"kivi": {"bits": 2}} -> 'kivi: {"bits": 2}'; a text as it is."""
    if isinstance(compressor, str):
        return compressor
    if not isinstance(compressor, dict) or len(compressor) != 1:
        raise KvcError(f"compressor {compressor!r}: expected a name, or a dict of one name with its options")
    (name, options), = compressor.items()
    return f"{name}: {json.dumps(options or {})}"


def check(models, compressors=(), quick=False, context=None, text=(), db=None, settings=None, progress=True):
    """Checks compressors on a model, or several, and returns a Check.

    models: a name or path, or a list. compressors: dicts such as {"kivi": {"bits": 2}}, plugins or cache types of engines
    ("q4_0") in place of the presets of configs/check.yaml. text: files in place of the texts that come with kvc. settings:
    {"path": value} over the file. A check that was made before is read from its database.
    """
    models = [models] if isinstance(models, (str, os.PathLike)) else list(models)
    arguments = ["check", *map(os.fspath, models), *map(_word, compressors), "--format", "json"]
    if quick:
        arguments.append("--quick")
    for option, value in (("--context", context), ("--db", db)):
        if value is not None:
            arguments += [option, str(value)]
    for file in [text] if isinstance(text, (str, os.PathLike)) else text:
        arguments += ["--text", os.fspath(file)]
    printed, said = call(*arguments, *settings_options(settings), ok=(0, 4), progress=progress)
    named = re.findall(r"database (\S+);", said)
    return Check(json.loads(printed), db if db is not None else named[-1] if named else None)


def _estimate(row, name, value):
    """A mean with its interval, as three columns."""
    low, high = (value or {}).get("interval_95") or (None, None)
    row.update({name: (value or {}).get("mean"), f"{name}_low": low, f"{name}_high": high})


def _row(model, compressor):
    row = {"model": model["name"], "compressor": compressor["name"], "verdict": compressor.get("verdict"),
           "refused": compressor.get("refused")}
    if "kv_bytes" in compressor:
        row["kv_percent"] = 100 * compressor["kv_bytes"] / compressor["kv_bytes_16_bits"]
    row["bits_per_value"] = compressor.get("bits_per_value")
    text = compressor.get("text") or {}
    _estimate(row, "kl_nats", text.get("kl_nats"))
    row.update({f"kl_{name}": (text.get("kl_nats") or {}).get(name) for name in ("median", "p90", "p99", "p99_9", "max")})
    _estimate(row, "top1_agreement", text.get("top1_agreement"))
    row.update({name: text.get(name) for name in ("top1_flips", "acceptance", "tokens", "windows")})
    passkey = compressor.get("passkey") or {}
    row.update({f"passkey_{name}": passkey.get(name) for name in ("n", "right", "right_full_precision")})
    return row


class Check:
    """What a check measured: card (the KV card, docs/kv-card.md), table, results (its database)."""

    def __init__(self, card, database=None):
        self.card = card
        self.results = Results(database) if database is not None and os.path.isfile(database) else None
        self.table = pandas.DataFrame([_row(model, compressor) for model in card["models"] if "error" not in model
                                       for compressor in model["compressors"]])
        self.errors = {model["name"]: model["error"] for model in card["models"] if "error" in model}

    def __repr__(self):
        columns = ["model", "compressor", "kv_percent", "kl_nats", "kl_nats_low", "kl_nats_high", "top1_agreement", "verdict"]
        return self.table[[name for name in columns if name in self.table]].to_string(index=False)

    def _repr_html_(self):
        return self.table.dropna(axis="columns", how="all").to_html(index=False, float_format="%.4g")

    def plot(self, axes=None):
        """KL against the size of the KV cache, with intervals; a colour for each model. Needs matplotlib."""
        from matplotlib import pyplot, ticker
        axes = axes or pyplot.subplots(figsize=(3.3, 2.6), layout="constrained")[1]
        lossy = self.table[self.table.kl_nats.fillna(0) > 0]
        right = 1.1 * lossy.kv_percent.max()
        for model, rows in lossy.groupby("model", sort=False):
            below = (rows.kl_nats - rows.kl_nats_low).clip(lower=0).fillna(0)
            above = (rows.kl_nats_high - rows.kl_nats).clip(lower=0).fillna(0)
            axes.errorbar(rows.kv_percent, rows.kl_nats, yerr=[below, above], fmt="o", markersize=3, linewidth=0.8, label=model)
            for row in rows.itertuples():
                on_left = row.kv_percent > right / 2
                axes.annotate(row.compressor, (row.kv_percent, row.kl_nats), textcoords="offset points",
                              xytext=(-4 if on_left else 4, 2), ha="right" if on_left else "left", fontsize=7)
        axes.set(yscale="log", xlim=(0, right))
        axes.set_xlabel("KV cache [% of 16 bits]", fontsize=8)
        axes.set_ylabel("KL [nats/token]", fontsize=8)
        axes.tick_params(which="both", labelsize=7)
        for which in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
            which(ticker.FuncFormatter(lambda value, _: f"{value:g}" if f"{value:e}"[0] in "125" else ""))
        if lossy.model.nunique() > 1:
            axes.legend(fontsize=7)
        return axes
