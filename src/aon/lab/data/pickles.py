"""Read the data in a pickle without unpickling it: only numbers, text, lists, tuples, dicts, numpy arrays.

torchvision keeps CIFAR as pickles, and unpickling can call any function. Here the instructions are read by
`pickletools.genops`, which executes nothing, and a small machine carries out those that build plain data.
Names are compared, never looked up; an array is made from its shape, type and bytes by numpy's `frombuffer`.
Anything else is refused, so that a file could not run code even if its checksum were forged.
"""

import pickletools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

_MARK = object()


@dataclass(frozen=True)
class _Name:
    """A name that the pickle refers to, as "module name"."""

    text: str


@dataclass
class _Dtype:
    """An element type as numpy's pickles write it: its code, then, as state, the byte order."""

    code: str
    order: str = "|"


class _Array:
    """An array whose state has not been read yet."""


def parse(content: bytes) -> Any:
    r"""The plain data in a pickle; byte strings of Python 2 come out as text, each byte one character.

    Args:
        content: The pickle, of any protocol.

    Raises:
        ValueError: if it holds anything but plain data, or is cut short.

    Example:
        >>> parse(b"\x80\x02}q\x01(U\x06labelsq\x02]q\x03(K\x06K\x09eU\x04noneq\x04Nu.")
        {'labels': [6, 9], 'none': None}
        >>> parse(b"cos\nsystem\n(S'echo pwned'\ntR.")
        Traceback (most recent call last):
        ValueError: the pickle calls os system, which does not build plain data
    """
    machine = _Machine()
    try:
        for opcode, argument, _ in pickletools.genops(content):
            machine.step(opcode.name, argument)
        return machine.stack[-1]
    except (LookupError, TypeError, AttributeError, ArithmeticError, MemoryError, RecursionError) as error:
        raise ValueError(f"the pickle is malformed ({type(error).__name__}: {error})") from error


class _Machine:
    """The part of the pickle machine that builds data: a stack, and a memo of what was built."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def step(self, name: str, argument: Any) -> None:
        """Carry out one instruction."""
        if name in _VALUES:
            self.stack.append(_VALUES[name](argument))
        elif name in _ACTIONS:
            _ACTIONS[name](self, argument)
        elif name not in _NOTHING_TO_DO:
            raise ValueError(f"the pickle holds the instruction {name}, which does not build plain data")

    def pop(self, n: int) -> list[Any]:
        """Take the last `n` items off the stack."""
        if n > len(self.stack):
            raise ValueError("the pickle is malformed (its stack is empty)")
        items = self.stack[len(self.stack) - n :]
        del self.stack[len(self.stack) - n :]
        return items

    def pop_to_mark(self) -> list[Any]:
        """Take everything above the last mark off the stack, and the mark itself."""
        n = next((i for i, item in enumerate(reversed(self.stack)) if item is _MARK), len(self.stack))
        items = self.pop(n)
        self.pop(1)
        return items

    def extend(self, items: list[Any]) -> None:
        """Append to the list on top of the stack."""
        if not isinstance(self.stack[-1], list):
            raise ValueError("the pickle appends to something that is not a list")
        self.stack[-1].extend(items)

    def update(self, items: list[Any]) -> None:
        """Set items of the dictionary on top of the stack, from keys and values in turn."""
        if not isinstance(self.stack[-1], dict):
            raise ValueError("the pickle sets items of something that is not a dictionary")
        self.stack[-1].update(_dict(items))

    def remember(self, key: int | None) -> None:
        """Keep the top of the stack under `key`, or under the next free number."""
        self.memo[len(self.memo) if key is None else key] = self.stack[-1]

    def reduce(self) -> None:
        """Replace a name and arguments by what numpy would make of them; no other name is known."""
        name, arguments = self.pop(2)
        known = _CALLS.get(name.text)
        if known is None:
            raise ValueError(f"the pickle calls {name.text}, which does not build plain data")
        self.stack.append(known(*arguments))

    def build(self) -> None:
        """Give the element type or the array on top of the stack its state."""
        target, state = self.pop(2)
        if isinstance(target, _Dtype):
            target.order = state[1]
            self.stack.append(target)
        elif isinstance(target, _Array):
            array = _array(*state)
            self.memo = {key: array if value is target else value for key, value in self.memo.items()}
            self.stack.append(array)
        else:
            raise ValueError("the pickle sets the state of something that is not an array")


def _dict(items: list[Any]) -> dict[Any, Any]:
    return dict(zip(items[::2], items[1::2], strict=True))


def _array(version: int, shape: tuple[int, ...], kind: _Dtype, fortran: bool, content: str | bytes) -> Any:
    if not re.fullmatch(r"[iuf][1248]|b1", kind.code) or kind.order not in ("|", "<", ">", "="):
        raise ValueError(f"the pickle holds an array of {kind.order}{kind.code}, version {version}: not numbers")
    raw = content.encode("latin-1") if isinstance(content, str) else content
    order = "|" if kind.code.endswith("1") else kind.order
    return np.frombuffer(raw, np.dtype(order + kind.code)).reshape(shape, order="F" if fortran else "C")


_CALLS: dict[str, Callable[..., Any]] = {
    "numpy.core.multiarray _reconstruct": lambda *_: _Array(),
    "numpy._core.multiarray _reconstruct": lambda *_: _Array(),
    "numpy dtype": lambda code, *_: _Dtype(code),
    "_codecs encode": lambda text, _: text.encode("latin-1"),  # Python 3 writes bytes so, for Python 2
}
_LITERALS = """
    INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT STRING BINSTRING SHORT_BINSTRING
    UNICODE BINUNICODE SHORT_BINUNICODE BINUNICODE8 BINBYTES SHORT_BINBYTES BINBYTES8
"""
_VALUES: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(_LITERALS.split(), lambda argument: argument),
    "NONE": lambda _: None,
    "NEWTRUE": lambda _: True,
    "NEWFALSE": lambda _: False,
    "EMPTY_LIST": lambda _: [],
    "EMPTY_DICT": lambda _: {},
    "EMPTY_TUPLE": lambda _: (),
    "MARK": lambda _: _MARK,
    "GLOBAL": _Name,
}
_ACTIONS: dict[str, Callable[[_Machine, Any], None]] = {
    "PUT": _Machine.remember,
    "BINPUT": _Machine.remember,
    "LONG_BINPUT": _Machine.remember,
    "MEMOIZE": _Machine.remember,
    "GET": lambda m, key: m.stack.append(m.memo[key]),
    "BINGET": lambda m, key: m.stack.append(m.memo[key]),
    "LONG_BINGET": lambda m, key: m.stack.append(m.memo[key]),
    "DICT": lambda m, _: m.stack.append(_dict(m.pop_to_mark())),
    "LIST": lambda m, _: m.stack.append(m.pop_to_mark()),
    "TUPLE": lambda m, _: m.stack.append(tuple(m.pop_to_mark())),
    "TUPLE1": lambda m, _: m.stack.append(tuple(m.pop(1))),
    "TUPLE2": lambda m, _: m.stack.append(tuple(m.pop(2))),
    "TUPLE3": lambda m, _: m.stack.append(tuple(m.pop(3))),
    "APPEND": lambda m, _: m.extend(m.pop(1)),
    "APPENDS": lambda m, _: m.extend(m.pop_to_mark()),
    "SETITEM": lambda m, _: m.update(m.pop(2)),
    "SETITEMS": lambda m, _: m.update(m.pop_to_mark()),
    "STACK_GLOBAL": lambda m, _: m.stack.append(_Name(" ".join(m.pop(2)))),
    "REDUCE": lambda m, _: m.reduce(),
    "BUILD": lambda m, _: m.build(),
}
_NOTHING_TO_DO = {"PROTO", "FRAME", "STOP"}
