"""Check a number that a user gave."""

from aon.lab.errors import LabError


def check_at_least(name: str, value: int, least: int = 1) -> None:
    """Refuse a number that is too small.

    Args:
        name: What the user calls it.
        value: The number.
        least: The smallest that is allowed.

    Raises:
        LabError: naming the number and the limit.

    Example:
        >>> check_at_least("workers", 0)
        Traceback (most recent call last):
        aon.lab.errors.LabError: workers = 0: should be at least 1
    """
    if value < least:
        raise LabError(f"{name} = {value}: should be at least {least}")
