"""Writes small tokenizers and tokenizer_golden.json beside this file: what the packages tokenizers (0.23.3) and, of
pieces/tokenizer.model, sentencepiece (0.2.3) make of some hostile strings. usage: python make_tokenizer_golden.py"""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "model"))

import sentencepiece
from tokenizer_strings import FIXED
from tokenizers import pre_tokenizers
from tokenizer_variants import TEXT, variants

NAMES = ["demo_like", "spm", "added"]
MORE = ["a<mask>b", "x  <end>  y", " [BOTH] z", "whole unwhole whole", "MiXed mixed RAW raw", "the the the", "lö löb", "<mask>"]

golden = {}
for name, tokenizer in variants():
    if name not in NAMES:
        continue
    os.makedirs(os.path.join(HERE, name), exist_ok=True)
    tokenizer.save(os.path.join(HERE, name, "tokenizer.json"), pretty=False)
    golden[name] = {"vocab_size": tokenizer.get_vocab_size(), "strings": []}
    for text in FIXED + MORE:
        ids = tokenizer.encode(text).ids
        golden[name]["strings"].append({"text": text, "ids": ids, "decoded": tokenizer.decode(ids), "all": tokenizer.decode(ids, skip_special_tokens=False)})
os.makedirs(os.path.join(HERE, "gpt2"), exist_ok=True)
byte_level = dict(variants())["template"]
byte_level.model.save(os.path.join(HERE, "gpt2"))
byte_level.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
golden["gpt2"] = {"vocab_size": byte_level.get_vocab_size(), "strings": []}
for text in FIXED + MORE:
    ids = byte_level.encode(text).ids[2:]  # with "<s> <s>" before and "</s>" behind; the folder names "</s>" before
    ids = [1] + ids[:-1]
    golden["gpt2"]["strings"].append({"text": text, "ids": ids, "decoded": byte_level.decode(ids), "all": byte_level.decode(ids, skip_special_tokens=False)})
with open(os.path.join(HERE, "gpt2", "tokenizer_config.json"), "w") as file:
    json.dump({"add_bos_token": True, "bos_token": "</s>", "eos_token": {"content": "</s>"}, "unk_token": "<unk>", "additional_special_tokens": ["<s>"]}, file)

os.makedirs(os.path.join(HERE, "pieces"), exist_ok=True)
prefix = os.path.join(HERE, "pieces", "tokenizer")
sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(TEXT), model_prefix=prefix, vocab_size=400, hard_vocab_limit=False, model_type="bpe",
                                         byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
                                         num_threads=1, minloglevel=2)
os.remove(prefix + ".vocab")
pieces = sentencepiece.SentencePieceProcessor(model_file=prefix + ".model")
golden["pieces"] = {"vocab_size": pieces.vocab_size(), "strings": []}
for text in FIXED + MORE:
    ids = [pieces.bos_id()] + pieces.encode(text)
    golden["pieces"]["strings"].append({"text": text, "ids": ids, "decoded": pieces.decode(ids)})
with open(os.path.join(HERE, "tokenizer_golden.json"), "w") as file:
    json.dump(golden, file, separators=(",", ":"))
    file.write("\n")
