"""The tokenizer against the `tokenizers` package: the same ids and texts.

usage: tokenizer_parity.py PROGRAM [MODEL_DIR ...]: strings for each model and for each of many small tokenizers.
       tokenizer_parity.py PROGRAM --real: strings for each of the real tokenizers in $KVC_DATA/tokenizers.
Exit code 77 where the package or the tokenizers are absent.
"""
import glob
import json
import os
import random
import sys
import tempfile

try:
    from tokenizers import Tokenizer
except ImportError as error:
    print(f"SKIP: {error}")
    sys.exit(77)

from tokenizer_strings import N_STRINGS, long_words, random_ids, real_strings, report, run_program, strings
from tokenizer_variants import variants


def read(folder):
    path = os.path.join(folder, "tokenizer.json")
    tokenizer = Tokenizer.from_file(path)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer, [t["content"] for t in json.load(open(path))["added_tokens"]] or ["<s>"]


def expected(tokenizer, one):
    ids = tokenizer.encode(one).ids if isinstance(one, str) else one["ids"]
    return {"ids": ids, "text": tokenizer.decode(ids, skip_special_tokens=True), "all": tokenizer.decode(ids, skip_special_tokens=False)}


def compare(program, folder, n_strings, real=False):
    tokenizer, specials = read(folder)
    rng = random.Random(7)
    texts = (list(long_words(rng)) + real_strings(rng, n_strings * 3 // 5)) if real else []
    source = strings(rng, specials[:40])
    texts += [next(source) for _ in range(n_strings - len(texts))]
    inputs = texts + [{"ids": ids} for ids in random_ids(random.Random(8), tokenizer.get_vocab_size() + 3, 1000)]
    return report(os.path.basename(folder), inputs, run_program(program, folder, inputs), [expected(tokenizer, one) for one in inputs])


def main():
    program, arguments = sys.argv[1], sys.argv[2:]
    if "--real" in arguments:
        folders = [os.path.dirname(p) for p in sorted(glob.glob(os.path.join(os.environ.get("KVC_DATA", ""), "tokenizers", "*", "tokenizer.json")))]
        if not folders:
            print("SKIP: no KVC_DATA/tokenizers/*/tokenizer.json")
            sys.exit(77)
        results = [compare(program, d, 2 * N_STRINGS, real=True) for d in folders]
        sys.exit(0 if all(results) else 1)
    results = [compare(program, d, N_STRINGS) for d in arguments]
    with tempfile.TemporaryDirectory() as root:
        for name, tokenizer in variants():
            folder = os.path.join(root, name)
            os.mkdir(folder)
            tokenizer.save(os.path.join(folder, "tokenizer.json"))
            results.append(compare(program, folder, N_STRINGS))
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
