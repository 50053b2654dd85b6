"""Ctrl-C and its kin as a request: asked once, work stops at a safe place; asked twice, at once."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")


@contextmanager
def stop_requests() -> Iterator[threading.Event]:
    """Turn the first signal to stop into an event; the second raises KeyboardInterrupt, as usual.

    Outside the main thread, where Python allows no handlers, the event is simply never set.
    """
    event = threading.Event()

    def handle(_number: int, _frame: FrameType | None) -> None:
        if event.is_set():
            raise KeyboardInterrupt
        event.set()

    main = threading.current_thread() is threading.main_thread()
    numbers = [getattr(signal, name) for name in _NAMES if main and hasattr(signal, name)]
    before = [(number, signal.signal(number, handle)) for number in numbers]
    try:
        yield event
    finally:
        for number, handler in before:
            signal.signal(number, handler)
