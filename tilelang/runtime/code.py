"""The code of a compiled program: PTX, and machine code where something needs it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from functools import cached_property
from typing import Literal

from .. import _ffi
from ..target import device_target
from . import cache
from .nvrtc import Artifact

_assemble: ContextVar[Literal["no", "needed", "all"]] = ContextVar("assemble", default="no")


@contextlib.contextmanager
def assembling(*, if_needed: bool = False) -> Iterator[None]:
    """Makes machine code at once meanwhile: kernels that are timed by the model need its registers.

    Compiling first without it and then with it takes the time of both.

    Args:
        if_needed: only where registers may decide how many blocks an SM holds.
    """
    token = _assemble.set("needed" if if_needed else "all")
    try:
        yield
    finally:
        _assemble.reset(token)


class Code:
    """PTX that is assembled to machine code when that is first asked for.

    The emulator runs the PTX, and ptxas takes a third to a half of a compilation: without a GPU
    nobody waits for it. Where there is one that runs the code, all is compiled at once.
    """

    def __init__(
        self,
        source: str,
        arch: str,
        options: tuple[str, ...] = (),
        *,
        assemble: bool = False,
        registers_decide: bool = True,
        made: Artifact | None = None,
    ) -> None:
        """Compiles a program, or reads it from the disk cache.

        Args:
            source: CUDA C++.
            arch: as ``"sm_90a"``.
            options: of NVRTC.
            assemble: makes machine code now even where no GPU runs it, so that ptxas has read the
                options.
            registers_decide: how many blocks an SM holds, as far as is known.
            made: the result, if there is one already.

        Raises:
            CompileError, InternalError, ConfigError: as :func:`nvrtc.compile_cuda`.
        """
        self._recipe = source, arch, options
        #: Machine code was made at once: a GPU of this machine runs it, or the caller wanted it.
        wanted = _assemble.get()
        asked = wanted == "all" or (wanted == "needed" and registers_decide)
        self.assembled = assemble or asked or made is not None or _runs_here(arch)
        if made is not None:
            self._whole = made
        recipe = self._recipe
        now = self._whole if self.assembled else cache.compile_cached(*recipe, machine_code=False)
        #: The PTX text.
        self.ptx = now.ptx

    @property
    def cubin(self) -> bytes:
        """The ELF image for the architecture."""
        return self._whole.cubin

    @property
    def log(self) -> str:
        """Returns the messages of NVRTC and ptxas, with the resources of each kernel."""
        return self._whole.log

    @cached_property
    def _whole(self) -> Artifact:
        return cache.compile_cached(*self._recipe)


def _runs_here(arch: str) -> bool:
    devices = range(_ffi.get("runtime.DeviceCount")())
    return any(str(device_target(index)) == arch for index in devices)


__all__ = ["Code", "assembling"]
