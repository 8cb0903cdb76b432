"""kvc serve on a free port, for scripts of the tests."""

import contextlib
import os
import re
import subprocess
import sys
import urllib.request


def datasette_of(program):
    return os.environ.get("KVC_DATASETTE", os.path.join(os.path.dirname(os.path.dirname(program)), "datasette-venv/bin/datasette"))


def get(url):
    with urllib.request.urlopen(url, timeout=60) as answer:
        assert answer.status == 200, (url, answer.status)
        return answer.read().decode()


@contextlib.contextmanager
def served(program, database, **environment):
    """-> (its address, the lines it said until then); it is killed at the end."""
    server = subprocess.Popen(
        [program, "serve", database, "--port", "0", "--no-open"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
        text=True, env={**os.environ, "KVC_DATASETTE": datasette_of(program), **environment})
    try:
        said = ""
        for line in server.stderr:
            said += line
            found = re.search(r"http://127\.0\.0\.1:\d+", line)
            if found:
                break
        else:
            sys.exit(f"datasette ended before it served: {said}")
        yield found[0], said
    finally:
        server.kill()
        server.wait()
        server.stderr.close()
