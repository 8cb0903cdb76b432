#!/usr/bin/env python3
"""The rooms of harness/ and their arrows, held against the build and the pages.

rooms_check.py BUILD [--write]: a file of a room can include the headers of the rooms behind its arrows and no others;
no arrow leads back; docs/design.md draws the arrows that the build has; docs/reading-the-code.md names functions that
stand where it says. --write brings the two pages up to date.
"""
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def arrows_of(drawn):
    arrows = {}
    for room, line in re.findall(r"^  (\w+) --> (.+)$", drawn, re.M):
        for seen in line.split(" & "):
            arrows.setdefault(room, set()).add(seen)
            arrows.setdefault(seen, set())
    return arrows


def reachable(arrows, room):
    found, left = set(), [room]
    while left:
        for seen in arrows[left.pop()]:
            if seen not in found:
                found.add(seen)
                left.append(seen)
    return found


def headers_of(room):
    folder = os.path.join(ROOT, "harness", room)
    return sorted(f"{room}/{name}" for name in os.listdir(folder) if name.endswith(".h"))


def command_of(room, commands):
    for entry in commands:
        if os.path.dirname(entry["file"]) == os.path.join(ROOT, "harness", room) and not entry["file"].endswith(".cu"):
            words = shlex.split(entry["command"])
            start = next(i for i, word in enumerate(words) if re.search(r"(\+\+|g\+\+-\d+)$", word))
            flags = [w for w in words[start:] if w.startswith(("-I", "-D", "-std"))]
            flags += [w for i, v in enumerate(words) if v == "-isystem" for w in (v, words[i + 1])]
            return [words[start], *flags], entry["directory"]
    return None, None


def wrong_includes(room, arrows, commands):
    """Lines about headers that the room's files can include and should not, or the other way round."""
    command, folder = command_of(room, commands)
    if not command:  # headers alone
        return []
    allowed = reachable(arrows, room) | {room}
    claims = []
    for other in sorted(arrows):
        for header in headers_of(other):
            wrong = "!" if other in allowed else ""
            claims.append(f'#if {wrong}__has_include("{header}")\nstatic_assert(false, "{header}");\n#endif')
    with tempfile.NamedTemporaryFile("w", suffix=".cpp") as file:
        file.write("\n".join(claims) + "\n")
        file.flush()
        done = subprocess.run([*command, "-fsyntax-only", file.name], cwd=folder, capture_output=True, text=True)
    wrong = re.findall(r'static assertion failed: (\S+)', done.stderr)
    if done.returncode and not wrong:
        wrong = [done.stderr.strip().splitlines()[-1]]
    return [f"{room}: {header} is {'not seen, though' if header.split('/')[0] in allowed else 'seen, though no'}"
            f" arrow leads there" for header in wrong]


def in_few_lines(drawn):
    """Arrows beside each other, in lines of 116 columns: one line a room made the picture half of its page."""
    head, *arrows = [line.strip() for line in drawn.splitlines() if line.strip()]
    lines = [""]
    for arrow in arrows:
        joined = f"{lines[-1]}; {arrow}" if lines[-1] else arrow
        if len(joined) > 116:
            lines.append(arrow)
        else:
            lines[-1] = joined
    return head + "\n" + "".join(f"  {line}\n" for line in lines)


def hold_picture(drawn, write):
    page = os.path.join(ROOT, "docs/design.md")
    text = read(page)
    block = re.compile(r"```mermaid\nflowchart.*?```", re.S)
    if not block.search(text):
        return ["docs/design.md: it holds no picture of the rooms"]
    new = block.sub(lambda _: f"```mermaid\n{in_few_lines(drawn)}```", text)
    if new == text:
        return []
    if write:
        with open(page, "w", encoding="utf-8") as file:
            file.write(new)
        return []
    return ["docs/design.md: the picture is not the build's; tests/rooms/rooms_check.py BUILD --write draws it"]


def hold_hops(write):
    """Hops are written as [`function`](../harness/x/y.cpp#L12)."""
    page = os.path.join(ROOT, "docs/reading-the-code.md")
    text, wrong = read(page), []

    def place(match):
        name, path, line = match[1], match[2], int(match[3])
        lines = read(os.path.join(ROOT, path)).splitlines() if os.path.exists(os.path.join(ROOT, path)) else []
        bare = re.escape(name.split("::")[-1])
        found = [i + 1 for i, l in enumerate(lines) if re.search(rf"\b{bare}\b\s*\(", l) and not l.lstrip().startswith("//")]
        if line in found:
            return match[0]
        if not found:
            wrong.append(f"docs/reading-the-code.md: {path} has no function {name}")
            return match[0]
        nearest = min(found, key=lambda i: abs(i - line))
        if not write:
            wrong.append(f"docs/reading-the-code.md: {name} stands at {path}:{nearest}, not {line}")
        return f"[`{name}`](../{path}#L{nearest})"

    new = re.sub(r"\[`([\w:]+)`\]\(\.\./([\w/.]+)#L(\d+)\)", place, text)
    n_hops = len(re.findall(r"^\d+\. ", text, re.M))
    if not 0 < n_hops <= 10:
        wrong.append(f"docs/reading-the-code.md: {n_hops} hops, expected 1 to 10")
    if write and new != text:
        with open(page, "w", encoding="utf-8") as file:
            file.write(new)
    return wrong


def main():
    build, write = sys.argv[1], "--write" in sys.argv
    drawn = read(os.path.join(build, "rooms.mmd"))
    arrows = arrows_of(drawn)
    commands = json.loads(read(os.path.join(build, "compile_commands.json")))
    wrong = [f"{room}: an arrow leads back to it" for room in sorted(arrows) if room in reachable(arrows, room)]
    folders = {name for name in os.listdir(os.path.join(ROOT, "harness"))
               if os.path.isdir(os.path.join(ROOT, "harness", name)) and name not in ("include", "quant", "functions", "cuda")}
    wrong += [f"harness/{name}: no arrow leads to it or from it" for name in sorted(folders - set(arrows))]
    for room in sorted(arrows):
        wrong += wrong_includes(room, arrows, commands)
    wrong += hold_picture(drawn, write) + hold_hops(write)
    print("\n".join(wrong) if wrong else f"{len(arrows)} rooms, {sum(map(len, arrows.values()))} arrows: as the build has them")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
