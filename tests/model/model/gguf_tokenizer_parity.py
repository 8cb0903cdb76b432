"""Tokenizers of GGUF files against the packages that read the original files: the same ids and texts on strings of every kind.

usage: gguf_tokenizer_parity.py PROGRAM [...]
The files are written by the `gguf` package: small tokenizers trained on the spot with each kind of pre-tokenizer, and the real
ones of $KVC_DATA/tokenizers. $KVC_SMOLLM2_GGUF names SmolLM2's real file, which transformers reads, too.
What a GGUF file cannot say is left out of the comparison: a normalizer (only qwen2 means one), and tokens that are found in
normalized text. Exit code 77 where a package is absent.
"""
import json
import os
import random
import sys
import tempfile

try:
    import gguf
    import sentencepiece
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, decoders, trainers, AddedToken
    from transformers import AutoTokenizer
except ImportError as error:
    print(f"SKIP: {error}")
    sys.exit(77)

from tokenizer_files_parity import texts_for, training_text
from tokenizer_strings import random_ids, report, run_program

WORDS_OF_LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)


def write_gguf(path, model, tokens, types, pre=None, merges=None, scores=None, architecture="llama", **more):
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_tokenizer_model(model)
    if pre:
        writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    if merges is not None:
        writer.add_token_merges(merges)
    if scores is not None:
        writer.add_token_scores(scores)
    for name, value in more.items():
        (writer.add_bool if isinstance(value, bool) else writer.add_uint32)("tokenizer.ggml." + name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def tokens_and_types(file):
    """Of a tokenizer.json, as llama.cpp's converter lists them; ids without a token are unused."""
    by_id = {id: (token, NORMAL) for token, id in file["model"]["vocab"].items()}
    by_id |= {t["id"]: (t["content"], CONTROL if t["special"] else USER_DEFINED) for t in file["added_tokens"]}
    listed = [by_id.get(i, (f"[PAD{i}]", UNUSED)) for i in range(max(by_id) + 8)]
    return [token for token, _ in listed], [kind for _, kind in listed]


def expected(tokenizer, one):
    ids = tokenizer.encode(one).ids if isinstance(one, str) else one["ids"]
    return {"ids": ids, "text": tokenizer.decode(ids, skip_special_tokens=True), "all": tokenizer.decode(ids, skip_special_tokens=False)}


def compare(program, name, path, reference, specials, ids_from=0):
    rng = random.Random(12)
    inputs = texts_for(rng, specials)
    inputs += [{"ids": [i for i in ids if i >= ids_from]} for ids in random_ids(rng, reference.get_vocab_size() + 3, 1000)]
    return report(name, inputs, run_program(program, path, inputs), [expected(reference, one) for one in inputs])


def compare_byte_level(program, root, name, pre, file, **more):
    path = os.path.join(root, name.replace(" ", "_") + ".gguf")
    tokens, types = tokens_and_types(file)
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in file["model"]["merges"]]
    write_gguf(path, "gpt2", tokens, types, pre, merges, **more)
    specials = [t["content"] for t in file["added_tokens"]][:40]
    return compare(program, f"{pre}: {name}", path, Tokenizer.from_str(json.dumps(file)), specials)


def trained(pieces, training, normalizer=None, ignore_merges=False):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer, tokenizer.decoder = pieces, decoders.ByteLevel()
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.train_from_iterator(training, trainers.BpeTrainer(vocab_size=4000, special_tokens=["<|endoftext|>", "<|im_start|>"], show_progress=False,
                                                                initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.add_tokens([AddedToken("<think>", normalized=False), AddedToken("    ", normalized=False)])
    return json.loads(tokenizer.to_str())


def small_tokenizers(program, root, training):
    def words(digits):
        split = pre_tokenizers.Split(Regex(WORDS_OF_LLAMA3.replace(r"\p{N}{1,3}", digits)), "isolated")
        return pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False)
    digits = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), gpt2])
    for pre, pieces, options in [("gpt-2", gpt2, {}), ("smollm", digits, {}), ("qwen2", words(r"\p{N}"), {"normalizer": normalizers.NFC()}),
                                 ("stablelm2", words(r"\p{N}"), {}), ("dbrx", words(r"\p{N}{1,3}"), {}),
                                 ("llama-bpe", words(r"\p{N}{1,3}"), {"ignore_merges": True})]:
        yield compare_byte_level(program, root, "trained here", pre, trained(pieces, training, **options), add_bos_token=False)


def real_byte_level(program, root, folder):
    def load(name):
        return json.load(open(os.path.join(folder, name, "tokenizer.json")))
    yield compare_byte_level(program, root, "Llama 3", "llama-bpe", load("llama3"), add_bos_token=False)
    neox = load("neox")
    neox["normalizer"] = None
    for token in neox["added_tokens"]:
        token["normalized"] = False
    yield compare_byte_level(program, root, "GPT-NeoX without NFC", "gpt-2", neox)


def llama2_pieces(folder):
    pieces = sentencepiece.SentencePieceProcessor(model_file=os.path.join(folder, "llama2", "tokenizer.model"))

    def kind(i):
        return UNKNOWN if pieces.is_unknown(i) else CONTROL if pieces.is_control(i) else BYTE if pieces.is_byte(i) else NORMAL
    ids = range(pieces.vocab_size())
    return [pieces.id_to_piece(i) for i in ids], [pieces.get_score(i) for i in ids], [kind(i) for i in ids]


def real_pieces(program, root, folder):
    """Llama 2's, and the same with Phi-3's tokens. Bytes that are no characters decode by another rule (sentencepiece's)."""
    tokens, scores, types = llama2_pieces(folder)
    file = json.load(open(os.path.join(folder, "llama2", "tokenizer.json")))
    path = os.path.join(root, "llama2.gguf")
    write_gguf(path, "llama", tokens, types, scores=scores, bos_token_id=1, eos_token_id=2)
    yield compare(program, "llama: Llama 2", path, Tokenizer.from_str(json.dumps(file)), ["<s>", "</s>", "<unk>"], ids_from=259)

    added = ["<|endoftext|>", "<|assistant|>", "<|end|>", "<|user|>"]
    for i, token in enumerate(added):
        file["added_tokens"].append({"id": len(tokens) + i, "content": token, "single_word": False, "lstrip": False, "normalized": False, "special": True})
    for token in file["added_tokens"]:
        token["rstrip"] = token["content"] not in ("<unk>", "<s>", "<|endoftext|>")
    path = os.path.join(root, "phi3.gguf")
    write_gguf(path, "llama", tokens + added, types + [CONTROL] * len(added), scores=scores + [-1000.0] * len(added), architecture="phi3",
               bos_token_id=1, eos_token_id=32000, add_bos_token=True)
    yield compare(program, "llama: with Phi-3's tokens", path, Tokenizer.from_str(json.dumps(file)), ["<s>", "</s>", "<unk>"] + added, ids_from=259)


def smollm2(program, path):
    """transformers 5.23 knows no rule for the name `smollm` and takes GPT-2's: 85 of the 11,000 differ, by spaces before digits."""
    reference = AutoTokenizer.from_pretrained(os.path.dirname(path), gguf_file=os.path.basename(path))
    reference.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                                         pre_tokenizers.ByteLevel(add_prefix_space=False)])
    rng = random.Random(13)
    inputs = texts_for(rng, reference.all_special_tokens) + [{"ids": ids} for ids in random_ids(rng, len(reference) + 3, 1000)]

    def answer(one):
        ids = reference(one)["input_ids"] if isinstance(one, str) else one["ids"]
        text, whole = (reference.decode(ids, skip_special_tokens=skip, clean_up_tokenization_spaces=False) for skip in (True, False))
        return {"ids": ids, "text": text, "all": whole}
    return report("SmolLM2's file, transformers", inputs, run_program(program, path, inputs), [answer(one) for one in inputs])


def main():
    program, results = sys.argv[1], []
    folder, file = os.path.join(os.environ.get("KVC_DATA", ""), "tokenizers"), os.environ.get("KVC_SMOLLM2_GGUF", "")
    with tempfile.TemporaryDirectory() as root:
        results += small_tokenizers(program, root, training_text(random.Random(3)))
        if os.path.exists(os.path.join(folder, "llama3", "tokenizer.json")):
            results += [*real_byte_level(program, root, folder), *real_pieces(program, root, folder)]
        else:
            print("no KVC_DATA/tokenizers: real tokenizers are not compared")
        if os.path.exists(file):
            results.append(smollm2(program, file))
        else:
            print("no KVC_SMOLLM2_GGUF: SmolLM2's file is not compared")
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
