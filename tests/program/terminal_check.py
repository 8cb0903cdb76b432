"""What a person sees at a terminal: tables fit its width, colour only where it is wanted, a plot below a summary; not on a
terminal it is Markdown.

Argument: the program.
"""

import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios

PROGRAM = sys.argv[1]
EXPERIMENT = """
name: shown
model: models/demo
tasks: ["demo/s*", demo/lookup]
limit: 4
compressors: [full, token_group: {bits: [2, 4], group_size: 64}]
"""


def at_terminal(width, arguments, **environment):
    """-> (exit code, what the terminal was sent)"""
    here, there = pty.openpty()
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    env = {**{k: v for k, v in os.environ.items() if k != "NO_COLOR"}, "TERM": "xterm", **environment}
    program = subprocess.Popen([PROGRAM, *arguments], stdout=there, stderr=subprocess.DEVNULL, env=env)
    os.close(there)
    sent = b""
    while True:
        try:
            got = os.read(here, 65536)
        except OSError:
            break
        if not got:
            break
        sent += got
    os.close(here)
    return program.wait(), sent.decode().replace("\r\n", "\n")


def check_fits(text, width):
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    wide = [line for line in plain.splitlines() if len(line) > width]
    assert not wide, (width, wide)
    return plain


def said(*words):
    done = subprocess.run([PROGRAM, *words], capture_output=True, text=True)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


def check_words(database, folder):
    """A database is named by --db or by its place, whatever the verb; `help VERB` is `VERB --help`."""
    page = os.path.join(folder, "x.html")
    for verb, rest in (("table", ["summary"]), ("table", []), ("tables", []), ("query", ["SELECT count(*) FROM sample"]),
                       ("ls", []), ("rm", ["shown"]), ("compare", ["full", "token_group bits=2"]),
                       ("figure", ["bars", "-o", os.path.join(folder, "x.svg")])):
        if verb == "figure" and not shutil.which("gnuplot"):
            continue
        assert said(verb, database, *rest) == said(verb, "--db", database, *rest), verb
    said("report", "--db", database, "-o", page)
    said("export", "csv", "--db", database, "-o", os.path.join(folder, "x.csv"))
    assert said("help", "compare") == said("compare", "--help") and "Usage: kvc run" in said("help", "run")


def main():
    with tempfile.TemporaryDirectory() as folder:
        database, file = os.path.join(folder, "x.sqlite"), os.path.join(folder, "x.yaml")
        with open(file, "w") as out:
            out.write(EXPERIMENT)
        code, text = at_terminal(100, ["run", file, "--db", database])
        assert code == 0
        plain = check_fits(text, 100)
        assert "compressor" in plain and "--wide also shows:" in plain and "measured KV size" in plain, plain
        assert "\x1b[1m" in text and "|" not in plain.splitlines()[2], text
        for width in (60, 80, 200):
            for words in (["table", "--db", database], ["ls", database], ["query", "--db", database, "SELECT * FROM v_cell"],
                          ["compare", database, "--baseline", "full"]):
                code, text = at_terminal(width, words)
                assert code == 0, words
                check_fits(text, width)
        code, text = at_terminal(100, ["compare", database, "--baseline", "full"], NO_COLOR="1")
        assert "\x1b" not in text and "p (Holm)" in text and "truncated" not in text, text
        wide = subprocess.run([PROGRAM, "compare", database, "--baseline", "full"], check=True, capture_output=True, text=True)
        assert "| truncated [%] |" in wide.stdout and "\x1b" not in wide.stdout
        code, text = at_terminal(60, ["compare", database, "--baseline", "full", "--wide"])
        assert text == wide.stdout
        code, text = at_terminal(60, ["table", "--db", database, "--format", "csv"])
        assert text.startswith("compressor,options,bits,"), text
        check_words(database, folder)
    print("tables fit 60, 80, 100 and 200 columns")


main()
