"""results/evidence/other.md: tasks besides KL and GSM8K."""
import os

from evidence import FULL, LAST, LENGTH, adjust, cost_of_decoding, nats, points, table

HERE = os.path.dirname(os.path.abspath(__file__))
RULES = {"lambada/after_512": "greedy", "gsm8k/chat0": "number"}  # of tasks that have several scores; BBH's first is GEAR's
JOINED = "FROM cell AS c JOIN experiment_cell AS e ON e.cell_key = c.key JOIN sample AS s ON s.cell_key = c.key"


def scores(evidence, model, task, rule):
    return evidence.told("query", "--db", evidence.database, (
        "SELECT e.label, 100.0 * sum(s.kv_bytes) / sum(s.kv_bytes_fp16) AS size, 100.0 * avg(r.value) AS score,"
        " 100.0 * score_low(r.value) AS low, 100.0 * score_high(r.value) AS high, count(*) AS n, avg(s.n_prompt_tokens) AS prompt"
        f" {JOINED} JOIN score AS r ON r.cell_key = c.key AND r.sample = s.sample AND r.extractor = '{rule}'"
        f" WHERE c.model = '{model}' AND c.task = '{task}' GROUP BY e.label ORDER BY min(e.position)"))


def answers(evidence, experiment):
    """A table for each task and model of an experiment: its rows' scores, and what they lose to full precision on the same questions"""
    lines, compared = [], []
    for model, task, its_rule in evidence.rows.execute(
            "SELECT c.model, c.task, min(r.extractor) FROM cell AS c JOIN experiment_cell AS e ON e.cell_key = c.key JOIN score AS r"
            " ON r.cell_key = c.key WHERE e.experiment = ? GROUP BY 1, 2 ORDER BY min(r.sample), 1, 2", (experiment,)).fetchall():
        rule = RULES.get(task, its_rule)
        losses = {row["B"]: {"p": row["p"], "row": row} for row in evidence.told(
            "compare", evidence.database, "--baseline", FULL, "--model", model, "--task", task, "--extractor", rule, "--paired-only")}
        seen = {row["compressor"]: row["detectable [points]"] for row in evidence.told(
            "power", evidence.database, "--baseline", FULL, "--model", model, "--task", task, "--extractor", rule, "--paired-only")}
        compared.append((model, task, rule, losses, seen))
    adjust([each for *_, losses, _ in compared for each in losses.values()])
    for model, task, rule, losses, seen in compared:
        rows, found = [], scores(evidence, model, task, rule)
        for row in found:
            loss = losses.get(row["label"])
            of = loss and loss["row"]
            rows.append([row["label"], f"{row['size']:.1f}", f"{row['score']:.1f} [{row['low']:.1f}, {row['high']:.1f}]",
                         points(of["difference [points]"], of["low [points]"], of["high [points]"]) if of else "",
                         f"{loss['p']:.2g}" if of else "", str(of["regressed"] + of["improved"]) if of else "",
                         f"{seen[row['label']]:.1f}" if seen.get(row["label"]) else ""])
        lines += ["", f"**{task}**, {model}, {max(row['n'] for row in found)} questions of {found[0]['prompt']:,.0f} tokens in the mean:"]
        lines += table(["row", "KV size [%]:", "score [%]:", "less full precision [points]:", "p:", "scores that change:", "seen with power 0.8 [points]:"], rows)
    return lines


def needles(evidence):
    scores = evidence.told("query", "--db", evidence.database, (
        "SELECT c.model, c.task, e.label, min(e.position) AS place, e.experiment, 100.0 * sum(s.kv_bytes) / sum(s.kv_bytes_fp16) AS size,"
        " 100.0 * avg(r.value) AS right, 100.0 * score_low(r.value) AS low, 100.0 * score_high(r.value) AS high, count(*) AS n "
        f"{JOINED} JOIN score AS r ON r.cell_key = c.key AND r.sample = s.sample"
        " WHERE e.experiment IN ('evidence_needles', 'evidence_needles_after') GROUP BY 1, 2, 3, 5 ORDER BY 1, 2 DESC, 4"))
    lines = []
    for model, task in dict.fromkeys((row["model"], row["task"]) for row in scores):
        its = [row for row in scores if (row["model"], row["task"]) == (model, task)]
        said = lambda row: f"{row['right']:.0f} [{row['low']:.0f}, {row['high']:.0f}]" if row else ""
        rows = []
        for label in dict.fromkeys(row["label"] for row in its):
            known, after = (next((row for row in its if (row["label"], row["experiment"]) == (label, name)), None)
                            for name in ("evidence_needles", "evidence_needles_after"))
            rows.append([label, f"{(after or known)['size']:.1f}", said(known), said(after)])
        lines += ["", f"**{task}**, {model}, {its[0]['n']} questions:"] + table(
            ["row", "KV size [%]:", "question in the prompt, found [%]:", "question after compression, found [%]:"], rows)
    return lines


def seeds(evidence):
    found = {}
    for label, kl in evidence.rows.execute(
            "SELECT e.label, sum(l.kl) / sum(l.n_tokens) FROM cell AS c JOIN experiment_cell AS e ON e.cell_key = c.key JOIN likelihood AS l"
            " ON l.cell_key = c.key WHERE e.experiment = 'evidence_seeds' AND e.label LIKE '%, seed %' GROUP BY e.label ORDER BY min(e.position)"):
        found.setdefault(label.split(", seed")[0], []).append(kl)
    rows = [[name, *(nats(kl) for kl in of), f"{100 * (max(of) - min(of)) * len(of) / sum(of):.0f}"] for name, of in found.items()]
    return table(["row", "seed 1:", "seed 2:", "seed 3:", "range [%]:"], rows)


PARTS = (("64 to 511", 64, 512), ("512 to 1,983", 512, LENGTH - LAST))


def accumulated(evidence):
    """KL of the same tokens after an exact prefill and after decoding, and of the tokens that were decoded before"""
    def one(query, label, task):
        return evidence.rows.execute(f"SELECT {query} WHERE e.experiment = 'evidence_accumulated' AND e.label = ? AND c.task LIKE ?",
                                     (label, task)).fetchone()[0]
    def size(label, task):
        return f"{one(f'100.0 * sum(s.kv_bytes) / sum(s.kv_bytes_fp16) {JOINED}', label, task):.1f}"
    def before(label, first, end):
        return nats(one("sum(l.kl) / sum(l.n_tokens) FROM cell AS c JOIN experiment_cell AS e ON e.cell_key = c.key JOIN likelihood AS l"
                        f" ON l.cell_key = c.key AND l.position >= {first} AND l.position < {end}", label, "pseudo_decode/%"))
    found = evidence.after_decoding()
    adjust(found.values())
    return table(["row", "windows:", "KV size [%]:", "KL after an exact prefill:", "KV size [%]:", "KL after decoding:", "difference:", "p:",
                  *(f"tokens {name}:" for name, *_ in PARTS)],
                 [[label, str(kl["windows"]), size(label, "likelihood/%"), nats(kl["exact"]), size(label, "pseudo_decode/%"),
                   nats(kl["decoded"]), cost_of_decoding(kl), f"{kl['p']:.2g}", *(before(label, first, end) for _, first, end in PARTS)]
                  for (_, label), kl in found.items()])


def page(evidence, of_claims):
    """of_claims: the rows that docs/claims.md rests on, which has Big-Bench Hard, too"""
    evidence.begin_page()
    with open(os.path.join(HERE, "other_head.md")) as file:
        return file.read().format(bbh="\n".join(answers(of_claims, "evidence_bbh")),
                                  **{name: "\n".join(answers(evidence, f"evidence_{name}")) for name in ("lambada", "chat", "ruler", "longbench")},
                                  **{each.__name__: "\n".join(each(evidence)) for each in (needles, accumulated, seeds)})
