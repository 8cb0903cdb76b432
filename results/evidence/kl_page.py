"""results/evidence/kl.md: every row's KL and size on every model, which it loses to, and what that depends on."""
import os
import re
import sqlite3
import statistics
import subprocess

from evidence import FULL, SURE, TASKS, adjust, nats, table, with_interval

HERE = os.path.dirname(os.path.abspath(__file__))
KNOWN = ["KIVI 2 bits", "KIVI 4 bits", "GEAR 2 bits", "QJL", "KVarN 2 bits", "llama.cpp q4_0", "llama.cpp q8_0", "SnapKV 25 %"]
SHOWN_ALONE = "qwen2.5-coder-0.5b"  # in the README
# Rows of four bits whose scales span channels of K, and those whose scales span tokens.
ACROSS_CHANNELS = ["FlexGen 4 bits", "Quanto 4 bits", "llama.cpp q4_0", "MXFP4", "NVFP4", "TurboQuant 4 bits"]
ACROSS_TOKENS = ["KIVI 4 bits", "KVQuant 4 bits", "KCVT 4 bits"]
ADDED = re.compile(r", (sinks|no sinks|tail|no tail)$")


def ranks(values):
    """1 for the smallest; the mean rank where values are equal"""
    order = sorted(values)
    return [order.index(v) + (order.count(v) + 1) / 2 for v in values]


def spearman(one, other):
    x, y = ranks(one), ranks(other)
    n, mean = len(x), (len(x) + 1) / 2
    spread = [sum((v - mean) ** 2 for v in each) for each in (x, y)]
    return sum((a - mean) * (b - mean) for a, b in zip(x, y)) / (spread[0] * spread[1]) ** 0.5 if n > 1 and all(spread) else float("nan")


def correlations(evidence, of_model):
    rows = []
    for i, one in enumerate(evidence.models):
        for other in evidence.models[i + 1:]:
            both = [name for name in of_model[one] if name in of_model[other]]
            rho = spearman(*([of_model[model][name][0] for name in both] for model in (one, other)))
            near_four = [name for name in both if 24 <= (evidence.size(one, name) or 0) <= 32]
            rho_near = spearman(*([of_model[model][name][0] for name in near_four] for model in (one, other)))
            rows.append([one, other, str(len(both)), f"{rho:.2f}", str(len(near_four)), f"{rho_near:.2f}"])
    return table(["model", "model", "rows:", "rank correlation:", "rows of 24 to 32 %:", "rank correlation:"], rows)


def better_at_no_more_bytes(evidence, model, rows):
    """{row: (the row of least KL that takes no more bytes, their comparison)}; a row that is that row itself is left out"""
    sizes = {name: evidence.size(model, name) for name in rows}
    found = {}
    for name in rows:
        rivals = [each for each in rows if sizes[each] is not None and sizes[name] is not None and sizes[each] <= sizes[name]]
        best = min(rivals, key=lambda each: rows[each][0], default=name)
        kl = evidence.kl(model, best, name) if best != name else None
        if kl:
            found[name] = (best, kl)
    return found


def lines_of_model(evidence, model, rows, rivals):
    lines = []
    for name in sorted(rows, key=lambda each: (evidence.size(model, each) or 0, each)):
        size, (kl, low, high) = evidence.size(model, name), rows[name]
        best, against = rivals.get(name, ("", None))
        lost = against and against["p"] < SURE
        lines.append([name, f"{size:.1f}" if size is not None else "", with_interval(kl, low, high), best if lost else "",
                      with_interval(against["difference"], against["low"], against["high"]) if lost else "",
                      f"{against['p']:.2g}" if lost else ""])
    return ["", f"## {model}"] + table(["row", "size:", "KL:", "loses to", "by:", "p:"], lines)


def channels(evidence, model, tensor):
    """By layer: the largest channel's mean magnitude over the median channel's"""
    of_layer = {}
    for layer, value in evidence.rows.execute(
            "SELECT p.layer, avg(p.value) FROM probe AS p JOIN cell AS c ON c.key = p.cell_key WHERE c.model = ? AND p.tensor = ?"
            " AND p.measure = 'channel_mean_abs' GROUP BY p.layer, p.step", (model, tensor)):
        of_layer.setdefault(layer, []).append(value)
    return [max(values) / statistics.median(values) for values in of_layer.values()]


def lines_of_channels(evidence, of_model):
    rows = []
    for model in evidence.models:
        k, v = channels(evidence, model, "k"), channels(evidence, model, "v")
        if k:
            across_channels, across_tokens = (
                statistics.median(of_model[model][name][0] for name in names if name in of_model[model])
                for names in (ACROSS_CHANNELS, ACROSS_TOKENS))
            rows.append([model, f"{statistics.median(k):.1f}", f"{max(k):.0f}", f"{max(v):.0f}", f"{across_channels / across_tokens:.1f} times",
                         *(nats(of_model[model][name][0]) if name in of_model[model] else "" for name in ACROSS_CHANNELS + ACROSS_TOKENS)])
    return table(["model", "K, median layer:", "K, largest:", "V, largest:", "KL of the first six over the last three:",
                  *(f"{name}:" for name in ACROSS_CHANNELS + ACROSS_TOKENS)], rows)


def parts(evidence, of_model, *endings):
    """(model, row, the comparison of the row without a part, such as sinks, with the row that has it); row names end in one of these"""
    for model in evidence.models:
        for name in of_model[model]:
            added = ADDED.search(name)
            if added and added[1] in endings and name[:added.start()] in of_model[model]:
                plain = name[:added.start()]
                has, lacks = (plain, name) if added[1].startswith("no ") else (name, plain)
                yield model, plain, evidence.kl(model, has, lacks)


def lines_of_parts(compared, heading):
    rows = [[model, plain, nats(kl["a"]), nats(kl["b"]), with_interval(kl["difference"], kl["low"], kl["high"]),
             f"{100 * kl['difference'] / kl['b']:.0f} %", f"{kl['p']:.2g}"] for model, plain, kl in compared]
    return table(["model", "row", f"with {heading}:", "without:", "without - with:", "of the loss:", "p:"], rows)


PLANNED_AGAINST = "KIVI K 4 V 2"


def lines_of_power(evidence):
    """What the windows can show of well-known rows against one in the middle"""
    rows = []
    for model in evidence.models:
        for row in evidence.told("power", evidence.database, "--baseline", PLANNED_AGAINST, "--model", model, "--kl", "--pooled", "--paired-only",
                                 "--task", TASKS):
            if row["compressor"] in KNOWN and row["detectable [nats]"] is not None:
                its = {key: float(row[key + " [nats]"]) for key in ("KL B", "sd", "detectable")}
                rows.append([model, row["compressor"], str(row["windows"]), nats(its["KL B"]), nats(its["sd"]), nats(its["detectable"]),
                             str(row["windows needed"] or "")])
    return table(["model", "row", "windows:", "KL:", "sd of differences:", "seen with power 0.8:", "windows for the difference seen:"], rows)


def page(evidence):
    evidence.begin_page()
    of_model = {model: evidence.all_rows(model) for model in evidence.models}
    plain = {model: {name: kl for name, kl in rows.items() if not ADDED.search(name)} for model, rows in of_model.items()}
    rivals = {model: better_at_no_more_bytes(evidence, model, plain[model]) for model in evidence.models}
    sinks, tails = list(parts(evidence, of_model, "sinks", "no sinks")), list(parts(evidence, of_model, "tail", "no tail"))
    n_comparisons = adjust([kl for of in rivals.values() for _, kl in of.values()] + [kl for *_, kl in sinks + tails])
    with open(os.path.join(HERE, "kl_head.md")) as file:
        text = file.read().format(
            models=", ".join(evidence.models), n_comparisons=n_comparisons, correlations="\n".join(correlations(evidence, plain)).strip(),
            channels="\n".join(lines_of_channels(evidence, plain)).strip(),
            sinks="\n".join(lines_of_parts(sinks, "sinks")).strip(),
            tails="\n".join(lines_of_parts(tails, "a tail")).strip(),
            power="\n".join(lines_of_power(evidence)).strip())
    return text + "\n".join(line for model in evidence.models for line in lines_of_model(evidence, model, plain[model], rivals[model])) + "\n"


def draw(evidence, folder, images):
    """docs/images/kl_models.svg: well-known methods on every model; pareto_kl.svg: on one"""
    for name, models in (("kl_models", evidence.models), ("pareto_kl", [SHOWN_ALONE])):
        database = os.path.join(folder, name + ".sqlite")
        with sqlite3.connect(database) as copy:
            evidence.rows.backup(copy)
            marks = ", ".join("?" * len(KNOWN + [FULL]))
            copy.execute(f"DELETE FROM experiment_cell WHERE label NOT IN ({marks})", KNOWN + [FULL])
            marks = ", ".join("?" * len(models))
            copy.execute(f"DELETE FROM experiment_cell WHERE cell_key IN (SELECT key FROM cell WHERE model NOT IN ({marks}) OR kind <> 'eval'"
                         " OR task NOT LIKE 'likelihood/sources/%')", models)
            copy.execute("DELETE FROM cell WHERE key NOT IN (SELECT cell_key FROM experiment_cell)")  # colours are by what is there
        subprocess.run([evidence.program, "figure", "pareto_kl_pooled", "--db", database, "-o", os.path.join(folder, name + ".svg"),
                        "--width", "1200" if len(models) > 1 else "760"], check=True, stdout=subprocess.DEVNULL)
        os.replace(os.path.join(folder, name + ".svg"), os.path.join(images, name + ".svg"))
