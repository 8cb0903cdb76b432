#!/usr/bin/env python3
"""Writes docs/claims.md from claims.yaml and the shards in this folder.

usage: make_pages.py [PROGRAM] [--check] [--database FILE]
PROGRAM: kvc's program (default: build/bin/kvc). --check writes nothing and fails where the page would change. --database:
these rows instead of the shards'. Needs PyYAML.
"""
import argparse
import glob
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile

try:
    import yaml
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PAGE = os.path.join(ROOT, "docs", "claims.md")
TASKS = "likelihood/sources/*"
LENGTH = 2048
SURE = 0.05  # p after Holm


class Evidence:
    def __init__(self, program, database):
        self.program, self.database = program, database
        self.rows = sqlite3.connect(database)
        self.models = [model for (model,) in self.rows.execute(
            "SELECT model FROM cell WHERE task LIKE 'likelihood/sources/%' GROUP BY 1 ORDER BY min(model_json ->> '$.shape.n_layers'), 1")]
        self.compared = {}

    def kl(self, model, a, b):
        """{"a", "b": mean KL in nats, "difference", "low", "high", "p", "windows"} of b less a, on the same tokens; None: not run"""
        key = (model, a, b)
        if key not in self.compared:
            done = subprocess.run([self.program, "compare", self.database, a, b, "--model", model, "--kl", "--pooled", "--paired-only",
                                   "--task", TASKS, "--format", "json"], capture_output=True, text=True)
            rows = json.loads(done.stdout)["rows"] if done.returncode == 0 else []
            found = rows[0] if rows else {}
            self.compared[key] = None if found.get("p (Holm)") is None else {
                "a": found["KL A [nats]"], "b": found["KL B [nats]"], "difference": found["B - A [nats]"], "low": found["low [nats]"],
                "high": found["high [nats]"], "p": found["p (Holm)"], "windows": found["windows"]}
        return self.compared[key]

    def all_rows(self, model):
        """{row: (KL, low, high)} of every row that differs from full precision, in nats"""
        done = subprocess.run([self.program, "compare", self.database, "--baseline", "full precision", "--model", model, "--kl", "--pooled",
                               "--paired-only", "--task", TASKS, "--format", "json"], capture_output=True, text=True)
        rows = json.loads(done.stdout)["rows"] if done.returncode == 0 else []
        return {row["B"]: (row["KL B [nats]"], row["low [nats]"], row["high [nats]"]) for row in rows if row["low [nats]"] is not None}

    def one(self, model, query, row):
        return self.rows.execute(
            f"SELECT {query} FROM cell AS c JOIN experiment_cell AS e ON e.cell_key = c.key WHERE c.model = ? AND e.label = ?"
            " AND c.task LIKE 'likelihood/sources/%'", (model, row)).fetchone()

    def size(self, model, row):
        """% of 16 bits in caches filled with LENGTH tokens"""
        return self.one(model, "max((SELECT 100.0 * s.kv_bytes / s.kv_bytes_fp16 FROM cell_size AS s WHERE s.cell_key = c.key AND"
                               f" s.n_tokens = {LENGTH}))", row)[0]

    def sized(self, model, row):
        size = self.size(model, row)
        return f"{row} ({size:.1f} %)" if size is not None else row

    def errors(self, model, a, b):
        """Windows, and those in which a's mean error of K and V is smaller"""
        query = ("SELECT c.task, s.sample, s.k_error + s.v_error FROM sample AS s JOIN cell AS c ON c.key = s.cell_key JOIN experiment_cell AS e"
                 " ON e.cell_key = c.key WHERE c.model = ? AND e.label = ? AND s.status = 'ok' AND c.task LIKE 'likelihood/sources/%'")
        one, other = ({row[:2]: row[2] for row in self.rows.execute(query, (model, each))} for each in (a, b))
        both = [key for key in one if key in other and one[key] is not None and other[key] is not None]
        return len(both), sum(one[key] < other[key] for key in both), *(
            sum(each[key] for key in both) / max(1, len(both)) / 2 for each in (one, other))


def holm(ps):
    order = sorted(range(len(ps)), key=lambda i: ps[i])
    adjusted, most = [0.0] * len(ps), 0.0
    for rank, i in enumerate(order):
        most = max(most, min(1.0, (len(ps) - rank) * ps[i]))
        adjusted[i] = most
    return adjusted


def nats(x):
    thousandths = 1000 * x
    return f"{thousandths:.3g}" if abs(thousandths) < 99.5 else f"{thousandths:,.0f}"


def pairs_of(claim, evidence, model):
    """(a, b, what is compared, whether the claim is that they are equal)"""
    pairs = claim.get("compare", [])
    for pair in pairs:
        what = "as claimed" if len(pairs) == 1 else f"{pair['a']} against {pair['b']}"
        if pair.get("unequal_tails"):
            what = "with unequal tails" if len(pairs) == 1 else f"{what} (unequal tails)"
        yield pair["a"], pair["b"], what, pair.get("equal", False)
    if "equal_bytes" in claim:
        a = claim["equal_bytes"]["a"]
        most = evidence.size(model, a)
        sizes = {row: evidence.size(model, row) for row in claim["equal_bytes"]["among"]}
        fit = [row for row, size in sizes.items() if size is not None and most is not None and size <= 1.02 * most]
        if fit:
            best = max(fit, key=sizes.get)
            if best not in [pair["b"] for pair in claim.get("compare", [])]:
                yield a, best, "at no more bytes", False


def tested(claims, evidence):
    """Every comparison of the page: {(claim, model): [(a, b, what, equal, kl)]}, with p adjusted for all of them."""
    found = {}
    for paper in claims:
        for claim in paper["claims"]:
            for model in evidence.models:
                rows = [(a, b, what, equal, evidence.kl(model, a, b)) for a, b, what, equal in pairs_of(claim, evidence, model)]
                found[claim["title"], model] = [row for row in rows if row[4]]
    once = {id(row[4]): row[4] for rows in found.values() for row in rows}
    for comparison, p in zip(once.values(), holm([each["p"] for each in once.values()])):
        comparison["p"] = p
    return found


def verdict_of_pair(equal, kl):
    if kl["p"] >= SURE:
        return "no difference seen" if equal else "open"
    if equal:
        return "contradicted"
    return "confirmed" if kl["difference"] > 0 else "contradicted"


def verdict_of_limit(low, high, most):
    return "confirmed" if high <= most else "contradicted" if low > most else "open"


def lines_of_claim(claim, evidence, found, verdicts):
    lines = []

    def row(model, *cells):
        lines.append("| " + " | ".join([model, *cells]) + " |")

    for model in evidence.models:
        for a, b, what, equal, kl in found[claim["title"], model]:
            verdict = verdict_of_pair(equal, kl)
            verdicts.append((model, what, verdict))
            row(model, evidence.sized(model, a), nats(kl["a"]), evidence.sized(model, b), nats(kl["b"]),
                f"{nats(kl['difference'])} [{nats(kl['low'])}, {nats(kl['high'])}]", f"{kl['p']:.2g}", what, verdict)
    if lines:
        head = ["", "| model | A (size) | KL | B (size) | KL | B - A | p | | verdict |", "|---|---|--:|---|--:|--:|--:|---|---|"]
        return head + lines
    return lines


def lines_of_limit(claim, evidence, verdicts):
    limit, lines = claim["limit"], []
    for model in evidence.models:
        kl = evidence.kl(model, limit["row"], "full precision")
        if kl:
            low, high = -kl["high"], -kl["low"]
            verdict = verdict_of_limit(low, high, limit["most"])
            verdicts.append((model, "as claimed", verdict))
            lines.append(f"| {model} | {evidence.sized(model, limit['row'])} | {nats(kl['a'])} [{nats(low)}, {nats(high)}] |"
                         f" at most {nats(limit['most'])} | {verdict} |")
    return ["", "| model | row (size) | KL | nothing noticeable | verdict |", "|---|---|--:|--:|---|"] + lines if lines else []


def lines_of_size(claim, evidence, verdicts):
    size, lines = claim["size"], []
    for model in evidence.models:
        measured = evidence.size(model, size["row"])
        if measured is not None:
            verdict = "confirmed" if measured <= size["most"] else "contradicted"
            verdicts.append((model, "as claimed", verdict))
            lines.append(f"| {model} | {size['row']} | {measured:.1f} % | {size['most']} % | {verdict} |")
    return ["", f"| model | row | measured at {LENGTH:,} tokens | claimed | verdict |", "|---|---|--:|--:|---|"] + lines if lines else []


def lines_of_error(claim, evidence, verdicts):
    pair, lines = claim["error"], []
    for model in evidence.models:
        n, n_smaller, one, other = evidence.errors(model, pair["a"], pair["b"])
        if n:
            verdict = "confirmed" if n_smaller == n else "contradicted" if n_smaller == 0 else "open"
            verdicts.append((model, "as claimed", verdict))
            lines.append(f"| {model} | {pair['a']} | {one:.3f} | {pair['b']} | {other:.3f} | {n_smaller} of {n} | {verdict} |")
    return ["", "| model | A | relative error | B | relative error | windows in which A's is smaller | verdict |",
            "|---|---|--:|---|--:|--:|---|"] + lines if lines else []


def summary(verdicts, claim):
    """One word, or one for each comparison and model where they differ."""
    if "elsewhere" in claim:
        return claim["elsewhere"].split(":")[0]
    if not verdicts:
        return "open"
    texts = []
    for what in dict.fromkeys(what for _, what, _ in verdicts):
        of = [(model, verdict) for model, each, verdict in verdicts if each == what]
        words = list(dict.fromkeys(verdict for _, verdict in of))
        said = words[0] if len(words) == 1 else ", ".join(
            f"{word} on {' and '.join(model for model, verdict in of if verdict == word)}" for word in words)
        texts.append(said if what == "as claimed" else f"{what}: {said}")
    return "; ".join(texts)


def ranks(values):
    """1 for the smallest; the mean rank where values are equal"""
    order = sorted(values)
    return [order.index(v) + (order.count(v) + 1) / 2 for v in values]


def spearman(one, other):
    x, y = ranks(one), ranks(other)
    n, mean = len(x), (len(x) + 1) / 2
    spread = [sum((v - mean) ** 2 for v in each) for each in (x, y)]
    return sum((a - mean) * (b - mean) for a, b in zip(x, y)) / (spread[0] * spread[1]) ** 0.5 if n > 1 and all(spread) else float("nan")


def lines_of_all(evidence):
    of_model = {model: evidence.all_rows(model) for model in evidence.models}
    names = sorted({name for rows in of_model.values() for name in rows},
                   key=lambda name: (max(evidence.size(model, name) or 0 for model in evidence.models), name))
    lines = ["", "## All rows", "", "Sorted by size. KL in thousandths of a nat per token with its 95 % interval; size in % of 16 bits.", ""]
    lines.append("| row | " + " | ".join(f"{model}: size | KL" for model in evidence.models) + " |")
    lines.append("|---|" + "--:|--:|" * len(evidence.models))
    for name in names:
        cells = []
        for model in evidence.models:
            size, kl = evidence.size(model, name), of_model[model].get(name)
            cells += [f"{size:.1f}" if size is not None else "", f"{nats(kl[0])} [{nats(kl[1])}, {nats(kl[2])}]" if kl else ""]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    for i, one in enumerate(evidence.models):
        for other in evidence.models[i + 1:]:
            both = [name for name in names if name in of_model[one] and name in of_model[other]]
            rho = spearman(*([of_model[model][name][0] for name in both] for model in (one, other)))
            lines += ["", f"Rank correlation (Spearman) of KL between {one} and {other}, {len(both)} rows: {rho:.2f}."]
    return lines


def page(claims, evidence):
    found = tested(claims, evidence)
    parts, table, n = [], [], 0
    for paper in claims:
        parts += ["", f"## {paper['paper']}", "", f"*{paper['title']}.*"]
        for claim in paper["claims"]:
            n += 1
            verdicts = []
            lines = lines_of_claim(claim, evidence, found, verdicts)
            for kind, write in (("limit", lines_of_limit), ("size", lines_of_size), ("error", lines_of_error)):
                if kind in claim:
                    lines += write(claim, evidence, verdicts)
            said = summary(verdicts, claim)
            anchor = re.sub(r"[^\w -]", "", f"{n}. {claim['title']}".lower()).replace(" ", "-")  # as pages on GitHub have it
            table.append(f"| [{n}](#{anchor}) | {paper['paper']} | {claim['title']} | {said} |")
            parts += ["", f"### {n}. {claim['title']}", "", f"{claim['place']}. **{said[0].upper()}{said[1:]}.**"]
            parts += [claim["note"][0].upper() + claim["note"][1:] + "."] if "note" in claim else []
            parts += [f"Seen {claim['elsewhere'].split(': ', 1)[1]}."] if "elsewhere" in claim else []
            parts += [f"What would decide it: {claim['open']}."] if "open" in claim else []
            parts += lines
    windows = max((kl["windows"] for rows in found.values() for *_, kl in rows), default=0)
    with open(os.path.join(HERE, "claims_head.md")) as file:
        head = file.read().format(models=", ".join(evidence.models), windows=windows, n_claims=n,
                                  n_comparisons=len({id(kl) for rows in found.values() for *_, kl in rows}), length=f"{LENGTH:,}")
    return head + "\n".join(["| | paper | claim | verdict |", "|--:|---|---|---|", *table, *parts, *lines_of_all(evidence)]) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", nargs="?", default=os.path.join(ROOT, "build", "bin", "kvc"))
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--database")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, open(os.path.join(HERE, "claims.yaml")) as file:
        database = arguments.database or os.path.join(folder, "evidence.sqlite")
        if not arguments.database:
            shards = sorted(glob.glob(os.path.join(HERE, "*.sqlite.xz")))
            subprocess.run([arguments.program, "merge", database, *shards], check=True, stdout=subprocess.DEVNULL)
        text = page(yaml.safe_load(file), Evidence(arguments.program, database))
    if not arguments.check:
        with open(PAGE, "w") as file:
            file.write(text)
        return
    with open(PAGE) as file:
        if file.read() != text:
            sys.exit("docs/claims.md is not what results/evidence/make_pages.py writes")


if __name__ == "__main__":
    main()
