"""``T.CUDASourceCodeKernel``: a launch whose body is the user's CUDA source."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from .. import errors
from ..ir import span
from ..ir.buffer import Buffer
from .builder import current
from .kernel import Kernel
from .pointer import call_extern

# A kernel becomes a function that ours calls: it keeps its parameters and its indices.
_SPECIFIERS = re.compile(r"\b__global__\b|\b__launch_bounds__\s*\([^()]*\)")


def _as_function(source: str) -> str:
    def replaced(match: re.Match[str]) -> str:
        return "__device__ __forceinline__" if match.group() == "__global__" else ""

    return _SPECIFIERS.sub(replaced, source)


def _text(source: str) -> str:
    if "\n" in source or "{" in source:
        return source
    path = Path(source)
    if not path.is_file():
        raise errors.ArgumentError(
            f"T.CUDASourceCodeKernel: there is no file {source!r}",
            notes=["pass CUDA source, or the path of a file with it"],
        )
    return path.read_text()


def CUDASourceCodeKernel(
    *blocks: Any,
    threads: Any = None,
    source_code_or_path: str,
    entry_name: str = "main_kernel",
    cluster_dims: Any = None,
    prelude: str | None = None,
) -> None:
    """Launches a kernel that is written in CUDA, with the function's parameters as arguments.

    Args:
        blocks, threads, cluster_dims: as of :func:`Kernel`.
        source_code_or_path: the source, or a file with it; it includes headers of CUDA alone.
        entry_name: of the ``__global__`` function; its parameters are those of this function, in
            order: pointers for tensors.
        prelude: C++ source placed before it.

    Raises:
        ArgumentError: there is no such file.
        SemanticsError: the source has no such function.
    """
    builder = current("T.CUDASourceCodeKernel")
    source = _text(source_code_or_path)
    if not re.search(rf"\b{re.escape(entry_name)}\s*\(", source):
        raise errors.SemanticsError(
            f"the source of T.CUDASourceCodeKernel has no function {entry_name}",
            span=span.here(),
            notes=["name it: entry_name="],
        )
    lines = "\n".join(filter(None, [prelude, _as_function(source)]))
    arguments = [
        value.data if isinstance(value, Buffer) else value
        for value in builder.parameters.in_order()
    ]
    with Kernel(*blocks, threads=threads, prelude=lines, cluster_dims=cluster_dims):
        call_extern("void", entry_name, *arguments)


__all__ = ["CUDASourceCodeKernel"]
