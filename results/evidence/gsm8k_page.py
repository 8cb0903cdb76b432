"""results/evidence/gsm8k.md: right answers of every row, paired with full precision, next to the papers'."""
import os

import yaml

from evidence import FULL, GSM8K, QUESTIONS, SURE, adjust, points, table

HERE = os.path.dirname(os.path.abspath(__file__))
# Rows of GEAR's Table 1 with these settings.
PRINTED = {"full precision": "FP16", "KIVI 4 bits": "KIVI 4 bits, g 64, n_b 64", "KIVI 2 bits": "KIVI 2 bits, g 64, n_b 64",
           "GEAR 2 bits": "GEAR 2 bits (KIVI, g 64)", "FlexGen 4 bits": "per-token 4 bits, g 64"}
PAIRS = [("GEAR 2 bits", "KIVI 2 bits"), ("GEAR 2 bits", "KIVI K 4 V 2"), ("GEAR-X 2 bits", "KIVI 2 bits"), ("GEAR-X 2 bits", "GEAR 2 bits"),
         ("GEAR 4 bits", "KIVI 4 bits"), ("TaDA 4 bits", "KIVI 4 bits"), ("DecoQuant 4 bits", "FlexGen 4 bits"), ("QJL", "KIVI 4 bits"),
         ("llama.cpp q4_0", "KIVI 4 bits"), ("KVarN 2 bits", "KIVI 2 bits"), ("KVarN 2 bits", "KIVI K 4 V 2")]


def printed():
    """{row: GEAR's KV size and accuracy for GSM8K, in %}"""
    with open(os.path.join(os.path.dirname(HERE), "external", "gear_table1.yaml")) as text:
        source = yaml.safe_load(text)
    places = [list(source["columns"]).index(column) for column in ("average KV size [%]", "llama3-8b/gsm8k")]
    return {row: [source["rows"][name][place] for place in places] for row, name in PRINTED.items()}


def lines_of_model(evidence, model):
    of_paper, rows = printed(), []
    for row in evidence.answer_rows(model):
        loss = evidence.answers(model, FULL, row["label"])
        rows.append([row["label"], str(row["n"]), f"{row['size']:.1f}", f"{row['right']:.1f} [{row['low']:.1f}, {row['high']:.1f}]",
                     points(loss["difference"], loss["low"], loss["high"]) if loss else "", f"{loss['p']:.2g}" if loss else "",
                     f"{loss['changed']}" if loss else "", *of_paper.get(row["label"], ["", ""])])
    return ["", f"## {model}"] + table(
        ["row", "questions:", "KV size [%]:", "right [%]:", "less full precision [points]:", "p:", "answers that change:", "paper, KV size [%]:",
         "paper, Llama-3-8B [%]:"], rows)


def lines_of_pairs(evidence):
    rows = []
    for model in evidence.answering[GSM8K]:
        for a, b in PAIRS:
            found = evidence.answers(model, a, b)
            if found:
                said = "no difference seen" if found["p"] >= SURE else f"{a if found['difference'] < 0 else b} has more"
                rows.append([model, a, f"{found['a']:.1f}", b, f"{found['b']:.1f}", points(found["difference"], found["low"], found["high"]),
                             f"{found['p']:.2g}", said])
    return table(["model", "A", "right [%]:", "B", "right [%]:", "B - A [points]:", "p:", ""], rows)


def lines_of_power(evidence):
    """What the questions can show of each row against full precision"""
    rows, (task, rule) = [], QUESTIONS[GSM8K]
    for model in evidence.answering[GSM8K]:
        for row in evidence.told("power", evidence.database, "--baseline", FULL, "--model", model, "--task", task, "--extractor", rule,
                                 "--paired-only", "--difference", "5"):
            detectable = row["detectable [points]"]
            rows.append([model, row["compressor"], str(row["n"]), f"{row['discordant [%]']:.1f}", f"{detectable:.1f}" if detectable else "",
                         str(row["n needed"])])
    return table(["model", "row", "questions:", "answers that change [%]:", "seen with power 0.8 [points]:", "questions for 5 points:"], rows)


def page(evidence):
    evidence.begin_page()
    compared = [evidence.answers(model, FULL, row["label"]) for model in evidence.answering[GSM8K] for row in evidence.answer_rows(model)]
    compared += [evidence.answers(model, a, b) for model in evidence.answering[GSM8K] for a, b in PAIRS]
    n_comparisons = adjust([each for each in compared if each])
    with open(os.path.join(HERE, "gsm8k_head.md")) as file:
        text = file.read().format(n_comparisons=n_comparisons, pairs="\n".join(lines_of_pairs(evidence)).strip(),
                                  power="\n".join(lines_of_power(evidence)).strip())
    return text + "\n".join(line for model in evidence.answering[GSM8K] for line in lines_of_model(evidence, model)) + "\n"
