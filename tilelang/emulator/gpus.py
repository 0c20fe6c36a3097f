"""GPUs that the emulator stands for: what programs ask of a device, and which one is chosen."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from dataclasses import dataclass

from tilelang.errors import UserError


@dataclass(frozen=True)
class Gpu:
    """A GPU as its driver reports it; the figures come from data sheets.

    Attributes:
        name, arch: ``"GB200"``, ``"sm_100a"``.
        sms: multiprocessors.
        gigabytes, l2_mib: sizes of the memory and of the L2 cache.
        shared: most bytes of shared memory that a block may ask for.
        threads: most threads that a multiprocessor holds.
        sm_khz, memory_khz, bus_bits: clocks, and the width of the memory.
    """

    name: str
    arch: str
    sms: int
    gigabytes: int
    l2_mib: int
    shared: int
    threads: int
    sm_khz: int
    memory_khz: int
    bus_bits: int

    @property
    def capability(self) -> tuple[int, int]:
        """The compute capability: (10, 0) of ``"sm_100a"``."""
        return divmod(int(self.arch.removeprefix("sm_").removesuffix("a")), 10)


#: The usual GPU of an architecture comes before its others.
GPUS = (
    Gpu("A100", "sm_80", 108, 80, 40, 166912, 2048, 1410000, 1215000, 5120),
    Gpu("H200", "sm_90a", 132, 141, 50, 232448, 2048, 1980000, 3201000, 6144),
    Gpu("B200", "sm_100a", 148, 180, 126, 232448, 2048, 1965000, 3996000, 8192),
    Gpu("GB200", "sm_100a", 152, 186, 126, 232448, 2048, 1965000, 3996000, 8192),
    Gpu("B300", "sm_103a", 148, 288, 126, 232448, 2048, 2070000, 3996000, 8192),
    Gpu("RTX 5090", "sm_120a", 170, 32, 96, 101376, 1536, 2410000, 14000000, 512),
    Gpu("RTX PRO 6000", "sm_120a", 188, 96, 128, 101376, 1536, 2617000, 14000000, 512),
    Gpu("DGX Spark", "sm_121a", 48, 128, 24, 101376, 1536, 2500000, 4266000, 256),
)
_chosen: contextvars.ContextVar[Gpu | None] = contextvars.ContextVar("gpu", default=None)


def find(arch: str, name: str = "") -> Gpu:
    """Returns a GPU of an architecture: the chosen or usual one, or that of a name.

    Raises:
        UserError: there is none.
    """
    found = [gpu for gpu in GPUS if gpu.arch == arch]
    if not found:
        known = dict.fromkeys(gpu.arch for gpu in GPUS)
        raise UserError(f"no architecture {arch!r}; the emulator knows {', '.join(known)}")
    chosen = _chosen.get()
    if not name:
        return chosen if chosen in found else found[0]
    for gpu in found:
        if gpu.name == name:
            return gpu
    names = ", ".join(repr(gpu.name) for gpu in found)
    raise UserError(f"gpu={name!r} is no GPU of {arch}; choose from {names}")


@contextlib.contextmanager
def choosing(gpu: Gpu) -> Iterator[None]:
    """Makes a GPU the one that launches on its architecture are timed for inside of the block."""
    token = _chosen.set(gpu)
    try:
        yield
    finally:
        _chosen.reset(token)
