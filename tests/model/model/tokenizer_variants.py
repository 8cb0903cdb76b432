"""Small tokenizers that use the components which the real ones do not, trained on a few lines."""
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

TEXT = ["the quick brown fox jumps over the lazy dog", "Numbers 0123456789 and signs !?.,;", "don't we'll they've",
        "aaa bbb ccc the the of of and and in in", "日本語 中文 한국어 русский", "x = f(y) + 1\n\treturn 2"] * 20


def trained(model, normalizer=None, pre_tokenizer=None, decoder=None, special=("<s>", "</s>", "<unk>"), alphabet=()):
    tokenizer = Tokenizer(model)
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    if decoder:
        tokenizer.decoder = decoder
    tokenizer.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=400 + len(alphabet), special_tokens=list(special),
                                                            initial_alphabet=list(alphabet), show_progress=False))
    return tokenizer


def variants():
    bytes_ = pre_tokenizers.ByteLevel.alphabet()
    n, p, d = normalizers, pre_tokenizers, decoders
    yield "demo_like", trained(models.BPE(), None, p.Sequence([p.Digits(True), p.ByteLevel(add_prefix_space=False)]), d.ByteLevel(), alphabet=bytes_)
    for form in (n.NFC(), n.NFD(), n.NFKC(), n.NFKD()):
        yield type(form).__name__, trained(models.BPE(), form, p.ByteLevel(), d.ByteLevel(), alphabet=bytes_)
    yield "lower_strip", trained(models.BPE(unk_token="<unk>"), n.Sequence([n.Lowercase(), n.Strip(), n.NFD(), n.StripAccents(), n.Replace(Regex(r"\s+"), " "), n.Replace("x", "yy")]),
                                 p.Whitespace())
    yield "unk_fused", trained(models.BPE(unk_token="<unk>", fuse_unk=True), None, p.Sequence([p.WhitespaceSplit(), p.Punctuation()]))
    for scheme in ("always", "first", "never"):
        yield "metaspace_" + scheme, trained(models.BPE(unk_token="<unk>"), None, p.Metaspace(prepend_scheme=scheme), d.Metaspace(prepend_scheme=scheme))
    yield "metaspace_unsplit", trained(models.BPE(unk_token="<unk>"), None, p.Metaspace(split=False), d.Metaspace())
    for behavior in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"):
        for invert in (False, True):
            yield f"split_{behavior}_{invert}", trained(models.BPE(unk_token="<unk>"), None, p.Split(Regex(r"\s|[aeiou]|\d"), behavior, invert))
        yield f"split_text_{behavior}", trained(models.BPE(unk_token="<unk>"), None, p.Split("the", behavior))
        yield f"punctuation_{behavior}", trained(models.BPE(unk_token="<unk>"), None, p.Punctuation(behavior))
    yield "digits_grouped", trained(models.BPE(unk_token="<unk>"), None, p.Sequence([p.Digits(False), p.CharDelimiterSplit(" ")]))
    yield "byte_normalizer", trained(models.BPE(), n.ByteLevel(), None, d.ByteLevel(), alphabet=bytes_)
    yield "spm", with_bytes(n, p, d)
    yield "added", with_added_tokens(p, d, bytes_)
    yield "template", with_template(p, d, bytes_)


def with_bytes(n, p, d):
    names = [f"<0x{byte:02X}>" for byte in range(256)]
    tokenizer = trained(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True), n.Sequence([n.Prepend("▁"), n.Replace(" ", "▁")]), None,
                        d.Sequence([d.Replace("▁", " "), d.ByteFallback(), d.Fuse(), d.Strip(" ", 1, 0)]),
                        special=["<unk>", "<s>", "</s>"] + names)
    import json
    content = json.loads(tokenizer.to_str())
    content["added_tokens"] = [t for t in content["added_tokens"] if t["content"] not in names]
    return Tokenizer.from_str(json.dumps(content))


def with_added_tokens(p, d, bytes_):
    tokenizer = trained(models.BPE(), normalizers.Lowercase(), p.ByteLevel(add_prefix_space=False), d.ByteLevel(), alphabet=bytes_)
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True), AddedToken("<end>", rstrip=True), AddedToken("[BOTH]", lstrip=True, rstrip=True)])
    tokenizer.add_tokens([AddedToken("whole", single_word=True), AddedToken("MiXed", normalized=True), AddedToken("RAW", normalized=False),
                          AddedToken("the the", normalized=True), AddedToken("  ", normalized=False), AddedToken("lö", single_word=True), "<mas", "ask>"])
    return tokenizer


def with_template(p, d, bytes_):
    tokenizer = trained(models.BPE(), None, p.ByteLevel(trim_offsets=False), d.ByteLevel(), alphabet=bytes_)
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
        single="<s> <s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)])])
    return tokenizer
