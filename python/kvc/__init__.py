"""Results of kvc as pandas frames, and its program from Python.

results(path) opens a database, run(experiment) fills one, check(model) gives verdicts. The database is read as it is, while a
run writes to it, too; tables, figures and comparisons are the program's own, so that no number is computed twice in two ways.
"""
from .checks import Check, check
from .program import KvcError, program
from .results import Results
from .runs import run

__all__ = ["Check", "KvcError", "Results", "check", "program", "results", "run"]


def results(path):
    """The results of a database that is there."""
    return Results(path)
