#!/usr/bin/env python3
"""Question generator for the demo model: four small few-shot chain-of-thought families.

  arithmetic  word problems of two to four steps with small numbers
  swaps       three people swap objects; the reasoning restates who has what after each swap
  truth       a chain of truth-tellers and liars
  lookup      a code word is looked up in a long list

Run as a script, it writes the held-out questions (tasks/demo/data/*.jsonl) and the fixed
few-shot prompts (prompts/demo/*.txt). train.py imports it for the training stream, which
draws from other seeds and rejects every held-out and every exemplar question.
"""
import json
import random
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TASKS = ROOT / "tasks" / "demo" / "data"
PROMPTS = ROOT / "prompts" / "demo"
HELD_OUT = 250
SEED_HELD_OUT, SEED_EXEMPLARS = 20001, 20002

NAMES = ("Ana Ben Cara Dan Eva Finn Gus Hana Ida Jon Kim Leo Mia Noa Omar Pia "
         "Ravi Sam Tess Uma Vic Wes Yan Zoe").split()
GOODS = ("cups hats pens keys jars maps bags caps rugs fans nuts figs pots mugs tins nets "
         "pins bows logs eggs toys beds cars bells").split()
CODES = ("amber azure coral ivory olive pearl ruby rose teal violet silver golden bronze copper "
         "cherry lemon maple cedar velvet marble crystal cotton linen walnut").split()
THINGS = "ball kite drum lamp book coin ring vase rope flag doll clock".split()


def arithmetic(rng, size=None):
    who, other = rng.sample(NAMES, 2)
    goods = rng.choice(GOODS)
    now = rng.randint(2, 20)
    question, steps = [], []
    if rng.random() < 0.3:
        base, times = rng.randint(2, 5), rng.randint(2, 4)
        question += [f"{other} has {base} {goods}.",
                     f"{who} has {times} times as many {goods} as {other}."]
        now = base * times
        steps.append(f"{times} x {base} = {now}.")
    else:
        question.append(f"{who} has {now} {goods}.")
    for _ in range(2 if steps else rng.randint(2, 3)):
        kind = rng.choice(("buy", "give", "boxes") if now > 2 else ("buy", "boxes"))
        if kind == "buy":
            n = rng.randint(2, 9)
            question.append(f"Then {who} buys {n} more.")
            steps.append(f"{now} + {n} = {now + n}.")
            now += n
        elif kind == "give":
            n = rng.randint(1, min(now - 1, 9))
            question.append(f"Then {who} gives away {n}.")
            steps.append(f"{now} - {n} = {now - n}.")
            now -= n
        else:
            n, each = rng.randint(2, 4), rng.randint(2, 5)
            question.append(f"Then {who} buys {n} boxes of {each} {goods}.")
            steps.append(f"{n} x {each} = {n * each}.")
            steps.append(f"{now} + {n * each} = {now + n * each}.")
            now += n * each
    question.append(f"How many {goods} does {who} have now?")
    return " ".join(question), " ".join(steps), str(now)


def swaps(rng, size=None):
    people, things = rng.sample(NAMES, 3), rng.sample(THINGS, 3)
    has = dict(zip(people, things))
    question = [", ".join(f"{p} has the {has[p]}" for p in people) + "."]
    steps = ["Start: " + ", ".join(f"{p} {has[p]}" for p in people) + "."]
    c = None
    for n in range(1, (size or rng.randint(2, 4)) + 1):
        last = c
        while c == last:  # never the same two twice in a row
            a, b, c = rng.sample(people, 3)
        question.append(f"Swap {n}: {a} and {b}.")
        steps.append(f"Swap {n}: {a} {has[a]}, {b} {has[b]}.")
        has[a], has[b] = has[b], has[a]
        steps.append(f"Now {a} {has[a]}, {b} {has[b]}, {c} {has[c]}.")
    asked = rng.choice(people)
    question.append(f"What does {asked} have?")
    steps.append(f"{asked} has the {has[asked]}.")
    return " ".join(question), " ".join(steps), has[asked]


def truth(rng, size=None):
    people = rng.sample(NAMES, rng.randint(3, 5))
    words = {True: "tells the truth", False: "lies"}
    honest = rng.random() < 0.5
    question = [f"{people[0]} {words[honest]}."]
    steps = [f"{people[0]} {words[honest]}."]
    for before, who in zip(people, people[1:]):
        claim = rng.random() < 0.5
        true = claim == honest
        question.append(f"{who} says {before} {words[claim]}.")
        steps.append(f"{who} says {before} {words[claim]}, which is {'true' if true else 'false'}, "
                     f"so {who} {words[true]}.")
        honest = true
    question.append(f"Does {people[-1]} tell the truth?")
    return " ".join(question), " ".join(steps), "yes" if honest else "no"


def code_list(rng, length):
    drawn = zip(*(rng.sample(words, length) for words in (NAMES, GOODS, CODES)))
    return [(f"{name} {goods}", code) for name, goods, code in drawn]


def lookup(rng, size=None):
    codes = code_list(rng, size or rng.randint(8, 16))
    key, code = rng.choice(codes)
    listed = ", ".join(f"{k} {c}" for k, c in codes)
    return f"The code words are {listed}. What is the code word of {key}?", f"{key} {code}.", code


FAMILIES = {"arithmetic": arithmetic, "swaps": swaps, "truth": truth, "lookup": lookup}


def answer_text(steps, gold):
    return f"{steps} The answer is {gold}."


# ---- training documents: lists of (text before the answer, answer text) ------------------------

def several_lookups(rng, held_out, longest):
    """One list of codes and several questions on it (training only)."""
    codes = code_list(rng, rng.randint(2, longest))
    listed = ", ".join(f"{k} {c}" for k, c in codes)
    for n, (key, code) in enumerate(rng.sample(codes, min(len(codes), rng.randint(3, 6)))):
        asked = f"The code words are {listed}. What is" if n == 0 else "In the same list, what is"
        question = f"{asked} the code word of {key}?"
        if question not in held_out:
            yield f"Q: {question}\nA:", f" {answer_text(f'{key} {code}.', code)}\n\n"


def copies(rng, longest):
    """Repeat a list word by word (training only; it teaches copying early)."""
    listed = ", ".join(f"{k} {c}" for k, c in code_list(rng, rng.randint(2, longest)))
    yield f"Q: Repeat {listed}.\nA:", f" {listed}.\n\n"


def shuffles(rng, longest):
    """Repeat a list in another order (training only; every entry is a look-up)."""
    codes = [f"{k} {c}" for k, c in code_list(rng, rng.randint(2, longest))]
    other = rng.sample(codes, len(codes))
    yield f"Q: Repeat in any order {', '.join(codes)}.\nA:", f" {', '.join(other)}.\n\n"


def exemplars(rng, family, held_out, longest=20):
    """An endless stream of one family's exemplars; held-out questions are rejected."""
    several = family == "lookup" and rng.random() < 0.6
    while True:
        if family == "copies":
            yield from copies(rng, longest)
        elif family == "shuffles":
            yield from shuffles(rng, longest)
        elif several:
            yield from several_lookups(rng, held_out, longest)
        else:
            size = rng.randint(2, longest) if family == "lookup" else None
            question, steps, gold = FAMILIES[family](rng, size)
            if question not in held_out:
                yield f"Q: {question}\nA:", f" {answer_text(steps, gold)}\n\n"


# ---- the files ---------------------------------------------------------------------------------

def fixed_shots(rng, family):
    """Three exemplars (two for lookup), of set sizes so that the prompts' lengths are known."""
    sizes = {"lookup": (16, 16), "swaps": (2, 3, 2)}.get(family, (None,) * 3)
    return [FAMILIES[family](rng, size) for size in sizes]


def long_prompt(held_out, n_exemplars=18):
    """So many exemplars of a look-up that the prompt is longer than any training row."""
    rng = random.Random(f"{SEED_EXEMPLARS}/lookup_long")
    made, prompt = 0, ""
    while made < n_exemplars:
        question, steps, gold = FAMILIES["lookup"](rng, 16)
        if question in held_out:
            continue
        prompt += f"Q: {question}\nA: {answer_text(steps, gold)}\n\n"
        made += 1
    return prompt


def held_out_questions(rng, family, taken):
    rows, seen = [], set(taken)
    while len(rows) < HELD_OUT:
        question, steps, gold = FAMILIES[family](rng)
        if question in seen:
            continue
        if family == "truth" and gold != ("yes", "no")[len(rows) % 2]:
            continue  # as many yes as no
        seen.add(question)
        rows.append({"id": len(rows), "question": question,
                     "answer": answer_text(steps, gold), "gold": gold})
    return rows


def make_held_out():
    """family -> (prompt text, exemplar questions, rows); the same on every call."""
    made = {}
    for family in FAMILIES:
        shots = fixed_shots(random.Random(f"{SEED_EXEMPLARS}/{family}"), family)
        prompt = "".join(f"Q: {q}\nA: {answer_text(s, g)}\n\n" for q, s, g in shots)
        asked = [q for q, _, _ in shots]
        rows = held_out_questions(random.Random(f"{SEED_HELD_OUT}/{family}"), family, asked)
        made[family] = (prompt, asked, rows)
    return made


def reserved_questions():
    """Every question that training must not see."""
    return {q for _, asked, rows in make_held_out().values()
            for q in asked + [row["question"] for row in rows]}


def main():
    TASKS.mkdir(parents=True, exist_ok=True)
    PROMPTS.mkdir(parents=True, exist_ok=True)
    (PROMPTS / "lookup_long.txt").write_text(long_prompt(reserved_questions()))
    for family, (prompt, _, rows) in make_held_out().items():
        (PROMPTS / f"{family}.txt").write_text(prompt)
        with open(TASKS / f"{family}.jsonl", "w") as out:
            out.writelines(json.dumps(row) + "\n" for row in rows)
        print(f"{family}: {len(rows)} questions, e.g. {rows[0]['question']} -> {rows[0]['answer']}")


if __name__ == "__main__":
    main()
