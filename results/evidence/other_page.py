"""results/evidence/other.md: tasks besides KL and GSM8K."""
import os

from evidence import FULL, adjust, nats, points, table

HERE = os.path.dirname(os.path.abspath(__file__))
LAMBADA = "lambada/after_512"
JOINED = "FROM cell AS c JOIN experiment_cell AS e ON e.cell_key = c.key JOIN sample AS s ON s.cell_key = c.key"


def lambada(evidence):
    lines, compared = [], []
    models = [model for (model,) in evidence.rows.execute("SELECT DISTINCT model FROM cell WHERE task = ? ORDER BY 1", (LAMBADA,))]
    for model in models:
        losses = {row["B"]: {"p": row["p"], "row": row} for row in evidence.told(
            "compare", evidence.database, "--baseline", FULL, "--model", model, "--task", LAMBADA, "--paired-only")}
        compared.append((model, losses))
    adjust([each for _, losses in compared for each in losses.values()])
    for model, losses in compared:
        rows = []
        for row in evidence.told("query", "--db", evidence.database, (
                "SELECT e.label, 100.0 * sum(s.kv_bytes) / sum(s.kv_bytes_fp16) AS size, 100.0 * avg(r.value) AS right,"
                f" 100.0 * score_low(r.value) AS low, 100.0 * score_high(r.value) AS high, count(*) AS n {JOINED}"
                " JOIN score AS r ON r.cell_key = c.key AND r.sample = s.sample AND r.extractor = 'greedy'"
                f" WHERE c.model = '{model}' AND c.task = '{LAMBADA}' GROUP BY e.label ORDER BY min(e.position)")):
            loss = losses.get(row["label"])
            found = loss and loss["row"]
            rows.append([row["label"], f"{row['size']:.1f}", f"{row['right']:.1f} [{row['low']:.1f}, {row['high']:.1f}]",
                         points(found["difference [points]"], found["low [points]"], found["high [points]"]) if found else "",
                         f"{loss['p']:.2g}" if found else "", str(found["regressed"] + found["improved"]) if found else ""])
            n = row["n"]
        lines += ["", f"**{model}**, {n} questions:"] + table(
            ["row", "KV size [%]:", "right [%]:", "less full precision [points]:", "p:", "answers that change:"], rows)
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


def page(evidence):
    evidence.begin_page()
    with open(os.path.join(HERE, "other_head.md")) as file:
        return file.read().format(**{each.__name__: "\n".join(each(evidence)) for each in (lambada, needles, seeds)})
