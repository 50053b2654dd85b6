"""Keep tests off the network: they may speak to this machine and to nobody else."""

import errno
import os
import socket
from collections.abc import Callable
from typing import Any


def is_here(host: str) -> bool:
    """Whether an address is one of this machine's: only those can be bound to.

    Example:
        >>> is_here("127.0.0.1"), is_here("localhost"), is_here("8.8.8.8")
        (True, True, False)
    """
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.bind((host, 0))
    except OSError:
        return False
    return True


def stay_off() -> None:
    """Refuse connections of this process to strangers, unless AON_NETWORK=1 asks for them."""
    if os.environ.get("AON_NETWORK") != "1":
        for name in ("connect", "connect_ex"):
            setattr(socket.socket, name, _guarded(getattr(socket.socket, name)))


def _guarded(connect: Callable[..., Any]) -> Callable[..., Any]:
    def guarded(self: socket.socket, address: Any) -> Any:
        # A datagram's "connection" sends nothing; Ray asks in this way for the machine's own address.
        stream = self.family in (socket.AF_INET, socket.AF_INET6) and self.type & socket.SOCK_STREAM
        if stream and not is_here(str(address[0])):
            raise OSError(errno.ENETUNREACH, f"tests have no network; AON_NETWORK=1 allows {address[0]}")
        return connect(self, address)

    return guarded
