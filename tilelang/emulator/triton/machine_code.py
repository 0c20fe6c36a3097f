"""Machine code of emulated programs, for ``kernel.asm["sass"]``."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator

from triton.backends.nvidia.compiler import get_ptxas
from triton.compiler import compiler

from tilelang.emulator.triton.launcher import Program
from tilelang.errors import UserError
from tilelang.runtime import toolchain


def _cubin(ptx: str) -> bytes:
    """Returns what Triton's ptxas makes of a program.

    Raises:
        UserError: ptxas refuses the program.
    """
    arch = re.search(r"^\.target\s+(sm_\d+[a-z]?)", ptx, re.MULTILINE)
    assert arch is not None, ptx[:200]
    capability = int(re.sub(r"\D", "", arch[1]))
    cubin, log = toolchain.assembly(ptx, arch[1], get_ptxas(capability).path)
    if not cubin:
        raise UserError(f"ptxas does not assemble the program:\n{log.strip()}")
    return cubin


@contextlib.contextmanager
def disassembled() -> Iterator[None]:
    """Lets Triton disassemble emulated programs inside of the block.

    Their data is PTX, which Triton's disassembler does not take.
    """
    original = compiler.get_sass

    @functools.wraps(original)
    def get_sass(binary: bytes, fun: str | None = None) -> str:
        ptx = Program.ptx_of(binary)
        return original(_cubin(ptx) if ptx else binary, fun)  # type: ignore[no-any-return]

    compiler.get_sass = get_sass
    try:
        yield
    finally:
        compiler.get_sass = original
