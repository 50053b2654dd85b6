"""Keep freed memory in the training process (glibc only), which makes steps faster.

glibc gives large blocks back to the system as soon as they are freed; the next step asks for them again, and every page
is filled with zeros and mapped again. A training step frees and asks for the same blocks over and over, and takes some
percent less time without that (docs/performance.md). This changes the process as a whole, so it is the laboratory's to
do, never the library's.
"""

import ctypes
import os
import sys

SWITCH = "AON_KEEP_MEMORY"  # 0 leaves the C library as it is
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # names of mallopt(3)
_LARGE = 2**31 - 1


def keep_memory() -> bool:
    """Keep freed memory in this process from now on; tells whether that could be done.

    Example:
        >>> keep_memory() in (True, False)
        True
    """
    if os.environ.get(SWITCH) == "0" or not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return all([mallopt(_MMAP_MAX, 0), mallopt(_TRIM_THRESHOLD, _LARGE), mallopt(_TOP_PAD, 2**28)])
