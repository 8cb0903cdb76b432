"""docs/claims.md: what the papers claim, and the rows that test it (claims.yaml)."""
import math
import os
import re
import statistics

from evidence import FULL, LAST, LENGTH, QUESTIONS, SURE, adjust, cost_of_decoding, nats, points, table, with_interval

SLOPE_WITHIN = 0.1
MOST_POINTS = 5  # of right answers that a row may lose where nothing is said to be lost
HERE = os.path.dirname(os.path.abspath(__file__))


def pairs_of(claim, evidence, model):
    """(a, b, what is compared, whether the claim is that they are equal)"""
    pairs = claim.get("compare", [])
    for pair in pairs:
        what = "as claimed" if len(pairs) == 1 else f"{pair['a']} against {pair['b']}"
        b = pair["b"]
        if "with_tail" in pair and evidence.size(model, pair["with_tail"]) is not None:
            b = pair["with_tail"]
            what = "with equal tails" if len(pairs) == 1 else f"{what} (equal tails)"
        elif "with_tail" in pair:
            what = "with unequal tails" if len(pairs) == 1 else f"{what} (unequal tails)"
        yield pair["a"], b, what, pair.get("equal", False)
    if "equal_bytes" in claim:
        a = claim["equal_bytes"]["a"]
        most = evidence.size(model, a)
        sizes = {row: evidence.size(model, row) for row in claim["equal_bytes"]["among"]}
        fit = [row for row, size in sizes.items() if size is not None and most is not None and size <= 1.02 * most]
        if fit:
            best = max(fit, key=sizes.get)
            if best not in [pair["b"] for pair in claim.get("compare", [])]:
                yield a, best, "at no more bytes", False


def decoding_of(claim, others):
    """(model, row, KL of the same tokens after an exact prefill and after decoding) of the claim's rows"""
    return [(model, row, kl) for (model, row), kl in others.after_decoding().items() if row in claim.get("decoding", [])]


def tested(claims, evidence, others):
    """Every comparison of the page, with p adjusted for all of them: {(claim, model): [(a, b, what, equal, KL, {questions: answers})]}"""
    found = {}
    for paper in claims:
        for claim in paper["claims"]:
            for model in evidence.any_models:
                found[claim["title"], model] = [
                    (a, b, what, equal, evidence.kl(model, a, b), evidence.every_answer(model, a, b))
                    for a, b, what, equal in pairs_of(claim, evidence, model)]
    losses = [each for paper in claims for claim in paper["claims"] if "limit" in claim
              for model in evidence.any_models for each in evidence.every_answer(model, FULL, claim["limit"]["row"]).values()]
    compared = [each for rows in found.values() for row in rows for each in [row[4], *row[5].values()] if each]
    decoded = [kl for paper in claims for claim in paper["claims"] for _, _, kl in decoding_of(claim, others)]
    return found, adjust(compared + losses + decoded)


# b_is_worse: what the difference of b less a shows where it is above zero (KL) or below (right answers)
def verdict_of_pair(equal, comparison, b_is_worse):
    if comparison["p"] >= SURE:
        return "no difference seen" if equal else "open"
    if equal:
        return "contradicted"
    return "confirmed" if b_is_worse else "contradicted"


def verdict_of_limit(low, high, most):
    return "confirmed" if high <= most else "contradicted" if low > most else "open"


def lines_of_claim(claim, evidence, found, verdicts):
    rows, answers = [], []
    for model in evidence.any_models:
        for a, b, what, equal, kl, answered in found[claim["title"], model]:
            if kl:
                verdict = verdict_of_pair(equal, kl, kl["difference"] > 0)
                verdicts.append((model, what, verdict))
                rows.append([model, evidence.sized(model, a), nats(kl["a"]), evidence.sized(model, b), nats(kl["b"]),
                             with_interval(kl["difference"], kl["low"], kl["high"]), f"{kl['p']:.2g}", what, verdict])
            for questions, right in answered.items():
                verdict = verdict_of_pair(equal, right, right["difference"] < 0)
                verdicts.append((model, f"{questions}, {what}".replace(", as claimed", ""), verdict))
                answers.append([model, questions, a, f"{right['a']:.1f}", b, f"{right['b']:.1f}",
                                points(right["difference"], right["low"], right["high"]), f"{right['p']:.2g}", what, verdict])
    return table(["model", "A (size)", "KL:", "B (size)", "KL:", "B - A:", "p:", "comparison", "verdict"], rows) + table(
        ["model", "questions", "A", "right [%]:", "B", "right [%]:", "B - A [points]:", "p:", "comparison", "verdict"], answers)


def verdict_of_loss(right):
    """of right answers, against full precision"""
    if right["p"] < SURE and right["difference"] < 0:
        return "contradicted"
    return "confirmed" if right["low"] >= -MOST_POINTS else "open"


def lines_of_limited_answers(claim, evidence, verdicts):
    rows = []
    for model in evidence.any_models:
        for questions, right in evidence.every_answer(model, FULL, claim["limit"]["row"]).items():
            verdict = verdict_of_loss(right)
            verdicts.append((model, questions, verdict))
            rows.append([model, questions, claim["limit"]["row"], f"{right['b']:.1f}", f"{right['a']:.1f}",
                         points(right["difference"], right["low"], right["high"]), f"{right['p']:.2g}", verdict])
    return table(["model", "questions", "row", "right [%]:", "full precision [%]:", "difference [points]:", "p:", "verdict"], rows)


def lines_of_limit(claim, evidence, verdicts):
    limit, rows = claim["limit"], []
    for model in evidence.models:
        kl = evidence.kl(model, limit["row"], FULL)
        if kl:
            low, high = -kl["high"], -kl["low"]
            verdict = verdict_of_limit(low, high, limit["most"])
            verdicts.append((model, "as claimed", verdict))
            rows.append([model, evidence.sized(model, limit["row"]), with_interval(kl["a"], low, high), f"at most {nats(limit['most'])}", verdict])
    return table(["model", "row (size)", "KL:", "nothing noticeable:", "verdict"], rows) + lines_of_limited_answers(claim, evidence, verdicts)


def lines_of_size(claim, evidence, verdicts):
    size, rows = claim["size"], []
    for model in evidence.models:
        measured = evidence.size(model, size["row"])
        if measured is not None:
            verdict = "confirmed" if measured <= size["most"] else "contradicted"
            verdicts.append((model, "as claimed", verdict))
            rows.append([model, size["row"], f"{measured:.1f} %", f"{size['most']} %", verdict])
    return table(["model", "row", f"measured at {LENGTH:,} tokens:", "claimed:", "verdict"], rows)


def lines_of_error(claim, evidence, verdicts):
    rows = []
    for model in evidence.models:
        for pair in claim["error"]:
            n, n_smaller, one, other = evidence.errors(model, pair["a"], pair["b"])
            if n:
                verdict = "confirmed" if n_smaller == n else "contradicted" if n_smaller == 0 else "open"
                verdicts.append((model, "as claimed" if len(claim["error"]) == 1 else f"against {pair['b']}", verdict))
                rows.append([model, evidence.sized(model, pair["a"]), f"{one:.3f}", evidence.sized(model, pair["b"]), f"{other:.3f}",
                             f"{n_smaller} of {n}", verdict])
    return table(["model", "A (size)", "relative error:", "B (size)", "relative error:", "windows in which A's is smaller:", "verdict"], rows)


def lines_of_decoding(claim, others, verdicts):
    rows = []
    for model, row, kl in decoding_of(claim, others):
        verdict = verdict_of_pair(False, kl, kl["difference"] > 0)
        verdicts.append((model, row, verdict))
        rows.append([model, row, str(kl["windows"]), nats(kl["exact"]), nats(kl["decoded"]), cost_of_decoding(kl),
                     f"{kl['p']:.2g}", verdict])
    return table(["model", "row", "windows:", f"KL of the last {LAST} tokens after an exact prefill:", "after decoding:",
                  "difference:", "p:", "verdict"], rows)


def slope_of(drawn):
    """Least squares of log y by log x"""
    xs, ys = ([math.log(value) for value in values] for values in zip(*drawn))
    mean_x, mean_y = statistics.mean(xs), statistics.mean(ys)
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys)) / sum((x - mean_x) ** 2 for x in xs)


def lines_of_slope(claim, evidence, verdicts):
    rule, lines = claim["slope"], []
    for model, of_row in evidence.medians_of_layers(rule["rows"], rule["measure"]).items():
        drawn = sorted((float(row.split()[0]), value ** 0.5) for row, value in of_row.items())
        slope = slope_of(drawn)
        verdict = "confirmed" if abs(slope - rule["slope"]) <= SLOPE_WITHIN else "contradicted"
        verdicts.append((model, "as claimed", verdict))
        lines.append([model, *(f"{y:.2f}" for _, y in drawn), f"{slope:.2f}", f"{rule['slope']} within {SLOPE_WITHIN}", verdict])
    if not lines:
        return []
    return ["", f"Relative error of {rule['of']}, by row:"] + table(
        ["model", *(f"{x:.0f}:" for x, _ in drawn), "slope:", "claimed:", "verdict"], lines)


def names(models):
    *most, last = models
    return f"{', '.join(most)} and {last}" if most else last


def summary(verdicts, claim):
    """One word, or one for each comparison and model where they differ."""
    if "elsewhere" in claim:
        return claim["elsewhere"].split(":")[0]
    if not verdicts:
        return "open"
    texts = []
    of_answers = lambda what: what.split(",")[0] in QUESTIONS
    has_answers = any(of_answers(what) for _, what, _ in verdicts)
    for what in sorted(dict.fromkeys(what for _, what, _ in verdicts), key=of_answers):
        of = [(model, verdict) for model, each, verdict in verdicts if each == what]
        words = list(dict.fromkeys(verdict for _, verdict in of))
        said = words[0] if len(words) == 1 else ", ".join(
            f"{word} on {names(model for model, verdict in of if verdict == word)}" for word in words)
        if len(words) == 1 and {model for model, _ in of} != {model for model, each, _ in verdicts if of_answers(each) == of_answers(what)}:
            said += f" on {names(model for model, _ in of)}"
        heading = what if of_answers(what) or not has_answers else "KL" if what == "as claimed" else f"KL, {what}"
        texts.append(said if heading == "as claimed" else f"{heading}: {said}")
    return "; ".join(texts)


def page(claims, evidence, others):
    """others: the shards that other.md alone reads, of which a claim may ask what decoding costs"""
    evidence.begin_page()
    others.begin_page()
    found, n_comparisons = tested(claims, evidence, others)
    parts, contents, n = [], [], 0
    for paper in claims:
        parts += ["", f"## {paper['paper']}", "", f"*{paper['title']}.*"]
        for claim in paper["claims"]:
            n += 1
            verdicts = []
            lines = lines_of_claim(claim, evidence, found, verdicts)
            for kind, write in (("limit", lines_of_limit), ("size", lines_of_size), ("error", lines_of_error), ("slope", lines_of_slope)):
                if kind in claim:
                    lines += write(claim, evidence, verdicts)
            lines += lines_of_decoding(claim, others, verdicts)
            said = summary(verdicts, claim)
            anchor = re.sub(r"[^\w -]", "", f"{n}. {claim['title']}".lower()).replace(" ", "-")  # as pages on GitHub have it
            contents.append(f"| [{n}](#{anchor}) | {paper['paper']} | {claim['title']} | {said} |")
            parts += ["", f"### {n}. {claim['title']}", "", f"{claim['place']}. **{said[0].upper()}{said[1:]}.**"]
            parts += [claim["note"][0].upper() + claim["note"][1:] + "."] if "note" in claim else []
            parts += [f"Seen {claim['elsewhere'].split(': ', 1)[1]}."] if "elsewhere" in claim else []
            parts += [f"What would decide it: {claim['open']}."] if "open" in claim else []
            parts += lines
    windows = max((row[4]["windows"] for rows in found.values() for row in rows if row[4]), default=0)
    with open(os.path.join(HERE, "claims_head.md")) as file:
        head = file.read().format(models=", ".join(evidence.models), windows=windows, n_claims=n, n_comparisons=n_comparisons,
                                  length=f"{LENGTH:,}", most_points=MOST_POINTS,
                                  **{f"{questions.lower()}_questions": ", ".join(
                                      f"{evidence.n_questions(model, questions)} on {model}" for model in evidence.answering[questions])
                                     for questions in QUESTIONS})
    return head + "\n".join(["| | paper | claim | verdict |", "|--:|---|---|---|", *contents, *parts]) + "\n"
