"""The pages are true: links lead somewhere, commands parse and run, experiments are valid, plugins compile.

usage: pages_check.py PROGRAM            links, verbs, options, paths, experiments, and commands that are quick
       pages_check.py PROGRAM commands   the commands on the embedded model, in their pages' order, one sample a task
       pages_check.py PROGRAM plugins    the C++ of the pages, compiled against the build folder and verified
       pages_check.py PROGRAM list       each command of the pages, and by which of these it is run

A command in a page is a line of a ```-block that begins with ./kvc. An experiment is a ```yaml block with a name and
compressors; `name: x` is x.yaml for the page's commands. A ```cpp block is a whole plugin, or "// from FILE" and a part
of that file. README's table and the tutorial's quickstart are compared with what was measured.
"""
import csv
import functools
import glob
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
PROGRAM = os.path.abspath(sys.argv[1])
PAGES = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "THIRD_PARTY.md", "docs/*.md", "tasks/README.md",
         "models/demo/README.md", "plugins/README.md", "plugins/*/README.md", "python/README.md", "results/**/README.md"]
LAUNCHER = {"package": None, "setup": ["--gpu"], "test": None, "worker": None, "host": None}  # no verbs of --help: what may follow; None: anything
FOLDERS = ("bench/", "configs/", "docs/", "models/", "plugins/", "prompts/", "tasks/", "tests/", "results/external/")
# What runs at once, by the words that a command begins with: no model works, nothing is fetched.
QUICK = ["columns", "data", "doctor", "model list", "model show models/demo", "plugins", "power --task", "prompt",
         "table validate", "table --check", "tables", "tasks", "validate", "check results/external/*.yaml", "plugin new"]
# What works on the embedded model or on a database; of runs the first sample of each task.
SLOW = ["bench", "compare results/quickstart.sqlite", "export", "figure", "generate models/demo", "import", "power", "query",
        "report", "rescore", "run", "table", "tables", "verify-run"]
MOST_BYTES = 150_000  # of a picture, as in docs/images/pictures.py
failures = []


def fail(where, what):
    failures.append(f"{where}: {what}")


def pages():
    for pattern in PAGES:
        for path in sorted(glob.glob(os.path.join(ROOT, pattern), recursive=True)):
            with open(path, encoding="utf-8") as file:
                yield os.path.relpath(path, ROOT), file.read()


def blocks(text):
    """(line, language, body) of each ```-block."""
    lines, start = text.split("\n"), None
    for i, line in enumerate(lines):
        if not line.lstrip().startswith("```"):
            continue
        if start is None:
            start = i
        else:
            yield start + 2, lines[start].strip()[3:], "\n".join(lines[start + 1:i]) + "\n"
            start = None


def prose(text):
    """The page without its blocks, lines kept."""
    out, inside = [], False
    for line in text.split("\n"):
        fence = line.lstrip().startswith("```")
        out.append("" if inside or fence else line)
        inside ^= fence
    return "\n".join(out)


# --- links

def slug(heading):
    """As GitHub makes an anchor: letters, digits, blanks and hyphens stay."""
    heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")


@functools.lru_cache(None)
def anchors(path):
    with open(path, encoding="utf-8") as file:
        headings = re.findall(r"^#+ +(.*)$", prose(file.read()), re.M)
    seen, found = {}, set()
    for name in map(slug, headings):
        found.add(name if name not in seen else f"{name}-{seen[name]}")
        seen[name] = seen.get(name, 0) + 1
    return found


def check_links(page, text):
    body = prose(text)
    inline = re.sub(r"`[^`]*`", lambda code: " " * len(code.group()), body)
    targets = re.findall(r"\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)", inline)
    targets += re.findall(r"^\[[^\]]+\]: +(\S+)", inline, re.M)
    for name in re.findall(r"\]\[([^\]]+)\]", inline):
        if not re.search(rf"^\[{re.escape(name)}\]: ", inline, re.M | re.I):
            fail(page, f"[{name}] is not defined")
    for target in targets:
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = os.path.normpath(os.path.join(ROOT, os.path.dirname(page), name)) if name else os.path.join(ROOT, page)
        if not path.startswith(ROOT) or not os.path.exists(path):
            fail(page, f"the link {target} leads nowhere")
        elif path.startswith(os.path.join(ROOT, "docs/images/")) and os.path.getsize(path) > MOST_BYTES:
            fail(page, f"the picture {target} has {os.path.getsize(path)} bytes, allowed: {MOST_BYTES}")
        elif re.fullmatch(r"L\d+", anchor) and not path.endswith(".md"):
            with open(path, encoding="utf-8") as file:
                if int(anchor[1:]) > len(file.readlines()):
                    fail(page, f"the link {target}: the file has no such line")
        elif anchor and anchor not in anchors(path):
            fail(page, f"the link {target}: there is no heading '#{anchor}'")


# --- commands

def run(arguments, cwd=ROOT, timeout=600):
    environment = {**os.environ, "KVC_ROOT": ROOT, "OMP_NUM_THREADS": "1", "KVC_PYTHON": sys.executable}
    return subprocess.run(arguments, cwd=cwd, env=environment, timeout=timeout, capture_output=True, text=True)


@functools.lru_cache(None)
def help_of(*verb):
    return run([PROGRAM, *verb, "--help"]).stdout


def subcommands(*verb):
    listed = help_of(*verb).partition("Subcommands:\n")[2] if verb else help_of()  # which has them in groups
    return re.findall(r"^  ([a-z][\w-]*) ", listed, re.M)


def options(*verb):
    head = re.findall(r"^  (-.*)$", help_of(*verb), re.M)
    return {name for line in head for name in re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", line.split("  ")[0])}


def commands(body):
    """(line, words) of each command; it may go on over lines, behind a backslash or within quotes."""
    lines, i = body.split("\n"), 0
    while i < len(lines):
        first, text = i, lines[i]
        i += 1
        if not text.lstrip().startswith("./kvc"):
            continue
        while i < len(lines):
            try:
                if not text.endswith("\\"):
                    yield first, shlex.split(text, comments=True)
                    break
            except ValueError:
                pass
            text = text.removesuffix("\\") + ("" if text.endswith("\\") else "\n") + lines[i]
            i += 1
        else:
            raise ValueError(f"the command does not end: {text}")


def check_path(where, word):
    if word.startswith(FOLDERS) and not re.search(r"[A-Z]{3,}", word) and not glob.glob(os.path.join(ROOT, word)):
        fail(where, f"there is no {word}")


def check_command(where, words):
    if len(words) == 1 or words[1] in ("VERB", "--help", "--version"):
        return
    verb, rest = words[1:2], words[2:]
    if verb[0] in LAUNCHER:
        allowed = LAUNCHER[verb[0]]
        if allowed is not None and not set(rest) <= set(allowed):
            fail(where, f"./kvc {verb[0]} takes {allowed}, not {rest}")
        return
    if verb[0] not in subcommands():
        fail(where, f"'{verb[0]}' is no verb of the program")
        return
    if rest and rest[0] in subcommands(*verb):
        verb, rest = [*verb, rest[0]], rest[1:]
    elif subcommands(*verb) and "[SUBCOMMAND]" not in help_of(*verb):
        fail(where, f"./kvc {verb[0]} wants one of {subcommands(*verb)}")
        return
    for word in rest:
        if word in (">", "|", "&&", "||"):
            break
        if re.match(r"--?[a-zA-Z]", word) and word.partition("=")[0] not in options(*verb):
            fail(where, f"{' '.join(verb)} has no option {word}")
        check_path(where, word)


def check_spoken(page, text):
    """`./kvc verb --option` and `kvc verb` in the prose."""
    for i, line in enumerate(prose(text).split("\n")):
        for code in re.findall(r"`(\.?/?kvc [^`]*)`", line):
            try:
                words = shlex.split(code)
            except ValueError:
                continue  # goes on in the next line
            if not any(mark in code for mark in ("|", "...", "*")) and not words[1].isupper():
                check_command(f"{page}:{i + 1}", words)


def begins_with(words, starts):
    line = " ".join(words[1:])
    return any(line == start or line.startswith(start + " ") for start in starts)


def how(words):
    """'quick', 'commands', or why a command is only parsed."""
    line = " ".join(words)
    of_yours = any(re.fullmatch(r"[A-Z]{3,}", word) for word in words)
    if of_yours or "--fetch" in words or "smollm2" in line or "hf:" in line:
        return "needs a network, time or a name of yours"
    if begins_with(words, QUICK) and ".sqlite" not in line or "--dry-run" in words:
        return "quick"
    if begins_with(words, SLOW):
        return "commands"
    return "needs time or files of yours"


# --- experiments, plugins

def experiments(text):
    for line, language, body in blocks(text):
        name = re.search(r"^name: *(\w+)", body, re.M)
        if language == "yaml" and name and re.search(r"^compressors:", body, re.M):
            yield line, name.group(1), body


def write_experiments(page, text, folder, validate):
    for line, name, body in experiments(text):
        where = f"{page}:{line}"
        path = os.path.join(folder, name + ".yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(body)
        if not validate:
            continue
        if not re.search(r"^plugin_path:", body, re.M):  # one that is built first: tutorial_check
            done = run([PROGRAM, "validate", path, "--set", "model=models/demo", "--set", "tasks=[demo/lookup_asked]"])
            if done.returncode != 0:
                fail(where, done.stderr.strip())
        listed = re.search(r"^tasks: *\[(.*)\]", body, re.M)
        for task in re.split(r", *", listed.group(1)) if listed else []:
            if run([PROGRAM, "tasks", task]).returncode != 0:
                fail(where, f"there is no task {task}")


def plugins_of(page, text):
    for line, language, body in blocks(text):
        if language not in ("cpp", "c++"):
            continue
        source = re.match(r"// from (\S+)\n", body)
        if source:
            with open(os.path.join(ROOT, source.group(1)), encoding="utf-8") as file:
                if body[source.end():].strip("\n") not in file.read():
                    fail(f"{page}:{line}", f"{source.group(1)} does not hold this part as it stands here")
            continue
        name = re.search(r"KVC_PLUGIN\(.*?\"(\w+)\"", body, re.S)
        if not name:
            fail(f"{page}:{line}", "C++ that is neither a plugin nor '// from FILE'")
            continue
        yield f"{page}:{line}", name.group(1), body


def check_plugins():
    found = {}
    for where, name, body in (plugin for page, text in pages() for plugin in plugins_of(page, text)):
        if found.setdefault(name, (where, name, body))[2] != body:
            fail(where, f"another plugin {name} than that of {found[name][0]}")
    found = list(found.values())
    with tempfile.TemporaryDirectory() as folder:
        names = [name for _, name, _ in found]
        with open(os.path.join(folder, "CMakeLists.txt"), "w", encoding="utf-8") as file:
            file.write("cmake_minimum_required(VERSION 3.22)\nproject(pages LANGUAGES CXX)\n")
            file.write("find_package(kvc REQUIRED)\n")
            file.writelines(f"add_subdirectory({name})\n" for name in names)
        for _, name, body in found:
            os.mkdir(os.path.join(folder, name))
            with open(os.path.join(folder, name, "CMakeLists.txt"), "w", encoding="utf-8") as file:
                file.write(f"kvc_add_plugin({name})\n")
            with open(os.path.join(folder, name, name + ".cpp"), "w", encoding="utf-8") as file:
                file.write(body)
        prefix = os.path.dirname(os.path.dirname(PROGRAM))
        done = run(["cmake", "-S", folder, "-B", folder + "/build", f"-DCMAKE_PREFIX_PATH={prefix}"])
        if done.returncode == 0:
            done = run(["cmake", "--build", folder + "/build"])
        if done.returncode != 0:
            fail("plugins", done.stdout[-4000:] + done.stderr[-4000:])
            return
        for where, name, _ in found:
            done = run([PROGRAM, "plugin", "verify", f"{folder}/build/{name}/{name}.so"])
            print(f"{where}: {name}: {done.stdout.strip().splitlines()[-1] if done.stdout.strip() else done.stderr}")
            if done.returncode != 0:
                fail(where, done.stdout + done.stderr)


# --- the parts

def commands_of(text):
    for line, language, body in blocks(text):
        if language in ("", "sh", "bash", "console"):
            for i, words in commands(body):
                yield line + i, words


def workplace(folder):
    """A folder in which the pages' relative paths lead where they do in the repository, and results are its own."""
    for name in ("configs", "models", "prompts", "tasks", "bench"):
        os.symlink(os.path.join(ROOT, name), os.path.join(folder, name))
    os.mkdir(os.path.join(folder, "results"))
    os.symlink(os.path.join(ROOT, "results/external"), os.path.join(folder, "results/external"))


def shortened(words, folder):
    """One sample of each task, or the shortest of benches and capacities, which have none."""
    texts = ""
    for word in words[2:]:
        for path in glob.glob(os.path.join(folder, word)):
            with open(path, encoding="utf-8") as file:
                texts += file.read()
    if "\nkind: bench" in texts:
        return ["--set", "bench.repeats=1", "bench.prompt_tokens=128", "bench.batch=1"]
    if "\nkind: capacity" in texts:
        return ["--set", "capacity.memory_limit=16MB", "capacity.max_context=512", "capacity.max_batch=4"]
    settings, options = ["workers=1"], [] if "--limit" in words else ["--limit", "1"]
    if "device=cuda-emulated" in words:  # slow; its own database keeps it out of the pages' tables
        settings += ["tasks=[demo/swaps]", "sizes=[512]", "compressors=[token_group]"]
        options += ["--db", "results/emulated.sqlite"]
    elif "\nkind:" not in texts and "quickstart" not in texts:  # the quickstart's sizes are compared with the page's
        settings += ["sizes=[512]"]
    return ["--set", *settings, *options]


def misses_data(words, done):
    """Whether only the data of others, which KVC_DATA names, is not here."""
    folder = os.environ.get("KVC_DATA", "")
    return ("is in the data folder, and none was given" in done.stderr
            or words[1] == "data" and "missing" in done.stdout
            or bool(folder) and f"there is no file '{folder}" in done.stderr)


def execute(page, line, words, folder):
    if words[1:2] in (["run"], ["bench"]) and "--dry-run" not in words:
        words = [*words, *shortened(words, folder)]
    files = [glob.glob(os.path.join(folder, word)) if "*" in word and " " not in word else [] for word in words]
    output = words.index(">") if ">" in words else None
    arguments = [one for word, found in zip(words[1:output], files[1:output])
                 for one in ([os.path.relpath(f, folder) for f in sorted(found)] or [word])]
    start = time.monotonic()
    done = run([PROGRAM, *arguments], cwd=folder)
    seconds = time.monotonic() - start
    skipped = done.returncode != 0 and misses_data(words, done)
    result = "skipped (its data is not here)" if skipped else done.returncode
    print(f"{result}, {seconds:.1f} s: {page}:{line}: {' '.join(words)[:100]}", flush=True)
    if done.returncode != 0 and not skipped:
        said = done.stderr.strip() or done.stdout[-400:]
        fail(f"{page}:{line}", f"{' '.join(words)}\n  exit code {done.returncode}: {said}")
    return not skipped


def rows_of(text, heading):
    """The table of a page whose first cells are `heading`, a dict per row."""
    lines = [line for line in text[text.index(heading):].split("\n\n")[0].split("\n")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [dict(zip(cells[0], row)) for row in cells[2:]]


def check_quickstart(folder):
    """The tutorial's table of the quickstart: what does not depend on how many samples were run."""
    with open(os.path.join(ROOT, "docs/tutorial.md"), encoding="utf-8") as file:
        printed = rows_of(file.read(), "| compressor  | bits/value |")
    done = run([PROGRAM, "table", "--db", "results/quickstart.sqlite", "--format", "csv"], cwd=folder)
    rows = list(csv.DictReader(done.stdout.splitlines()))
    if [row["compressor"] for row in printed] != [row["compressor"] for row in rows]:
        return fail("docs/tutorial.md", f"the quickstart has other rows: {[row['compressor'] for row in rows]}")
    for row, measured in zip(printed, rows):
        for name in ("bits/value", "at 32K [%]"):
            if not row[name] or abs(float(row[name]) - float(measured.get(name) or "nan")) <= 0.1:
                continue
            fail("docs/tutorial.md", f"{row['compressor']}: {name} is {measured.get(name)}, the page says {row[name]}")


def check_figures_of_readme():
    """README's figures are those of the pages that are made of the published databases."""
    def read(name):
        with open(os.path.join(ROOT, name), encoding="utf-8") as file:
            return file.read()

    def row_of(text, model, row):
        section = text[text.index(f"## {model}\n"):]
        return next(one for one in rows_of(section, "| row ") if one["row"] == row)

    def nats(cell, digits):
        return [f"{float(number.replace(',', '')) / 1000:.{digits}f}" for number in re.findall(r"[\d.,]+\d|\d", cell)]

    kl, answers, qwen = read("results/evidence/kl.md"), read("results/evidence/gsm8k.md"), "qwen2.5-coder-0.5b"
    readme = " ".join(read("README.md").split())
    rows = [row_of(kl, qwen, name) for name in ("QJL", "KIVI 4 bits")]
    right = {name: float(row_of(answers, qwen, name)["right [%]"].split()[0]) for name in ("full precision", "QJL", "KIVI 4 bits")}
    n = int(row_of(answers, qwen, "full precision")["questions"])
    (lost, *bounds), (less, *of_less) = nats(rows[0]["KL"], 2), nats(rows[1]["KL"], 3)
    on_smollm2 = nats(row_of(kl, "smollm2-135m", "QJL")["KL"], 2)[0]
    for said in (f"QJL takes {float(rows[0]['size']):.0f} % of 16 bits and KIVI with 4 bits {float(rows[1]['size']):.0f} %",
                 f"QJL loses {lost} [{', '.join(bounds)}] nats per token and answers {right['QJL'] * n / 100:.0f} of {n} questions",
                 f"KIVI loses {less} [{', '.join(of_less)}] and answers {right['KIVI 4 bits'] * n / 100:.0f}, full precision {right['full precision'] * n / 100:.0f}.",
                 f"On SmolLM2-135M QJL loses {on_smollm2}:"):
        if said not in readme:
            fail("README.md", f"does not say what the pages give: {said}")


def check_commands(kind):
    done, left_out = set(), set()
    with tempfile.TemporaryDirectory() as folder:
        workplace(folder)
        for page, text in pages():
            write_experiments(page, text, folder, validate=kind == "quick")
            for line, words in commands_of(text):
                if kind == "commands" and left_out & set(words):
                    print(f"skipped (its run was): {page}:{line}: {' '.join(words)[:100]}")
                elif how(words) == kind and tuple(words) not in done:
                    done.add(tuple(words))
                    if execute(page, line, words, folder):
                        continue
                elif words[1:2] != ["run"] or how(words) in ("quick", "commands"):
                    continue
                left_out |= {f"results/{os.path.splitext(os.path.basename(word))[0]}.sqlite" for word in words[2:]}
        if kind == "commands":
            check_quickstart(folder)


def main():
    part = sys.argv[2] if len(sys.argv) > 2 else "quick"
    if part == "list":
        for page, text in pages():
            for line, words in commands_of(text):
                print(f"{page}:{line}: {how(words)}: {' '.join(words)[:110]!r}")
    elif part == "plugins":
        check_plugins()
    elif part == "commands":
        check_commands("commands")
    else:
        for page, text in pages():
            check_links(page, text)
            check_spoken(page, text)
            list(plugins_of(page, text))
            for line, words in commands_of(text):
                check_command(f"{page}:{line}", words)
        check_figures_of_readme()
        check_commands("quick")
    for failure in failures:
        print(failure, file=sys.stderr)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
