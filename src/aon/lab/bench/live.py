"""Count the bytes of live tensors, and their peak."""

import weakref
from collections.abc import Iterable, Mapping
from typing import Any, Self

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveBytes(TorchDispatchMode):
    """Counts the storages that operations create while it is active, and those given to it, until they are freed.

    Every operation is seen, in forward, backward and optimiser, also those inside an autograd.Function. Memory that an
    operation allocates and frees while it runs, such as a convolution's workspace, is not counted.

    Attributes:
        now: Bytes alive.
        peak: Most bytes that were alive at once.

    Example:
        >>> with LiveBytes() as live:
        ...     a = torch.zeros(1000)
        ...     b = a + 1
        ...     del a
        ...     c = b.view(10, 100)
        >>> live.peak, live.now
        (8000, 4000)
    """

    def __init__(self, known: Iterable[Tensor] = ()) -> None:
        super().__init__()
        self.now: int = 0
        self.peak: int = 0
        self._alive: dict[int, weakref.ref[torch.UntypedStorage]] = {}
        for tensor in known:
            self._count(tensor)

    def __enter__(self) -> Self:
        """Begin to count."""
        super().__enter__()
        return self

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Do the operation, then count what it made."""
        output = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(output):
            if isinstance(leaf, Tensor):
                self._count(leaf)
        return output

    def _count(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key in self._alive or not size:
            return

        def freed(_: object) -> None:
            del self._alive[key]
            self.now -= size

        self._alive[key] = weakref.ref(storage, freed)
        self.now += size
        self.peak = max(self.peak, self.now)
