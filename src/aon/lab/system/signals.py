"""Handle Ctrl-C and SIGTERM: the first stops a run at a safe point, the second at once."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")


@contextmanager
def stop_requests(insist: bool = True) -> Iterator[threading.Event]:
    """Set an event on the first signal; raise KeyboardInterrupt on the second.

    A signal that the parent process ignores, as `nohup` does with SIGHUP, stays ignored. Outside the main thread,
    where Python allows no handlers, the event is simply never set.

    Args:
        insist: Whether a second signal ends work at once. Under torchrun it must not: Ctrl-C reaches a process twice,
            from the terminal and from torchrun, which kills what has not ended after a while.
    """
    event = threading.Event()

    def handle(_number: int, _frame: FrameType | None) -> None:
        if event.is_set() and insist:
            raise KeyboardInterrupt
        event.set()

    main = threading.current_thread() is threading.main_thread()
    numbers = [getattr(signal, name) for name in _NAMES if main and hasattr(signal, name)]
    numbers = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]
    before = [(number, signal.signal(number, handle)) for number in numbers]
    try:
        yield event
    finally:
        for number, handler in before:
            signal.signal(number, handler)


@contextmanager
def noted_interrupts() -> Iterator[threading.Event]:
    """Set an event on Ctrl-C before KeyboardInterrupt is raised.

    What is interrupted may end in another error: an import of torch has turned the interrupt into a RecursionError.
    The event tells such an error from a fault. Where SIGINT is ignored or handled by others, nothing is changed.
    """
    event = threading.Event()

    def handle(_number: int, _frame: FrameType | None) -> None:
        event.set()
        raise KeyboardInterrupt

    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield event
        return
    signal.signal(signal.SIGINT, handle)
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
