"""Compressors in Python: subclass Compressor in a file of its own, and name the file in an experiment.

    class Mine(kvc.Compressor):
        "Rounds K and V to a few bits per token."
        bits: int = kvc.option(4, choices=(2, 4, 8), help="bits per code")

        def append(self, k, v, q): ...
        def attended(self): return k, v

No package is needed but torch or NumPy, whichever the file imports.
"""


class Option:
    """What option() gives: a default, what is allowed, and a line of help."""

    def __init__(self, default, choices, least, most, help):
        self.default, self.choices, self.least, self.most, self.help = default, choices, least, most, help
        if choices is not None and default not in choices:
            raise ValueError(f"option: the default {default!r} is none of {tuple(choices)!r}")

    @property
    def type(self):
        """The word that `kvc plugins FILE` shows."""
        if isinstance(self.default, bool):
            return "boolean"
        if isinstance(self.default, int):
            return "integer"
        return "real" if isinstance(self.default, float) else "choice"

    @property
    def allowed(self):
        """In words: "2, 4, 8", "1 to 64", "0 and more"."""
        if self.type == "boolean":
            return "true, false"
        if self.choices is not None:
            return ", ".join(str(choice) for choice in self.choices)
        if self.least is None and self.most is None:
            return "any"
        if self.most is None:
            return f"{self.least} and more"
        return f"{self.least} to {self.most}" if self.least is not None else f"at most {self.most}"

    def accepts(self, value):
        """Whether an experiment may set it to this value."""
        if self.type == "boolean" or isinstance(value, bool):
            return self.type == "boolean" and isinstance(value, bool)
        if self.type == "choice":
            return isinstance(value, str) and (self.choices is None or value in self.choices)
        if not isinstance(value, int) and not (self.type == "real" and isinstance(value, float)):
            return False
        if self.choices is not None:
            return value in self.choices
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)


def option(default, *, choices=None, min=None, max=None, help=""):
    """An option of a compressor, which an experiment may set: a class attribute whose value instances have.

    default: a bool, int, float or str, which also is the option's type. choices: the values that are allowed; or min and
    max. help: one line, with the unit.
    """
    return Option(default, choices, min, max, help)


class Compressor:
    """The K and V of one layer of one sequence, in compressed form. kvc makes an object for each.

    Arrays are torch tensors where the file imports torch, else NumPy arrays; float32, of these shapes: H_q query heads,
    H_kv KV heads (query head h reads KV head h * H_kv // H_q), T tokens, D head_dim. Keys are after RoPE.

    Attributes that kvc sets before __init__: every option; `length`, the tokens appended so far; `info` with layer,
    n_layers, n_heads (H_q), n_kv_heads (H_kv), head_dim (D), attention_scale, sliding_window (0: none), logit_softcap,
    rope_frequencies (a list; empty: no RoPE) and sequence_key (an integer for seeds: equal for equal prompts).
    """

    source = "none"      # paper and section
    deviations = "none"  # how it differs from its source
    lossy = True         # False: K and V come back as they were, up to 16 bits
    evicts = False       # positions() may give fewer tokens than were appended
    estimates = False    # attended() may differ from dequantize(): unbiased estimates of inner products
    simulated = False    # stores floats and computes its size; left out of tables of sizes
    chunked_prompt = False   # append() takes prompts in several calls
    one_by_one_same = False  # token by token it stores the same bits as at once
    prefix_local = False     # what is stored of a token does not depend on later ones

    length = 0

    def append(self, k, v, q):
        """Stores the next tokens: the whole prompt at first, then one token a call.

        k, v: [H_kv, T, D]; q: [H_q, T, D] or None. Views that are read-only and change after the call: copy what you
        keep.
        """
        raise NotImplementedError(f"{type(self).__name__} has no append(self, k, v, q)")

    def attended(self):
        """The (k, v), [H_kv, T_kept, D] each, whose attention is this compressor's."""
        raise NotImplementedError(f"{type(self).__name__} has no attended(self)")

    def dequantize(self):
        """The best reconstruction of the stored (k, v); errors are computed from it."""
        return self.attended()

    def positions(self):
        """[H_kv, T_kept] integers: the position of each kept token, ascending. None: all tokens are kept."""
        return None

    def held(self):
        """What is stored, as {name: array}. None: all arrays that can be reached from the object.

        Names that begin with "k" count as K's bytes, with "v" as V's, others as both's. The rest of the name may be one
        of kvc's kinds of bytes: k_codes, v_scales, k_zeros, recent, index, ...
        """
        return None

    def n_encoded_tokens(self):
        """How many of the tokens are compressed or evicted by now. Tokens that wait uncompressed do not count."""
        return self.length

    def n_encoded_numbers(self):
        """How many numbers of K and V are stored in compressed form. None: those of the compressed tokens that are kept."""
        return None

    @classmethod
    def check_model(cls, model, options):
        """Raises ValueError, with the reason, for a model (attributes as `info`) that is not supported with these options."""

    @classmethod
    def bits_per_number(cls, options):
        """Nominal bits per stored number; 16 if nothing is quantized. Default: the option `bits`, where there is one."""
        return float(options.get("bits", 16))

    @classmethod
    def paper_bytes(cls, model, options, n_prompt, n_new):
        """Bytes of a layer's K and V by the published formula. Default: bits_per_number() of each number."""
        numbers = 2 * model.n_kv_heads * model.head_dim * (n_prompt + n_new)
        return cls.bits_per_number(options) / 8 * numbers

    # def attend(self, q): attention of the last T positions, [H_q, T, D] for q of that shape. Without it kvc computes the
    # attention over attended().
