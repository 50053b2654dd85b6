"""Words of method names as plain data: family, label in tables, options.

Needs no torch; what a word does to a model is in `build`.
"""

from dataclasses import dataclass

from aon.lab.methods.options import Option, choice, flag, integer, number

# Families in the order of a canonical name, each with its name in error messages.
FAMILIES = {
    "norm": "normaliser of activations",
    "activation": "activation function",
    "map": "weight map",
    "penalty": "penalty",
    "step": "step between epochs",
    "dropout": "dropout",
}

# Penalties add up; of every other family a method has at most one.
SEVERAL = ("penalty",)

# The word for a method without words.
NOTHING = "none"


@dataclass(frozen=True)
class Word:
    """One word of the grammar.

    Attributes:
        name: What the user writes.
        family: One of `FAMILIES`.
        label: What tables write, the paper's spelling where it has one.
        summary: What it is, for help texts.
        options: In the order in which a canonical name gives them.
        removes_scale: For normalisers: whether the output stays the same, apart from eps, when a channel of the input
            is scaled. It does where each channel has statistics of its own, and not where channels share them.
        stands_for: The method that this word is another spelling of; canonical names use that one.
    """

    name: str
    family: str
    label: str
    summary: str
    options: tuple[Option, ...] = ()
    removes_scale: bool = False
    stands_for: str = ""

    def has(self, name: str) -> bool:
        """Whether there is an option of this name."""
        return any(option.name == name for option in self.options)

    def option(self, name: str) -> Option:
        """The option of this name."""
        return next(option for option in self.options if option.name == name)


_GROUPS = integer("groups", 1, least=1, most=65536)
_EPS = number("eps", 1e-5, above=True, most=1.0)
_MOMENTUM = number("momentum", 0.1, above=True, most=1.0)
_NEWTON = integer("iterations", 5, least=1, most=100, symbol="T")

_NORMS = (
    Word("bn", "norm", "BN", "batch normalisation", (_EPS, _MOMENTUM), removes_scale=True),
    Word("ln", "norm", "LN", "layer normalisation", (_EPS,)),
    Word("in", "norm", "IN", "instance normalisation", (_EPS,), removes_scale=True),
    Word("gn", "norm", "GN", "group normalisation", (integer("groups", 32, least=1, most=65536), _EPS)),
    Word(
        "brn",
        "norm",
        "BRN",
        "batch renormalisation",
        (
            number("r_max", 3.0, least=1.0),
            number("d_max", 5.0),
            integer("warm_up", 100, least=0, most=1_000_000),
            _EPS,
            number("momentum", 0.01, above=True, most=1.0),
        ),
        removes_scale=True,
    ),
    Word(
        "dbn",
        "norm",
        "DBN",
        "decorrelated batch normalisation (ZCA whitening)",
        (integer("size", 16, least=1, most=65536), _EPS, _MOMENTUM),
    ),
    Word("iternorm", "norm", "IterNorm", "whitening by Newton's iteration", (_GROUPS, _NEWTON, _EPS, _MOMENTUM)),
    Word(NOTHING, "norm", "plain", "no normaliser of activations"),
)

# The default depends on the other words of the method: see `grammar.Method.gain`.
_GAIN = flag("gain", None)
_POWER = integer("iterations", 1, least=1, most=1000)
_TAYLOR = ("expansion", "taylor")

_MAPS = (
    Word(
        "aon",
        "map",
        "AON",
        "approximated orthonormal normalisation, the paper's method",
        (
            integer("order", 2, least=0, most=64, symbol="q", shown=True),
            choice("scale", "spectral", "frobenius", "none"),
            choice("centre", "one", "mean", "top", only_with=_TAYLOR),
            flag("prescale", False, only_with=_TAYLOR),
            choice("expansion", "taylor", "minimax"),
            number("lower", 0.2, least=0.001, most=0.9, symbol="l", only_with=("expansion", "minimax")),
            _GAIN,
            _POWER,
        ),
    ),
    Word("sn", "map", "SN", "spectral normalisation (AON of order 0)", (_GAIN, _POWER), stands_for="aon:order=0"),
    Word("wn", "map", "WN", "weight normalisation", (_GAIN,)),
    Word("cwn", "map", "CWN", "centred weight normalisation", (number("magnitude", 1.414, above=True), _GAIN)),
    Word("polar", "map", "Polar", "exact orthonormalisation, the limit of AON", (_GAIN,)),
    Word(
        "oni",
        "map",
        "ONI",
        "orthonormalisation by Newton's iteration on W",
        (_NEWTON, flag("centre", False), _GAIN),
    ),
)

_BETA = number("beta", 0.01)
_STEPS = integer("iterations", 8, least=1, most=1000)

_PENALTIES = (
    Word(
        "orth",
        "penalty",
        "orthonormal",
        "orthonormal regularisation, the paper's equation (2)",
        (number("beta", 10.0),),
    ),
    Word("dso", "penalty", "DSO", "double-sided orthonormal regularisation", (_BETA,)),
    Word("mc", "penalty", "MC", "mutual coherence", (_BETA,)),
    Word("srip", "penalty", "SRIP", "spectral restricted isometry", (_BETA, _STEPS)),
    Word("snr", "penalty", "SNR", "spectral-norm regularisation", (_BETA, _STEPS)),
    Word("wd", "penalty", "WD", "weight decay, by the optimiser", (number("rate", 5e-4, shown=True),)),
)

_OTHERS = (
    Word("selu", "activation", "SELU", "self-normalising activation function, with its initialisation"),
    Word(
        "svb",
        "step",
        "SVB",
        "singular value bounding between epochs",
        (number("eps", 0.5, above=True), integer("every", 1, least=1, most=1_000_000)),
    ),
    Word(
        "dropout",
        "dropout",
        "dropout",
        "dropout (alpha dropout with SELU)",
        (number("rate", 0.5, most=0.95, shown=True),),
    ),
)

VOCABULARY = {word.name: word for word in (*_NORMS, *_MAPS, *_PENALTIES, *_OTHERS)}
