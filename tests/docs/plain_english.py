"""Pages are in plain English: none of the habits that made them hard to read, and each says what kind of page it is.

usage: plain_english.py            checks, and names file, line, habit and what to write instead
       plain_english.py count      occurrences per page and habit

A page is read without inline code and link targets. Code blocks are read too, for their comments.
"""
import fnmatch
import glob
import os
import re
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))

# What is checked. Help texts are read as docs/verbs.md, which `kvc page verbs` makes and a test keeps current; the keys
# of experiments as docs/experiments.md, columns as docs/database.md.
PAGES = ["README.md", "CONTRIBUTING.md", "THIRD_PARTY.md", "docs/*.md", "tasks/README.md", "models/*/README.md",
         "plugins/README.md", "plugins/*/README.md", "python/README.md", "results/*/README.md"]
UNITS = "bits?|bytes?|nats?|ms|seconds?|tokens?|lines?|rows?|columns?|files?|folders?|panels?|points?|numbers?|integers?"
OF = ("number|value|token|layer|head|step|compressor|task|sample|cell|model|point|verb|line|second|hour|cache|tensor|"
      "channel|group|key|plugin|element|multiprocessor|X")
# (habit, pattern, what to write instead)
HABITS = [
    ("behind", r"\bbehind\b|\bin front of\b", "after, following; before"),
    ("beside", r"\bbeside\b", "next to, together with, compared with"),
    ("held", r"\bheld\b(?!-out)", "stored; kept uncompressed; compared with"),
    ("stands", r"\b(stands?|stood)\b(?! for\b)", "is, is listed, is stored"),
    ("so many", r"\bso many\b", "the number, that many, of that length"),
    ("apart", r"\bapart\b(?! from\b)", "stored separately, separately"),
    ("turned", r"\bturn(s|ed|ing)? (back|keys|queries|vectors)\b|\bturned\b (?=by|where|once)", "rotated, inverse RoPE"),
    ("nobody", r"\b(nobody|whoever|somebody)\b", "no caller, the caller, the published formula"),
    ("a rate with 'a'", rf"\b({UNITS}) an? ({OF})\b", "bits/value, one line per verb, ms per token"),
    ("goes on", r"\b(go(es)?|going|went) on\b", "continues, resumes"),
    ("old term", r"bits/number|\bby formula\b|\bmade prompts?\b|\beven levels\b", "the term in use: see docs/methodology.md"),
]
# (page, text around the words, why it may stay)
EXCEPTIONS = [
    ("docs/write-a-compressor.md", r"Go on after ", "a prompt that a plugin gives a model, as it is in the code"),
]

KINDS = ("Tutorial", "How-to guide", "Reference", "Explanation", "Record", "This page lists")
WITHOUT_KIND = ["README.md"]
MOST_LINES = {"README.md": 130}


def pages(patterns):
    paths = {path for pattern in patterns for path in glob.glob(os.path.join(ROOT, pattern))}
    for path in sorted(paths):
        name = os.path.relpath(path, ROOT)
        with open(path, encoding="utf-8") as file:
            yield name, file.read()


def read(text):
    """The lines of a page without inline code, addresses, and tables that a script writes."""
    text = re.sub(r"<!-- made by .*?<!-- end -->", lambda made: "\n" * made.group().count("\n"), text, flags=re.S)
    lines, inside = [], False
    for line in text.split("\n"):
        fence = line.lstrip().startswith("```")
        inside ^= fence
        if not inside and not fence:
            line = re.sub(r"`[^`]*`", "X", line)
        lines.append(re.sub(r"\]\([^)]*\)|https?://\S+", "]", line))
    return lines


def found_in(name, text):
    """(line, habit, words, instead) of each habit; words that the end of a line parts are found too."""
    lines = read(text)
    for i, line in enumerate(lines):
        both = line + " " + lines[i + 1].lstrip() if i + 1 < len(lines) else line
        for habit, pattern, instead in HABITS:
            for match in re.finditer(pattern, both, re.I):
                if match.start() >= len(line):
                    continue
                around = both[max(0, match.start() - 60):match.end() + 60]
                if any(fnmatch.fnmatch(name, page) and re.search(words, around) for page, words, _ in EXCEPTIONS):
                    continue
                yield i + 1, habit, match.group(), instead


def kind_missing(name, text):
    if name in WITHOUT_KIND or name.startswith("plugins/"):
        return False
    lines = [line for line in text.split("\n") if line.strip() and not line.startswith("#")]
    return not lines or not lines[0].startswith(tuple("*" + kind for kind in KINDS))


def main():
    failures = []
    counts = len(sys.argv) > 1 and sys.argv[1] == "count"
    for name, text in pages(PAGES):
        found = list(found_in(name, text))
        if counts:
            print(name, *(f"{habit}: {n}" for habit, _, _ in HABITS if (n := sum(one[1] == habit for one in found))))
            continue
        failures += [f"{name}:{line}: '{words}': {instead}" for line, _, words, instead in found]
        if kind_missing(name, text):
            failures.append(f"{name}: the first line does not say which kind of page it is: {', '.join(KINDS[:-1])}")
        if text.count("\n") > MOST_LINES.get(name, text.count("\n")):
            failures.append(f"{name}: {text.count(chr(10))} lines, allowed: {MOST_LINES[name]}")
    for failure in failures:
        print(failure, file=sys.stderr)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
