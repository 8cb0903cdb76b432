"""Tokenizers that are no tokenizer.json, against the packages that define them: the same ids and texts.

usage: tokenizer_files_parity.py PROGRAM [...]
vocab.json with merges.txt against transformers' GPT2Tokenizer, trained on the spot, as GPT-2 and as OPT have it;
tokenizer.model against sentencepiece: Llama 2's from $KVC_DATA/tokenizers, and small ones trained on the spot.
Exit code 77 where a package is absent.
"""
import json
import math
import os
import random
import shutil
import sys
import tempfile

try:
    import sentencepiece
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import GPT2Tokenizer
except ImportError as error:
    print(f"SKIP: {error}")
    sys.exit(77)

from tokenizer_strings import ALPHABETS, N_STRINGS, WORDS, long_words, random_ids, real_strings, report, run_program, strings


def texts_for(rng, specials):
    texts = list(long_words(rng)) + real_strings(rng, N_STRINGS // 2)
    source = strings(rng, specials)
    return texts + [next(source) for _ in range(N_STRINGS - len(texts))]


def training_text(rng):
    lines = [" ".join(rng.choice(WORDS) for _ in range(12)) + rng.choice([".", "?", "!"]) for _ in range(2000)]
    lines += ["".join(rng.choice(rng.choice(ALPHABETS[:3] + ALPHABETS[5:9])) for _ in range(20)) for _ in range(500)]
    return [line for line in lines + real_strings(rng, 4000) if line.strip() and "\0" not in line]


def bpe_files(folder, training, special):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.train_from_iterator(training, trainers.BpeTrainer(vocab_size=5000, special_tokens=special, show_progress=False,
                                                                initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    os.mkdir(folder)
    tokenizer.model.save(folder)


def write_json(folder, name, value):
    with open(os.path.join(folder, name), "w") as file:
        json.dump(value, file)


def named(text):
    return {"__type": "AddedToken", "content": text, "lstrip": False, "normalized": True, "rstrip": False, "single_word": False}


def gpt2_folders(root, training):
    plain = os.path.join(root, "gpt2")
    bpe_files(plain, training, ["<|endoftext|>"])
    yield plain
    opt = os.path.join(root, "opt")
    bpe_files(opt, training, ["<s>", "<pad>", "</s>", "<unk>"])
    write_json(opt, "tokenizer_config.json", {"errors": "replace", "add_prefix_space": False, "add_bos_token": True,
                                              "unk_token": named("</s>"), "bos_token": named("</s>"), "eos_token": named("</s>"), "pad_token": named("<pad>")})
    write_json(opt, "special_tokens_map.json", {"bos_token": named("</s>"), "eos_token": named("</s>"), "unk_token": named("</s>"), "pad_token": "<pad>"})
    yield opt
    listed = os.path.join(root, "listed")
    bpe_files(listed, training, ["<|endoftext|>"])
    entry = {"lstrip": False, "rstrip": False, "single_word": False, "normalized": False}
    write_json(listed, "tokenizer_config.json", {"add_prefix_space": True, "bos_token": "<|endoftext|>", "eos_token": "<|end|>", "pad_token": "<|pad|>",
                                                 "added_tokens_decoder": {"0": {"content": "<|endoftext|>", "special": True, **entry},
                                                                          "5000": {"content": "<|end|>", "special": True, **entry, "rstrip": True},
                                                                          "5001": {"content": "<|pad|>", "special": True, **entry},
                                                                          "5002": {"content": "plain words", "special": False, **entry}}})
    yield listed


def compare_gpt2(program, folder):
    reference = GPT2Tokenizer.from_pretrained(folder)
    rng = random.Random(5)
    inputs = texts_for(rng, ["<|endoftext|>", "</s>", "<pad>", "<|end|>", "<|pad|>", "plain words"])
    inputs += [{"ids": ids} for ids in random_ids(rng, len(reference) + 3, 1000)]

    def expected(one):
        ids = reference(one)["input_ids"] if isinstance(one, str) else one["ids"]
        text, whole = (reference.decode(ids, skip_special_tokens=skip, clean_up_tokenization_spaces=False) for skip in (True, False))
        return {"ids": ids, "text": text, "all": whole}
    return report("vocab.json, " + os.path.basename(folder), inputs, run_program(program, folder, inputs), [expected(one) for one in inputs])


def piece_models(root, training):
    real = os.path.join(os.environ.get("KVC_DATA", ""), "tokenizers", "llama2", "tokenizer.model")
    if os.path.exists(real):
        yield "llama2", real
    else:
        print("no KVC_DATA/tokenizers/llama2: Llama 2's tokenizer.model is not compared")
    kinds = {"llama_like": dict(model_type="bpe", byte_fallback=True, normalization_rule_name="identity", add_dummy_prefix=True,
                                remove_extra_whitespaces=False, split_digits=True, allow_whitespace_only_pieces=True),
             "bpe": dict(model_type="bpe", normalization_rule_name="nmt_nfkc"),
             "unigram": dict(model_type="unigram", user_defined_symbols=["<sep>", "the the"]),
             "unigram_bytes": dict(model_type="unigram", byte_fallback=True, add_dummy_prefix=False, remove_extra_whitespaces=False),
             "no_bos": dict(model_type="bpe", bos_id=-1, eos_id=1, pad_id=0, unk_id=2)}
    for name, options in kinds.items():
        prefix = os.path.join(root, name)
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(training), model_prefix=prefix, vocab_size=3000, character_coverage=0.98,
                                                 hard_vocab_limit=False, num_threads=1, minloglevel=2, **options)
        yield name, prefix + ".model"


def compare_pieces(program, name, model, folder):
    os.mkdir(folder)
    shutil.copy(model, os.path.join(folder, "tokenizer.model"))
    reference = sentencepiece.SentencePieceProcessor(model_file=model)
    rng = random.Random(6)
    inputs = texts_for(rng, ["<s>", "</s>", "<unk>", "<sep>", "the the"])
    inputs += [{"ids": ids} for ids in random_ids(rng, reference.vocab_size(), 1000)]

    def expected(one):
        start = [reference.bos_id()] if reference.bos_id() >= 0 else []
        ids = start + reference.encode(one) if isinstance(one, str) else one["ids"]
        return {"ids": ids, "text": reference.decode(ids)}
    ours = [{"ids": one["ids"], "text": one["text"]} for one in run_program(program, folder, inputs)]
    theirs = [expected(one) for one in inputs]
    if "unigram" in name:
        settle_ties(reference, ours, theirs)
    return report("tokenizer.model, " + name, inputs, ours, theirs)


def settle_ties(reference, ours, theirs):
    """Unigram takes the path of the highest score; which of two equal ones, releases of sentencepiece decide by rounding (fp32)."""
    ties = 0
    for mine, other in zip(ours, theirs):
        scores = [math.fsum(reference.get_score(id) for id in one["ids"]) for one in (mine, other)]
        if mine["ids"] != other["ids"] and mine["text"] == other["text"] and abs(scores[0] - scores[1]) <= 1e-5 * abs(scores[1]):
            ties += 1
            mine["ids"] = other["ids"]
    print(f"  {ties} texts have two best paths, and get the other one")


def same_as_tokenizer_json(program, folder):
    """Llama 2 has both files. With the special tokens named, they give the same ids, and the same text of whole characters."""
    rng = random.Random(4)
    write_json(folder, "tokenizer_config.json", {"add_bos_token": True, "add_eos_token": False, "added_tokens_decoder": {
        str(i): {"content": text, "special": True, "normalized": False} for i, text in enumerate(["<unk>", "<s>", "</s>"])}})
    other = os.path.join(os.environ["KVC_DATA"], "tokenizers", "llama2")
    inputs = texts_for(rng, ["<s>", "</s>", "<unk>"]) + [{"ids": [i for i in ids if not 3 <= i < 259]} for ids in random_ids(rng, 32000, 1000)]
    return report("Llama 2, tokenizer.model and tokenizer.json", inputs, run_program(program, folder, inputs), run_program(program, other, inputs))


def main():
    program = sys.argv[1]
    training = training_text(random.Random(3))
    results = []
    with tempfile.TemporaryDirectory() as root:
        for folder in gpt2_folders(root, training):
            results.append(compare_gpt2(program, folder))
        for name, model in piece_models(root, training):
            folder = os.path.join(root, name)
            results.append(compare_pieces(program, name, model, folder))
            if name == "llama2":
                results.append(same_as_tokenizer_json(program, folder))
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
