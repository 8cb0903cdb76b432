"""kvc run: experiments from files, dicts and YAML text."""
import contextlib
import inspect
import json
import os
import re
import sys
import tempfile

from .calls import KvcError, call, settings_options
from .databases import Results


@contextlib.contextmanager
def _file_of(experiment):
    """The experiment as a file. A dict or a text becomes one in the current folder, to which its paths are relative."""
    is_text = isinstance(experiment, str) and "\n" in experiment
    if not is_text and not isinstance(experiment, dict):
        yield os.fspath(experiment)
        return
    if is_text:
        named = re.search(r"^name:", experiment, re.MULTILINE)
        text = experiment if named else "name: notebook\n" + experiment
    else:
        text = json.dumps({"name": "notebook", **experiment})
    with tempfile.NamedTemporaryFile("w", dir=os.curdir, prefix=".kvc-", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        yield file.name


def _compressor_options(compressors):
    """--compressor for each: a class of a file, or a file's name."""
    options = []
    for each in compressors:
        file = inspect.getsourcefile(each) if isinstance(each, type) else os.fspath(each)
        if not file or not os.path.isfile(file):
            raise KvcError(f"compressor {each!r}: expected a class of kvc.Compressor that is defined in a file, or that file")
        options += ["--compressor", os.path.abspath(file)]
    return options


def run(experiment, db=None, limit=None, settings=None, progress=True, compressors=()):
    """Runs what is missing of an experiment and returns its Results.

    experiment: a file, a dict with its keys, or YAML text of several lines; the latter two are named "notebook" unless they
    have a name. settings: {"path": value} put over it, as --set does. compressors: classes of kvc.Compressor, defined in files,
    or such files; they are added to the experiment's. progress: show the program's progress. Samples that
    failed and suspect cells are no exception: they are told on standard error, and stand in the tables' notes.
    """
    options = settings_options(settings) + _compressor_options(compressors)
    if db is not None:
        options += ["--db", os.fspath(db)]
    if limit is not None:
        options += ["--limit", str(limit)]
    with _file_of(experiment) as file:
        _, said = call("run", file, *options, ok=(0, 4, 5), progress=progress)
    if not progress:
        sys.stderr.write("".join(line + "\n" for line in said.splitlines() if line.startswith(("failed:", "suspect:"))))
    named = re.findall(r"; database (.+)$", said, re.MULTILINE)
    if not named:
        raise KvcError("kvc run did not say where its results are")
    return Results(db if db is not None else named[-1].strip())
