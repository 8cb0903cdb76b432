"""Text metrics against the public packages, extractors against the public scripts' rules in Python: words of every Chinese
string, scores of real and of hostile pairs, answers in real and made-up texts.

usage: text_scores_parity.py PROGRAM [N_PAIRS]   Real strings come from $KVC_DATA; without it only hostile ones are compared.
"""
import glob
import json
import os
import random
import subprocess
import sys

import extractor_rules
import official_rules as rules
from official_rules import jieba

METRICS = "f1 f1_zh rouge_l rouge_l_zh edit_similarity edit_similarity_levenshtein number_precision classification".split()


def ask(program, requests):
    text = "".join(json.dumps(request) + "\n" for request in requests)
    result = subprocess.run([program], input=text.encode(), stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in result.stdout.splitlines()]


def is_chinese(text):
    return any("\u4e00" <= c <= "\u9fff" for c in text)


def strings_of(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from strings_of(item)


def data_lines(folder):
    for path in sorted(glob.glob(os.path.join(os.environ.get("KVC_DATA", ""), folder, "**", "*.jsonl"), recursive=True)):
        with open(path, encoding="utf-8") as file:
            for line in file:
                yield path, json.loads(line)


def chinese_strings():
    seen = set()
    for folder in ("longbench_data", "longbench_mini", "longbench_preds"):
        for _, line in data_lines(folder):
            seen.update(text for text in strings_of(line) if is_chinese(text))
    return sorted(seen)


ALPHABETS = [
    "的一是不了人我在有他这中大来上个国和也子时道说出下过得可要会然年没看能发后作里",
    "abc ABC.,'\"-_+#&%0123456789 \r\n\t",
    "𠀀龦䶵㐀々〇□①②ⅣⅧ½٣४๙０１２ａＡ\u200b\u00a0\u3000\u2028\x1c\x85ßİſΣσς’“”—…《》。，！？",
    "😀👩‍👩‍👧🇨🇳é́ñ\ufeff\u202e",
    "the a an The . . .. ",
    "Paragraph 12 段落7 3.14% 1,000 -5 ２０",
]


def hostile_text(rng):
    kind = rng.randrange(10)
    if kind == 0:
        return rng.choice(["", ".", "...", " ", "\r\n", ". . .", "\n\n", "。", "the", "\x1f", "\u3000"])
    letters = "".join(rng.sample(ALPHABETS, rng.choice([1, 1, 2, 3])))
    size = rng.choice([1, 3, 10, 40, 150, 250]) if kind < 9 else 600
    return "".join(rng.choice(letters) for _ in range(rng.randrange(size + 1)))


def long_pairs(rng):
    words = ["w%d" % i for i in range(300)]
    for n, glue in ((10000, ". "), (10000, " "), (995, " "), (980, " "), (985, " "), (987, " "), (989, " "), (1200, " ")):
        text = "".join(rng.choice(words) + (glue if rng.random() < 0.1 else " ") for _ in range(n))
        yield text, " ".join(rng.choice(words) for _ in range(12))
    for n in range(984, 993):
        yield "a " + "x " * n, "a b"


def hostile_pairs(rng, n):
    pairs = list(long_pairs(rng))
    while len(pairs) < n:
        answer = hostile_text(rng)
        gold = hostile_text(rng)
        if rng.random() < 0.5:  # an edited copy: pairs that have something in common
            cut = rng.randrange(len(answer) + 1)
            gold = answer[cut:] + gold[: rng.randrange(20)] if rng.random() < 0.5 else answer[:cut] + answer[cut + 1 :]
        pairs.append((answer, gold))
    return pairs


def real_pairs(rng, n):
    pairs = [(line["pred"], gold) for _, line in data_lines("longbench_preds") if "pred" in line for gold in line["answers"]]
    return rng.sample(pairs, min(n, len(pairs)))


def compare_words(program, name, texts):
    for text, got in zip(texts, ask(program, [{"cut": text} for text in texts]), strict=True):
        expected = list(jieba.cut(text))
        assert got == expected, f"{name}: {text[:80]!r}: {got[:40]} instead of {expected[:40]}"
    print(f"{name}: {len(texts)} strings, {sum(map(len, texts))} characters: the same words")


def metrics_for(answer):
    """Of 10,000 words only what Python finishes: its tables of a single long sentence take minutes."""
    return METRICS if len(answer) < 5000 else [m for m in METRICS if not m.startswith("edit_similarity") and not m.endswith("zh")]


def compare_scores(program, name, pairs):
    classes = ["a", "an", "the", "的", "ab", "b", "Paragraph", "Par", "1", "12"]
    requests = [
        {"scorer": metric, "answer": answer, "gold": gold, "classes": classes}
        for answer, gold in pairs
        for metric in metrics_for(answer)
    ]
    n_nonzero = 0
    for request, got in zip(requests, ask(program, requests), strict=True):
        expected = getattr(rules, request["scorer"])(request["answer"], request["gold"], classes)
        n_nonzero += expected > 0
        assert abs(got - expected) <= 1e-12, f"{name}: {got} instead of {expected} for {json.dumps(request)[:400]}"
    print(f"{name}: {len(pairs)} pairs, {len(requests)} scores, {n_nonzero} above 0: the same")


def compare_answers(program, name, texts):
    tasks = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "tasks")
    for task, extractor, rule in extractor_rules.RULES:
        request = {"task": os.path.join(tasks, task + ".yaml"), "extractor": extractor, "texts": texts}
        (answers,) = ask(program, [request])
        for text, got in zip(texts, answers, strict=True):
            assert got == rule(text), f"{name}, {task}, {extractor}: {got!r} instead of {rule(text)!r} for {text!r}"
        n_found = sum(answer is not None for answer in answers)
        print(f"{name}: {task}, {extractor}: {len(texts)} texts, {n_found} answers: the same")


def worked_answers():
    lines = [line for folder in ("gsm8k", "aqua") for _, line in data_lines(folder)]
    return [text for line in lines[:3000] for text in (line.get("question"), line.get("answer")) if text]


def main():
    more = bool(os.environ.get("KVC_TEST_MORE"))
    program, n = sys.argv[1], int(next((a for a in sys.argv[2:] if a.isdigit()), 5000 if more else 1000))
    rng = random.Random(6)
    compare_scores(program, "hostile", hostile_pairs(rng, n))
    compare_words(program, "hostile", [hostile_text(rng) for _ in range(4 * n)])
    compare_answers(program, "made-up", list(extractor_rules.texts(rng, 4 * n)))
    if not os.environ.get("KVC_DATA"):
        print("KVC_DATA is not set: no real strings")
        return
    compare_scores(program, "real", real_pairs(rng, n))
    step = 1 if more else 5
    compare_words(program, "real", chinese_strings()[::step])
    compare_answers(program, "real", worked_answers()[::step])


main()
