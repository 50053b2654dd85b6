"""Quote values in messages: printable, and of limited length."""

LONGEST_VALUE, LONGEST_MESSAGE = 100, 2000


def shown(value: object, longest: int = LONGEST_VALUE) -> str:
    """A value as a message shows it: its `repr`, with the middle left out if it is long.

    Args:
        value: What was given.
        longest: Most characters to show.

    Example:
        >>> shown("bn+aon")
        "'bn+aon'"
        >>> shown("x" * 100_000, longest=20)
        "'xxxxxxxxx...xxxxxxxxx' (100,002 characters)"
    """
    if isinstance(value, str | bytes) and len(value) > 10 * longest:
        text = repr(value[: 5 * longest])[:-1] + repr(value[-5 * longest :])[1:]
        whole = len(value) + 2
    else:
        text = repr(value)
        whole = len(text)
    return printable(_cut(text, longest, whole))


def shortened(text: str, longest: int = LONGEST_MESSAGE) -> str:
    r"""A message in one line, with the middle left out if it is very long.

    Args:
        text: The message.
        longest: Most characters to show.

    Example:
        >>> shortened("one\ntwo")
        'one two'
    """
    return printable(" ".join(_cut(text, longest, len(text)).split()))


def printable(text: str) -> str:
    """The text with what no terminal can encode written as escapes.

    Args:
        text: Any text, perhaps with half characters that the system made of bytes that are not UTF-8.
    """
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _cut(text: str, longest: int, whole: int) -> str:
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]}...{text[-half:]} ({whole:,} characters)"
