"""Texts that tokenizers may stumble over: written by hand, put together at random, and cut from the data sets."""
import glob
import json
import os
import subprocess
import unicodedata

# For each tokenizer; the regular tests compare a part of what the rules were found with.
N_STRINGS = int(os.environ.get("KVC_TEST_STRINGS", "500"))
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
    if c == 0x166D:  # a sign since Unicode 12, punctuation in the package's older tables
        return False
    return unicodedata.category(chr(c)) != "Cn" and unicodedata.ucd_3_2_0.category(chr(c)) != "Cn"


def dataset_texts(pattern, fields):
    for path in sorted(glob.glob(os.path.join(os.environ.get("KVC_DATA", ""), pattern))):
        for line in open(path, encoding="utf-8"):
            row = json.loads(line)
            yield from (row[field] for field in fields if isinstance(row.get(field), str))


def real_strings(rng, n):
    """Questions of GSM8K, and stretches of LongBench's English, Chinese and code; some whole documents."""
    short = list(dataset_texts("gsm8k/*.jsonl", ["question", "answer"]))
    long = list(dataset_texts("longbench_data/*.jsonl", ["input", "context"])) + list(dataset_texts("longbench_mini/*.jsonl", ["prompt"]))
    long = [text for text in long if text]
    if not short or not long:
        return []
    texts = rng.sample(short, min(n // 2, len(short))) + rng.sample(long, min(30, len(long)))
    while len(texts) < n:
        text = rng.choice(long)
        begin = rng.randrange(len(text))
        texts.append(text[begin:begin + rng.randint(1, 600)])
    return texts


def long_words(rng):
    for letters in ("abcdefghij", "ab", "你好世界中文", "😀é", "=-", "e\u0301\u0302", "0123456789"):
        for n in (100, 1000, 20000):
            yield "".join(rng.choice(letters) for _ in range(n))


def run_program(program, folder, inputs):
    """What the program `tokenize` says of each input: a text, or {"ids": [...]}."""
    lines = "".join(json.dumps(one) + "\n" for one in inputs)
    run = subprocess.run([program, folder], input=lines, text=True, encoding="utf-8", stdout=subprocess.PIPE, check=True)
    outputs = [json.loads(line) for line in run.stdout.split("\n") if line]
    assert len(outputs) == len(inputs), (len(outputs), len(inputs))
    return outputs


def random_ids(rng, size, n):
    return [[rng.randrange(size) for _ in range(rng.randint(0, 30))] for _ in range(n)]


def report(name, inputs, ours, theirs):
    wrong = [row for row in zip(inputs, ours, theirs) if row[1] != row[2]]
    print(f"{name}: {len(inputs) - len(wrong)}/{len(inputs)} the same", flush=True)
    for text, our, their in wrong[:3]:
        print(f"  {str(text)[:300]!r}\n    ours   {str(our)[:600]}\n    theirs {str(their)[:600]}")
    return not wrong
