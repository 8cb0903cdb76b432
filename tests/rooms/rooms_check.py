#!/usr/bin/env python3
"""Compares the groups and rooms of harness/ with the build and the pages.

rooms_check.py BUILD [--write]: a file of a room can include the headers of the rooms its target links, directly or through
others, and no others; no room depends on itself, and no room on one of a higher group; docs/design.md draws the rooms
that the build has; docs/reading-the-code.md names functions at the lines where they are. --write updates the two pages.
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
    """({room: rooms that it links}, groups from the lowest) of build/rooms.mmd; a room is written group/room."""
    head, *lines = drawn.splitlines()
    arrows = {}
    for line in lines:
        room, seen = line.split(" --> ")
        arrows[room] = set(filter(None, seen.split(" & ")))
    for room in {seen for many in arrows.values() for seen in many} - set(arrows):
        arrows[room] = set()
    return arrows, head.split()


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
    return sorted(f"{os.path.basename(room)}/{name}" for name in os.listdir(folder) if name.endswith(".h"))


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
    for other in sorted(set(arrows) - {"include/kvc"}):  # the plugin ABI: every room may see it
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
    seen = {os.path.basename(other) for other in allowed}
    return [f"{room}: {header} is {'hidden, though an' if header.split('/')[0] in seen else 'visible, though no'}"
            f" arrow leads there" for header in wrong]


def arrows_up(arrows, groups):
    level = {group: i for i, group in enumerate(groups)}
    return [f"{room} --> {seen}: leads up" for room in sorted(arrows) for seen in sorted(arrows[room])
            if level[seen.split("/")[0]] > level[room.split("/")[0]]]


def mermaid(arrows):
    """Lines of at most 116 columns: one line per room made the picture half of its page."""
    drawn = [f"{box} --> {' & '.join(sorted(seen))}" for box, seen in sorted(arrows.items()) if seen]
    lines = [""]
    for arrow in drawn or sorted(arrows):
        joined = f"{lines[-1]}; {arrow}" if lines[-1] else arrow
        if len(joined) > 116:
            lines.append(arrow)
        else:
            lines[-1] = joined
    return "```mermaid\nflowchart TD\n" + "".join(f"  {line}\n" for line in lines) + "```\n"


def picture(arrows, groups):
    """The groups without arrows that others imply, then each group's rooms with the groups that they use."""
    between = {group: {seen.split("/")[0] for room in arrows if room.split("/")[0] == group for seen in arrows[room]} - {group}
               for group in groups}
    direct = {group: {seen for seen in between[group] if not any(seen in reachable(between, other) for other in between[group])}
              for group in groups}
    text = mermaid(direct)
    for group in reversed(groups):
        rooms = {room: seen for room, seen in arrows.items() if room.split("/")[0] == group and room != "include/kvc"}
        inside = {room.split("/")[1]: {other.split("/")[1] if other.split("/")[0] == group else f"{other.split('/')[0]}/"
                                       for other in seen} for room, seen in rooms.items()}
        boxes = {room: {f"{name.rstrip('/')}_{{{{{name}}}}}" if name.endswith("/") else name for name in seen}
                 for room, seen in inside.items()}
        if rooms:
            text += f"\n`{group}`:\n\n" + mermaid(boxes)
    return text


def hold_picture(drawn, write):
    page = os.path.join(ROOT, "docs/design.md")
    text = read(page)
    block = re.compile(r"(<!-- drawn from the build -->\n).*?(<!-- end -->)", re.S)
    if not block.search(text):
        return ["docs/design.md: it has no place for the picture of the rooms"]
    new = block.sub(lambda found: f"{found[1]}{drawn}{found[2]}", text)
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
            wrong.append(f"docs/reading-the-code.md: {name} is at {path}:{nearest}, not {line}")
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
    arrows, groups = arrows_of(read(os.path.join(build, "rooms.mmd")))
    commands = json.loads(read(os.path.join(build, "compile_commands.json")))
    wrong = [f"{room}: it depends on itself" for room in sorted(arrows) if room in reachable(arrows, room)]
    folders = {f"{group}/{name}" for group in groups for name in os.listdir(os.path.join(ROOT, "harness", group))
               if os.path.isdir(os.path.join(ROOT, "harness", group, name))}
    wrong += [f"harness/{name}: no target of the build" for name in sorted(folders - set(arrows))]
    wrong += arrows_up(arrows, groups)
    for room in sorted(arrows):
        wrong += wrong_includes(room, arrows, commands)
    wrong += hold_picture(picture(arrows, groups), write) + hold_hops(write)
    print("\n".join(wrong) if wrong else f"{len(arrows)} rooms, {sum(map(len, arrows.values()))} arrows: as the build has them")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
