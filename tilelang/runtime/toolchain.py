"""Finds the CUDA command-line tools: in their wheels, else on ``PATH``.

The compiler itself needs none of them. ``ptxas`` checks generated PTX in tests; ``nvdisasm``
shows machine code (``kernel.get_sass()``). No CUDA toolkit has to be installed.
"""

from __future__ import annotations

import functools
import importlib.util
import shutil
import subprocess
import tempfile
from pathlib import Path

_WHEELS = {"ptxas": "nvidia-cuda-nvcc", "nvdisasm": "nvidia-cuda-nvdisasm"}


class ToolNotFoundError(FileNotFoundError):
    """A CUDA command-line tool is neither in a wheel nor on ``PATH``."""


@functools.cache
def find_tool(name: str) -> Path:
    """Returns the path of the CUDA tool ``name``; raises ToolNotFoundError when there is none."""
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations if spec else None) or ():
        for path in sorted(Path(folder).glob(f"cu*/bin/{name}"), reverse=True):
            return path
    found = shutil.which(name)
    if found:
        return Path(found)
    raise ToolNotFoundError(f"{name} was not found: pip install {_WHEELS.get(name, name)}")


def find_ptxas() -> Path:
    """Returns the path of ``ptxas``, the assembler of PTX."""
    return find_tool("ptxas")


def find_nvdisasm() -> Path:
    """Returns the path of ``nvdisasm``, the disassembler of cubins."""
    return find_tool("nvdisasm")


def assembly(ptx: str, arch: str, ptxas: str | Path) -> tuple[bytes, str]:
    """Returns the cubin of a module, empty if ptxas refuses it, and what ``ptxas -v`` says."""
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder, "module.ptx"), Path(folder, "module.cubin")
        source.write_text(ptx, encoding="utf-8")
        command = [str(ptxas), f"-arch={arch}", "-v", str(source), "-o", str(cubin)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return cubin.read_bytes() if done.returncode == 0 else b"", done.stderr


def verbose_assembly(ptx: str, arch: str, ptxas: str | None = None) -> str:
    """Returns what ``ptxas -v`` says of the kernels of a module; "" where it cannot be asked.

    That is where there is no ptxas, or none that takes this PTX.

    Args:
        ptxas: which one to ask; by default the one of :func:`find_ptxas`.
    """
    try:
        tool = ptxas or find_ptxas()
    except ToolNotFoundError:
        return ""
    cubin, log = assembly(ptx, arch, tool)
    return log if cubin else ""
