"""The tokenizer against the `tokenizers` package: the same ids and texts on 10,000 strings a tokenizer.

usage: tokenizer_parity.py PROGRAM [MODEL_DIR ...]; the real tokenizers come from $KVC_DATA/tokenizers.
Exit code 77 where the package or every tokenizer is absent.
"""
import glob
import json
import os
import random
import subprocess
import sys
import tempfile

try:
    from tokenizers import Tokenizer
except ImportError as error:
    print(f"SKIP: {error}")
    sys.exit(77)

from tokenizer_variants import variants

N_STRINGS = 10_000
FIXED = [
    "", " ", "  ", "\n", "\r\n", "\t", "\0", "a\0b", "Hello, world!", "don't DON'T we'll I'D they've", "  leading", "trailing  ",
    "a" * 500, " " * 500, "\n" * 100, " \n \n ", "    def f(x):\n\treturn x**2  # ok\r\n", "3.14159 1,234,567 ½ ² Ⅷ ٣٤٥ 一二三",
    "你好，世界。今天天气怎么样？", "これはテストです", "안녕하세요 세계", "مرحبا بالعالم", "שלום עולם", "नमस्ते दुनिया", "สวัสดีชาวโลก",
    "😀😃👩‍👩‍👧‍👦🏳️‍🌈👍🏽", "e\u0301 é n\u0303 ñ a\u0328\u0301", "\u1e9b\u0323 ﬁ ﬀ Å Å", "İstanbul ıI ſ ß ẞ Ǆ Σς", "\ufeffBOM", "a\u200bb\u200cc\u200dd\u2060e",
    "\u00a0nbsp\u2003em\u3000wide\u1680ogham\u180emvs\u0085nel\u2028ls\u2029ps", "\x01\x02\x1b[31mred\x7f\x1c\x1d\x1e\x1f", "\ue000\uf8ff\U000f0000\U0010ffff",
    "<s>", "</s>", "a<s>b</s>c", "<s> <s>", "<unk>", "<|begin_of_text|>hi<|eot_id|>", "<|endoftext|>x<|endoftext|>", "< s >", "<s", "<0x41>", "▁", "▁▁a ▁b", "a▁b",
    "<|im_start|>user\nhi<|im_end|>", "\ufffd", "Ġ Ċ Ā ł", "x" + " " * 24 + "y", " " * 25 + "z", "'s's'S'ſ", "ﷺ" * 10, "\u0344\u0958\ufb1d", "가각힣ᄀ\u1161\u11a8",
]
ALPHABETS = [
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789.,+-*/=%$", " \t\n\r", "    ", "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~",
    "éèêëàâäîïôöûüçñßøåæœÉÀŽščř", "你好世界中文模型缓存压缩量化", "あいうえおアイウエオ漢字", "абвгдежзийАБВГД", "αβγδεζηθ", "ابتثج", "अआइईक्षत्रज्ञ",
    "😀😁🤖🚀❤️👩🏽‍💻🇩🇪", "\u0300\u0301\u0302\u0327\u0330", "\u00a0\u2003\u200b\u200d\u2028\u3000\ufeff", "\x00\x01\x07\x1b\x7f\x85",
]
WORDS = "the of and a to in is you that it he for was on are as with his they at be this from have or by one had not but what all were when we there can an your which their said if do will each about how up out them then she many some so these would other into has more her two like him see time could no make than first been its who now people my made over did down only way find use may water long little very after words called just where most know".split()


def strings(rng, specials):
    yield from FIXED
    while True:
        kind = rng.random()
        if kind < 0.3:
            yield " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 40))) + rng.choice([".", "!", "\n", "", "?\r\n"])
        elif kind < 0.5:
            yield "".join(rng.choice(rng.choice(ALPHABETS)) for _ in range(rng.randint(1, 60)))
        elif kind < 0.7:
            yield "".join("".join(rng.choice(alphabet) for _ in range(rng.randint(1, 12)))
                          for alphabet in rng.choices(ALPHABETS, k=rng.randint(1, 8)))
        elif kind < 0.8:
            parts = [rng.choice(WORDS), rng.choice(specials), " " * rng.randint(0, 30), rng.choice(specials), rng.choice(["'s", "x", "\n", "é", "_", "1"])]
            rng.shuffle(parts)
            yield "".join(parts)
        elif kind < 0.9:
            yield rng.choice(specials)[: rng.randint(1, 9)] + rng.choice(WORDS) + rng.choice(specials) + str(rng.randrange(10 ** rng.randint(1, 12)))
        else:  # any assigned code point of Unicode 14 and before, no surrogates
            yield "".join(chr(c) for c in (rng.randrange(0x2FFFF) for _ in range(rng.randint(1, 20)))
                          if not 0xD800 <= c < 0xE000 and known(c))


def known(c):
    import unicodedata
    if c == 0x166D:  # a sign since Unicode 12, punctuation in the package's older tables
        return False
    return unicodedata.category(chr(c)) != "Cn" and unicodedata.ucd_3_2_0.category(chr(c)) != "Cn"


def compare(program, name, folder):
    tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    content = json.load(open(os.path.join(folder, "tokenizer.json")))
    specials = [t["content"] for t in content["added_tokens"]] or ["<s>"]
    source = strings(random.Random(7), specials[:40])
    texts = [next(source) for _ in range(N_STRINGS)]
    rng = random.Random(8)
    size = tokenizer.get_vocab_size()
    lines = [json.dumps(t) for t in texts]
    id_lists = [[rng.randrange(size + 3) for _ in range(rng.randint(0, 30))] for _ in range(1000)]
    lines += [json.dumps({"ids": ids}) for ids in id_lists]
    run = subprocess.run([program, folder], input="\n".join(lines) + "\n", text=True, encoding="utf-8", stdout=subprocess.PIPE, check=True)
    outputs = [json.loads(line) for line in run.stdout.split("\n") if line]
    assert len(outputs) == len(lines), (len(outputs), len(lines))
    wrong = []
    for text, ours in zip(texts + id_lists, outputs):
        ids = tokenizer.encode(text).ids if isinstance(text, str) else text
        theirs = {"ids": ids, "text": tokenizer.decode(ids, skip_special_tokens=True),
                  "all": tokenizer.decode(ids, skip_special_tokens=False)}
        if ours != theirs:
            wrong.append((text, ours, theirs))
    print(f"{name}: {len(lines) - len(wrong)}/{len(lines)} the same")
    for text, ours, theirs in wrong[:3]:
        print(f"  {text!r}\n    ours   {ours}\n    theirs {theirs}")
    return not wrong


def main():
    program, models = sys.argv[1], sys.argv[2:]
    data = os.environ.get("KVC_DATA", "")
    folders = [d for d in models + sorted(glob.glob(os.path.join(data, "tokenizers", "*"))) if os.path.exists(os.path.join(d, "tokenizer.json"))]
    if not data:
        print("no KVC_DATA: the real tokenizers are not compared")
    results = [compare(program, os.path.basename(d), d) for d in folders]
    with tempfile.TemporaryDirectory() as root:
        for name, tokenizer in variants():
            folder = os.path.join(root, name)
            os.mkdir(folder)
            tokenizer.save(os.path.join(folder, "tokenizer.json"))
            results.append(compare(program, name, folder))
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
