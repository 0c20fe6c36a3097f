"""Triton programs on the emulator: ``@triton.jit``, autotuned, Gluon; see :func:`emulate`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from tilelang.emulator.device import LaunchReport
from tilelang.emulator.gpus import choosing, find
from tilelang.emulator.launch_options import options as launch_options
from tilelang.errors import ConfigError


class Emulation:
    """The emulated GPU that :func:`emulate` yields.

    Attributes:
        arch: the target, as ``"sm_90a"``.
        last_launch: the report of the last launch that succeeded; None before that.
    """

    def __init__(self, arch: str) -> None:
        self.arch = arch
        self.last_launch: LaunchReport | None = None

    def __repr__(self) -> str:
        return f"Emulation({self.arch!r})"


@contextlib.contextmanager
def emulate(arch: str = "sm_100a", gpu: str = "", **options: Any) -> Iterator[Emulation]:
    """Programs in Triton run on the emulator inside of the block, with tensors of the CPU::

        with tilelang.emulator.triton.emulate("sm_90a"):
            kernel[grid](x, y, n, BLOCK=128)

    It makes an emulated GPU the active driver of Triton, and lets its compiler stop at PTX. Kernels
    need no change; autotuning ranks by the timing model. Blocks nest, the inner one counts. The
    driver is that of the process, so one thread at a time uses it.

    Args:
        arch: an architecture of :class:`~tilelang.emulator.Device`: ``"sm_80"``, ``"sm_90a"``,
            ``"sm_100a"``, ``"sm_103a"``, ``"sm_120a"`` or ``"sm_121a"``.
        gpu: which GPU of it programs see and launches are timed for, as ``"GB200"``; "": the usual
            one.
        options: of launches, see :class:`tilelang.emulator.Options`.

    Raises:
        ConfigError: Triton is not installed.
        UserError: no such architecture, no such GPU of it, or no such option.
    """
    try:
        from tilelang.emulator.triton.driver import activated
    except ModuleNotFoundError as error:
        if error.name != "triton" and not str(error.name).startswith("triton."):
            raise
        raise ConfigError(
            "Triton is needed to emulate its programs", notes=["pip install 'triton>=3.7'"]
        ) from None
    emulation = Emulation(arch)
    with choosing(find(arch, gpu)), launch_options(**options), activated(emulation):
        yield emulation


__all__ = ["Emulation", "emulate"]
