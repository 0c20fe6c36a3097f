"""Machine code as text."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from ..errors import InternalError
from . import toolchain


def disassemble(cubin: bytes) -> str:
    """Returns the SASS of a cubin.

    Raises:
        toolchain.ToolNotFoundError: the wheel ``nvidia-cuda-nvdisasm`` is not installed.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        command = [str(toolchain.find_nvdisasm()), "--print-code", str(path)]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise InternalError(f"nvdisasm failed: {done.stderr.strip()}")
    return done.stdout
