"""kvc from Python: compressors, results as pandas frames, and the program.

Compressor and option make a compressor (compressor.py). results(path) opens a database, run(experiment) fills one,
check(model) gives verdicts. The database is read as it is, while a run writes to it, too; tables, figures and comparisons
are the program's own, so that no number is computed twice in two ways.
"""
import importlib

from .compressor import Compressor, option

# Imported when they are first used: compressors need neither pandas nor the program.
_PLACES = {"Check": "checks", "check": "checks", "KvcError": "calls", "program": "calls", "Results": "databases",
           "run": "runs"}

__all__ = ["Compressor", "option", *_PLACES, "results"]


def __getattr__(name):
    if name not in _PLACES:
        raise AttributeError(f"module 'kvc' has no attribute '{name}'")
    value = getattr(importlib.import_module("." + _PLACES[name], __name__), name)
    globals()[name] = value
    return value


def results(path):
    """The results of a database that is there."""
    from .databases import Results
    return Results(path)
