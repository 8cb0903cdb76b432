"""The text metrics as their public rules have them, over the public packages: jieba, rouge, difflib, Levenshtein.

Each is a function of (answer, gold, classes). Importing this module exits with 77 where a package is absent.
"""
import difflib
import logging
import re
import string
import sys
from collections import Counter

try:
    import jieba
    from Levenshtein import ratio as indel
    from rouge import Rouge
except ImportError as error:
    print(f"SKIP: {error}")
    sys.exit(77)

jieba.setLogLevel(logging.ERROR)

ASCII_MARKS = set(string.punctuation)
ALL_MARKS = ASCII_MARKS | set(
    "！？｡。＂＃＄％＆＇（）＊＋，－／：；＜＝＞＠［＼］＾＿｀｛｜｝～｟｠｢｣､、〃》「」『』【】〔〕〖〗〘〙〚〛〜〝〞〟〰〾〿–—‘’‛“”„‟…‧﹏"
)


def bag_f1(answer, gold):
    n_same = sum((Counter(answer) & Counter(gold)).values())
    if n_same == 0:
        return 0.0
    precision, recall = n_same / len(answer), n_same / len(gold)
    return 2 * precision * recall / (precision + recall)


def english_words(text):
    kept = "".join(c for c in text.lower() if c not in ASCII_MARKS)
    return re.sub(r"\b(a|an|the)\b", " ", kept).split()


def chinese_words(text):
    normal = ("".join(c for c in word.lower() if c not in ALL_MARKS) for word in jieba.cut(text))
    return [word for word in ("".join(word.split()) for word in normal) if word]


def f1(answer, gold, classes):
    return bag_f1(english_words(answer), english_words(gold))


def f1_zh(answer, gold, classes):
    return bag_f1(chinese_words(answer), chinese_words(gold))


def frames_above():
    frame, n = sys._getframe(1), 0
    while frame:
        frame, n = frame.f_back, n + 1
    return n


def rouge_f(answer, gold):
    try:
        return Rouge().get_scores([answer], [gold], avg=True)["rouge-l"]["f"]
    except (ValueError, RecursionError):
        return 0.0


def rouge_l(answer, gold, classes, callers=2):
    """As if called by a script's scorer: `callers` frames above this one, of Python's 1,000."""
    sys.setrecursionlimit(1000 + frames_above() - callers)
    return rouge_f(answer, gold)


def rouge_l_zh(answer, gold, classes):
    return rouge_l(" ".join(jieba.cut(answer)), " ".join(jieba.cut(gold)), classes, callers=3)


def percent(ratio, answer, gold):
    if answer == gold:
        return 1.0
    return round(100 * ratio(answer, gold)) / 100 if answer and gold else 0.0


def edit_similarity(answer, gold, classes):
    return percent(lambda a, b: difflib.SequenceMatcher(None, a, b).ratio(), answer, gold)


def edit_similarity_levenshtein(answer, gold, classes):
    return percent(indel, answer, gold)


def number_precision(answer, gold, classes):
    numbers = re.findall(r"\d+", answer)
    return sum(number == gold for number in numbers) / len(numbers) if numbers else 0.0


def classification(answer, gold, classes):
    named = [name for name in classes if name in answer]
    for name in named:
        if name in gold and name != gold:
            named.remove(name)
    return 1.0 / len(named) if gold in named else 0.0


def first_line(text):
    return text.lstrip("\n").split("\n")[0]


def code_line(text):
    lines = text.lstrip("\n").split("\n")
    return next((line for line in lines if not any(mark in line for mark in ("`", "#", "//"))), "")


# What LongBench computes of each of its sets: the part of the text, of the gold, and the metric.
def same(text):
    return text


def number_of(word):
    return lambda gold: re.findall(word + r"(\d+)", gold)[0]


LONGBENCH = {
    **{name: (same, same, f1) for name in "narrativeqa qasper multifieldqa_en hotpotqa 2wikimqa musique".split()},
    "multifieldqa_zh": (same, same, f1_zh),
    **{name: (same, same, rouge_l) for name in "gov_report qmsum multi_news".split()},
    **{name: (same, same, rouge_l_zh) for name in "dureader vcsum".split()},
    "trec": (first_line, same, classification),
    "lsht": (first_line, same, classification),
    "triviaqa": (first_line, same, f1),
    "samsum": (first_line, same, rouge_l),
    "passage_count": (same, same, number_precision),
    "passage_retrieval_en": (same, number_of("Paragraph "), number_precision),
    "passage_retrieval_zh": (same, number_of("段落"), number_precision),
    "lcc": (code_line, same, edit_similarity),
    "repobench-p": (code_line, same, edit_similarity),
}


def longbench_score(name, line, classes):
    part, gold_part, metric = LONGBENCH[name]
    return max([0.0] + [metric(part(line["pred"]), gold_part(gold), classes) for gold in line["answers"]])
