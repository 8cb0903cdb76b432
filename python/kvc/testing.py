"""Objects of a compressor as kvc makes them, for tests."""
import types

from .compressor import Option


def make(cls, *, n_heads=4, n_kv_heads=2, head_dim=64, layer=0, n_layers=1, sliding_window=0, **options):
    """A cache of a model of this shape, with these options; the others have their defaults."""
    cache = cls.__new__(cls)
    for name in dir(cls):
        if isinstance(getattr(cls, name), Option):
            setattr(cache, name, options.pop(name, getattr(cls, name).default))
    if options:
        raise TypeError(f"{cls.__name__} has no option {', '.join(options)}")
    cache.length = 0
    cache.info = types.SimpleNamespace(
        layer=layer, n_layers=n_layers, n_heads=n_heads, n_kv_heads=n_kv_heads, head_dim=head_dim, sliding_window=sliding_window,
        attention_scale=head_dim**-0.5, logit_softcap=0.0, rope_frequencies=[], sequence_key=0)
    cache.__init__()
    return cache


def append(cache, k, v, q=None):
    """Appends tokens as kvc does: k, v [H_kv, T, D]; the whole prompt first."""
    cache.append(k, v, q)
    cache.length += k.shape[1]
