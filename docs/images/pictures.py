#!/usr/bin/env python3
"""Takes the pictures of the pages from a database: the terminal's table, the report, the leaderboard, the Pareto figure.

    docs/images/pictures.py DATABASE

Writes terminal.svg, report.png, leaderboard.png and pareto.svg beside itself. KVC names the program, ./kvc without; it
needs Chromium, gnuplot and Datasette. No picture may have more than 150 kB.
"""
import fcntl
import os
import pathlib
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from html import escape

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = os.environ.get("KVC", str(HERE.parents[1] / "kvc"))
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
COLUMNS, MOST_BYTES = 104, 150_000
NO_BREAK = "\u00a0"  # renderers fold plain blanks
COLOURS = {"1": "font-weight='bold'", "31": "fill='#ff7b72'", "32": "fill='#7ee787'"}


def shown_at_terminal(words):
    here, there = pty.openpty()
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    program = subprocess.Popen([PROGRAM, *words], stdout=there, env={**os.environ, "TERM": "xterm"})
    os.close(there)
    sent = b""
    while True:
        try:
            sent += os.read(here, 65536)
        except OSError:  # the program has closed its end
            break
    if program.wait() != 0:
        sys.exit(f"{PROGRAM} {' '.join(words)}: exit code {program.returncode}")
    return sent.decode().splitlines()


def coloured(line):
    text, style = "", ""
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        sign = re.fullmatch(r"\x1b\[([0-9;]*)m", part)
        if sign:
            style = COLOURS.get(sign[1], "")
        elif part:
            text += f"<tspan {style}>{escape(part.replace(' ', NO_BREAK))}</tspan>"
    return text


def draw_terminal(lines):
    height = 18 * len(lines) + 28
    rows = "".join(f'<text x="14" y="{26 + 18 * i}">{coloured(line)}</text>' for i, line in enumerate(lines))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {8 * COLUMNS + 28} {height}" fill="#e6edf3" '
            f'font-family="DejaVu Sans Mono, Menlo, monospace" font-size="13">'
            f'<rect width="100%" height="100%" rx="6" fill="#0d1117"/>{rows}</svg>\n')


def photograph(url, name, height, profile):
    subprocess.run([CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                    f"--user-data-dir={profile}", "--hide-scrollbars", "--virtual-time-budget=5000",
                    f"--window-size=1280,{height}", f"--screenshot={HERE / name}", url],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=300)


def photograph_served(database, profile):
    server = subprocess.Popen([PROGRAM, "serve", database, "--port", "0", "--no-open"], stderr=subprocess.PIPE,
                              stdout=subprocess.DEVNULL, text=True)
    try:
        for line in server.stderr:
            found = re.search(r"http://127\.0\.0\.1:\d+", line)
            if found:
                return photograph(found[0] + "/", "leaderboard.png", 640, profile)
        sys.exit("kvc serve ended before it served")
    finally:
        server.terminate()
        server.wait()


def main(database):
    with tempfile.TemporaryDirectory() as folder:
        (HERE / "terminal.svg").write_text(draw_terminal(["$ kvc table " + database.rsplit("/", 1)[-1],
                                                          *shown_at_terminal(["table", database])]))
        page, figure = os.path.join(folder, "report.html"), os.path.join(folder, "pareto.svg")
        subprocess.run([PROGRAM, "report", database, "-o", page], check=True)
        photograph("file://" + page, "report.png", 900, folder + "/report")
        subprocess.run([PROGRAM, "figure", "pareto", "--db", database, "-o", figure], check=True)
        shutil.copy(figure, HERE / "pareto.svg")
        photograph_served(database, folder + "/serve")
    for name in ("terminal.svg", "report.png", "leaderboard.png", "pareto.svg"):
        size = (HERE / name).stat().st_size
        print(f"{name}: {size} bytes")
        if size > MOST_BYTES:
            sys.exit(f"{name}: {size} bytes, allowed: {MOST_BYTES}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
