"""The extraction rules of the public scripts, over Python's str and re; each gives the answer, or None for none."""
import re

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def lm_eval_number(text):
    """exact_match's preparation: regexes_to_ignore, then ignore_case."""
    for pattern in (",", r"\$", r"(?s).*#### ", r"\.$"):
        text = re.sub(pattern, "", text)
    return text.lower()


def lm_eval_regex(text, pattern, group_select=0):
    found = re.findall(pattern, text)
    if not found:
        return None
    match = found[group_select]
    if isinstance(match, tuple):
        match = [m for m in match if m][0]
    return match.strip()


def gsm8k_gear(text):
    numbers = re.findall(r"\d*\.?\d+", text.split("\nQuestion: ")[0].replace(",", ""))
    return numbers[-1] if numbers else None


def gsm8k_flexible(text):
    answer = lm_eval_regex(text.split("\nQuestion: ")[0], r"(-?[$0-9.,]{2,})|(-?[0-9]+)", -1)
    return None if answer is None else lm_eval_number(answer)


def gsm8k_strict(text):
    answer = lm_eval_regex(text.split("\nQuestion: ")[0], r"The answer is (\-?[0-9\.\,]+).")
    return None if answer is None else lm_eval_number(answer)


def bbh_norm(text):
    return text.split("answer is ")[-1].strip().rstrip(".").strip() if "answer is " in text else None


def bbh_gear(text, is_choice):
    if not text.startswith("\n\nQ: ") and "\n\nQ: " in text:
        text = text.split("\n\nQ: ")[0]
    parts = text.split("answer is ")
    if len(parts) == 1:
        return text
    answer = parts[-1].strip()
    if not is_choice:
        return answer[:-1] if answer.endswith(".") else answer
    if len(answer) > 3 and answer[0] == "(" and answer[2] == ")":
        return answer[1]
    return next((letter for letter in LETTERS if f"({letter})" in answer), answer)


def bbh_lm_eval(text):
    for stop in ("</s>", "Q", "\n\n"):
        text = text.split(stop)[0]
    return lm_eval_regex(text, r"(?<=the answer is )(.*)(?=.)")


def aqua_gear(text):
    if "answer is" in text:
        text = text.split("answer is")[1]
    return text.split("\nQuestion:")[0].strip()


def aqua_letter(text):
    text = text.split("\nQuestion:")[0]
    if "answer is" not in text:
        return None
    match = re.match(r"\(?([A-E])(?:[).]|[ \t\r]*$)", text.split("answer is")[-1].strip(), re.M)
    return match and match.group(1)


# task, extractor, rule
RULES = [
    ("gsm8k/cot8", "gear", gsm8k_gear),
    ("gsm8k/cot8", "flexible", gsm8k_flexible),
    ("gsm8k/cot8", "strict", gsm8k_strict),
    ("bbh/snarks", "norm", bbh_norm),
    ("bbh/snarks", "gear", lambda text: bbh_gear(text, True)),
    ("bbh/snarks", "lm_eval", bbh_lm_eval),
    ("bbh/navigate", "norm", bbh_norm),
    ("bbh/navigate", "gear", lambda text: bbh_gear(text, False)),
    ("aqua/cot8", "gear", aqua_gear),
    ("aqua/cot8", "letter", aqua_letter),
]

PIECES = [
    *"The answer is |the answer is |So the answer is |answer is|(A)|(B).|(Z)|(é) x|(C) because|B|B.|E).|D)\n|A) B) C) D)|x|I do not know".split("|"),
    *"18|-3|$1,450,000|3.5|.5|1.2.3|5%|٣٤|１２|½|²|1_000|7.|8..|,|.|...|-|$".split("|"),
    *"Yes|yes.|True|valid|] ) >|Q|</s>| - |;|é|😀|\u3000|\u00a0|\u1680|\u2028|\x1c|\r".split("|"),
    "\n",
    "\n\n",
    "\n\nQ: ",
    "\nQuestion: ",
    "\nQuestion:",
    " ",
    " ",
    " ",
    ". ",
    "####",
    "#### 5",
]


def texts(rng, n):
    for _ in range(n):
        yield "".join(rng.choice(PIECES) for _ in range(rng.randrange(12)))
