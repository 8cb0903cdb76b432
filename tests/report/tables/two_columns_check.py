"""A paper of two columns with two tables and two figures compiles, nothing leaves its page, and no text is below six points.

Argument: the program. Skipped (77) where there is no pdflatex.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

PROGRAM = sys.argv[1]
ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../.."))
LEAST = 6  # points
# The last words are rulers: of the text's font and of one that is near that of figures, at six points.
PAPER = r"""\documentclass[twocolumn,10pt]{article}
\usepackage[utf8]{inputenc}\usepackage[T1]{fontenc}\usepackage{booktabs,graphicx,lmodern}
\usepackage[letterpaper,margin=0.75in,columnsep=0.25in]{geometry}
\begin{document}
\input{check.tex}
\input{tasks.tex}
\begin{figure}\includegraphics{pareto_kl.pdf}\caption{KL}\end{figure}
\begin{figure*}\includegraphics{pareto.pdf}\caption{Scores}\end{figure*}
{\fontsize{6}{7}\selectfont RULER}
\end{document}
"""


def kvc(*arguments):
    return subprocess.run([PROGRAM, *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def words_of(pdf):
    """[(text, left, right, height)] of every word, and the width of a page."""
    page = subprocess.run(["pdftotext", "-bbox", pdf, "-"], check=True, stdout=subprocess.PIPE, text=True).stdout
    width = float(re.search(r'<page width="([0-9.]+)"', page)[1])
    found = re.findall(r'<word xMin="([-0-9.]+)" yMin="([-0-9.]+)" xMax="([-0-9.]+)" yMax="([-0-9.]+)">([^<]*)<', page)
    return [(text, float(left), float(right), float(low) - float(top)) for left, top, right, low, text in found], width


def main():
    if not shutil.which("pdflatex") or not shutil.which("pdftotext"):
        print("skipped: there is no pdflatex, or no pdftotext")
        sys.exit(77)
    kvc("check", "models/demo", "--quick", "--db", "c.sqlite", "--text", os.path.join(ROOT, "docs/methodology.md"), "--set",
        "compressors=[full, fp8, {kivi: {bits: [2, 4], group_size: 32}}, {turboquant: {bits: 4}}, {window: {sinks: 4, recent: 200}}]",
        "--context", "512")
    write("check.tex", kvc("table", "check", "--db", "c.sqlite", "--format", "latex"))
    write("tasks.tex", kvc("table", "tasks", "--db", "c.sqlite", "--format", "latex"))
    kvc("figure", "pareto_kl", "--db", "c.sqlite", "-o", "pareto_kl.pdf", "--width", "84mm")
    kvc("figure", "pareto", "--db", "c.sqlite", "-o", "pareto.pdf", "--width", "174mm")
    write("paper.tex", PAPER)
    done = subprocess.run(["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"], stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "Overfull" not in done.stdout, re.findall(r"Overfull.*", done.stdout)
    words, width = words_of("paper.pdf")
    ruler = next(height for text, _, _, height in words if text == "RULER")
    for text, left, right, height in words:
        assert height >= 0.98 * ruler, f"'{text}' is {LEAST * height / ruler:.1f} points high"
        assert 0 <= left and right <= width, f"'{text}' leaves its page"
    smallest = min(height for _, _, _, height in words)
    print(f"{len(words)} words, the smallest of {LEAST * smallest / ruler:.1f} points, none beyond its page")


with tempfile.TemporaryDirectory() as folder:
    os.symlink(os.path.join(ROOT, "models"), os.path.join(folder, "models"))
    os.chdir(os.environ.get("KVC_KEEP", folder))
    main()
