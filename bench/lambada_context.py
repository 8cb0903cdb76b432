#!/usr/bin/env python3
"""LAMBADA's passages after other passages of it, so that a cache has something to lose: a JSON line {"text": ...} for each.

usage: lambada_context.py lambada_test.jsonl N_TEXTS N_WORDS > FILE

Passages are taken at even distances; each follows as many of those before it in the file as have N_WORDS words or more
together, separated by blank lines. A task of them is `like: lambada/openai` with `data: {file: FILE, root: task}`.
"""
import json
import sys


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        passages = [json.loads(line)["text"] for line in file]
    n_texts, n_words = int(sys.argv[2]), int(sys.argv[3])
    for i in range(n_texts):
        at = i * len(passages) // n_texts
        context, before = [], at
        while sum(len(text.split()) for text in context) < n_words:
            before -= 1  # from the file's end where its beginning is reached
            context.insert(0, passages[before])
        print(json.dumps({"text": "\n\n".join([*context, passages[at]])}, ensure_ascii=False))


main()
