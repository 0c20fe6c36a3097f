"""``T.CUDASourceCodeKernel``: a launch whose body is the user's CUDA source."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from .. import errors
from ..ir import span
from ..ir.buffer import Buffer
from ..ir.evaluate import variables
from .builder import current
from .kernel import Kernel
from .pointer import call_extern

# A kernel becomes a function that ours calls: it keeps its parameters and its indices.
_SPECIFIERS = re.compile(r"\b__global__\b|\b__launch_bounds__\s*\([^()]*\)")


def _as_function(source: str) -> str:
    def replaced(match: re.Match[str]) -> str:
        return "__device__ __forceinline__" if match.group() == "__global__" else ""

    return _SPECIFIERS.sub(replaced, source)


def _text(source: str | os.PathLike[str]) -> str:
    if isinstance(source, str) and ("\n" in source or "{" in source):
        return source
    if not isinstance(source, (str, os.PathLike)):
        raise errors.ArgumentError(
            f"T.CUDASourceCodeKernel: source_code_or_path={source!r}",
            span=span.here(),
            notes=["pass CUDA source, or the path of a file with it"],
        )
    path = Path(source)
    if not path.is_file():
        raise errors.ArgumentError(
            f"T.CUDASourceCodeKernel: there is no file {str(source)!r}",
            span=span.here(),
            notes=["pass CUDA source, or the path of a file with it"],
        )
    return path.read_text()


# The name and the opening parenthesis of a kernel's definition or declaration.
_ENTRY = re.compile(
    r"\b__global__\b(?:__launch_bounds__\s*\([^()]*\)|[\w:<>*&\s])*?"
    r"\b(?!__launch_bounds__\b)(\w+)\s*\("
)
_COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def _entries(source: str) -> dict[str, int]:
    """The ``__global__`` functions of a source, and how many parameters each has."""
    text = _COMMENTS.sub(" ", source)
    return {match[1]: _count_parameters(text, match.end()) for match in _ENTRY.finditer(text)}


def _count_parameters(text: str, start: int) -> int:
    depth, commas, end = 1, 0, start
    while depth and end < len(text):
        depth += (text[end] in "([<{") - (text[end] in ")]>}")
        commas += depth == 1 and text[end] == ","
        end += 1
    return commas + 1 if text[start : end - 1].strip() not in ("", "void") else 0


def _extents(tensors: list[Buffer]) -> list[Any]:
    """The variables in shapes and strides of tensors, in order."""
    sizes = [size for tensor in tensors for size in (*tensor.shape, *tensor.strides)]
    return list(dict.fromkeys(each for size in sizes for each in variables(size)))


def _arguments(parameters: list[Any], entry_name: str, takes: int) -> list[Any]:
    """Returns the arguments of a kernel that takes this many parameters.

    Raises:
        SemanticsError: it takes neither as many as the function has, nor those and the extents.
    """
    extents = [
        extent
        for extent in _extents([value for value in parameters if isinstance(value, Buffer)])
        if not any(extent.same_as(value) for value in parameters if not isinstance(value, Buffer))
    ]
    arguments = [value.data if isinstance(value, Buffer) else value for value in parameters]
    if takes == len(arguments):
        return arguments
    if takes == len(arguments) + len(extents):
        return arguments + extents
    named = ", ".join(value.name for value in [*parameters, *extents])
    raise errors.SemanticsError(
        f"{entry_name} takes {takes} parameters; this function has {len(arguments)} and "
        f"{len(extents)} extents that are known only at run time",
        span=span.here(),
        notes=[f"what it is given, in order: {named}; the extents may be left out"],
    )


def CUDASourceCodeKernel(
    *blocks: Any,
    threads: Any = None,
    source_code_or_path: str | os.PathLike[str],
    entry_name: str = "main_kernel",
    cluster_dims: Any = None,
    prelude: str | None = None,
) -> None:
    """Launches a kernel that is written in CUDA, with the function's parameters as arguments.

    Args:
        blocks, threads, cluster_dims: as of :func:`Kernel`.
        source_code_or_path: the source, or a file with it; it includes headers of CUDA alone.
        entry_name: of the ``__global__`` function; it has the parameters of this function, in
            order: pointers for tensors. After them it may take the extents and strides of the
            tensors that are known only at run time, each once, in the order of the tensors.
        prelude: C++ source placed before it.

    Raises:
        ArgumentError: there is no such file.
        SemanticsError: the source has no such function, or one with other parameters.
    """
    builder = current("T.CUDASourceCodeKernel")
    source = _text(source_code_or_path)
    entries = _entries(source)
    if entry_name not in entries:
        available = ", ".join(entries) or "none"
        raise errors.SemanticsError(
            f"the source of T.CUDASourceCodeKernel has no __global__ function {entry_name}. "
            f"Available entries: {available}",
            span=span.here(),
            notes=["name it: entry_name="],
        )
    lines = "\n".join(filter(None, [prelude, _as_function(source)]))
    arguments = _arguments(builder.parameters.in_order(), entry_name, entries[entry_name])
    with Kernel(*blocks, threads=threads, prelude=lines, cluster_dims=cluster_dims):
        call_extern("void", entry_name, *arguments)


__all__ = ["CUDASourceCodeKernel"]
