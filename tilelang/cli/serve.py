"""``tilelang mcp``: serves the commands as tools of the Model Context Protocol on stdio."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import click

from .. import __version__
from ..errors import ConfigError
from .output import guarded

#: The largest error text and document of a tool in bytes. More is a flood of the program.
_MOST_ERROR_TEXT = 4000
_MOST_DOCUMENT = 8 << 20


@click.command()
@click.option("--timeout", default=300.0, show_default=True, metavar="SECONDS",
              help="End a tool that takes longer.")  # fmt: skip
@guarded
def mcp(timeout: float) -> None:
    """Serve the commands to a client of the Model Context Protocol (MCP) on stdio.

    It needs an extra: pip install 'tilelang-sm100[mcp]'. Each tool runs in a process of its own.
    """
    server(timeout).run("stdio")


def server(timeout: float) -> Any:
    """Returns the server with its tools.

    Args:
        timeout: seconds after which the process of a tool is killed.

    Raises:
        ConfigError: the package ``mcp`` is not installed, or too old.
    """
    try:
        from mcp.server.mcpserver import MCPServer
    except ModuleNotFoundError:
        raise ConfigError(
            "the server needs the package mcp, version 2",
            notes=["pip install 'tilelang-sm100[mcp]'"],
        ) from None
    made = MCPServer("tilelang", instructions=_INSTRUCTIONS, version=__version__)
    for tool in _tools(timeout):
        made.tool()(tool)
    return made


_INSTRUCTIONS = (
    "Checks without a GPU whether GPU kernels (TileLang in Python, CUDA C++, PTX) are right, "
    "race-free and fast. `subject` is the path of a file, or path::name for one kernel of "
    "a Python file; check_source takes the text itself. Results are JSON documents with `ok`."
)


def _command(timeout: float, *words: str, folder: str | None = None) -> dict[str, Any]:
    """Runs a command in a process of its own, and returns its document."""
    line = [sys.executable, "-m", "tilelang", *words, "--json"]
    with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            line, stdin=subprocess.DEVNULL, stdout=printed, stderr=errors, cwd=folder,
            start_new_session=True,
        )  # fmt: skip
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            return {"ok": False, "error": f"there was no result after {timeout:g} s"}
        finally:  # with the processes that the program has started
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        document = _end_of(printed, _MOST_DOCUMENT + 1)
        try:
            if len(document) <= _MOST_DOCUMENT:
                return json.loads(document)
        except json.JSONDecodeError:
            pass
        text = _end_of(errors, _MOST_ERROR_TEXT) or document[-_MOST_ERROR_TEXT:]
        return {"ok": False, "error": f"it ended with status {process.returncode}: {text}"}


def _end_of(file: IO[bytes], size: int) -> str:
    """Returns the last bytes of a file as text."""
    file.seek(max(0, file.seek(0, os.SEEK_END) - size))
    return file.read().decode(errors="replace")


def _options(**values: Any) -> list[str]:
    """Returns options of a command line; a list repeats its option, empty values are left out."""
    words = []
    for name, value in values.items():
        for each in value if isinstance(value, list) else [value]:
            if each not in (None, ""):
                words += [f"--{name}", str(each)]
    return words


def _tools(timeout: float) -> list[Callable[..., dict[str, Any]]]:
    return [*_judging_tools(timeout), *_timing_tools(timeout), *_showing_tools(timeout)]


def _judging_tools(timeout: float) -> list[Callable[..., dict[str, Any]]]:
    def check(
        subject: str, shapes: list[str] | None = None, targets: list[str] | None = None,
        seeds: int = 1, reference: str = "", grid: str = "", block: str = "",
        args: list[str] | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Finds wrong results (where, by how much), races and missing waits; predicts the time.

        shapes: such as ["M=128,N=64"], for path::name; grid, block and args ("f32[64]:random") are
        of PTX and CUDA C++; reference: "function" or "file.py::function".
        """
        options = _options(shapes=shapes or [], target=targets or [], seeds=seeds,
                           reference=reference, grid=grid, block=block, arg=args or [])  # fmt: skip
        return _command(timeout, "check", subject, *options)

    def check_source(
        source: str, kernel: str = "", shapes: list[str] | None = None,
        targets: list[str] | None = None, seeds: int = 1,
    ) -> dict[str, Any]:  # fmt: skip
        """Does what check does, for the text of a Python file; kernel names one function of it."""
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "source.py").write_text(source, encoding="utf-8")
            subject = f"source.py::{kernel}" if kernel else "source.py"
            options = _options(shapes=shapes or [], target=targets or [], seeds=seeds)
            return _command(timeout, "check", subject, *options, folder=folder)

    def grade(
        problem: str, solution: str, workloads: str = "", target: str = "", seeds: int = 1
    ) -> dict[str, Any]:
        """Judges a solution of a KernelBench or FlashInfer-Bench problem; both are files."""
        options = _options(workloads=workloads, target=target, seeds=seeds)
        return _command(timeout, "grade", problem, solution, *options)

    return [check, check_source, grade]


def _timing_tools(timeout: float) -> list[Callable[..., dict[str, Any]]]:
    def profile(subject: str, shapes: str = "", target: str = "") -> dict[str, Any]:
        """Predicts how long the kernels of a file take on a GPU, and which lines take the time."""
        return _command(timeout, "profile", subject, *_options(shapes=shapes, target=target))

    def compare(
        first: str, second: str, shapes: list[str] | None = None, target: str = ""
    ) -> dict[str, Any]:
        """Compares the predicted times of the slowest kernels of two files."""
        options = _options(shapes=shapes or [], target=target)
        return _command(timeout, "compare", first, second, *options)

    def bench(subject: str, shapes: str = "", target: str = "") -> dict[str, Any]:
        """Measures the kernels on a GPU; predicts their times without one."""
        return _command(timeout, "bench", subject, *_options(shapes=shapes, target=target))

    def autotune(
        subject: str, values: list[str], shapes: str = "", target: str = ""
    ) -> dict[str, Any]:
        """Finds the fastest configuration of path::name; values such as ["block_M=64,128"]."""
        options = [*_options(shapes=shapes, target=target), *_options(**{"try": values})]
        return _command(timeout, "autotune", subject, *options)

    return [profile, compare, bench, autotune]


def _showing_tools(timeout: float) -> list[Callable[..., dict[str, Any]]]:
    def ir(subject: str, shapes: str = "", target: str = "") -> dict[str, Any]:
        """Shows how each compiler pass changes the program."""
        return _command(timeout, "ir", subject, *_options(shapes=shapes, target=target))

    def export(
        subject: str, folder: str, form: str = "ptx", shapes: str = "", target: str = ""
    ) -> dict[str, Any]:
        """Writes CUDA C++ ("cuda"), "ptx", "cubin" or "sass" of the kernels into a folder."""
        options = _options(form=form, output=folder, shapes=shapes, target=target)
        return _command(timeout, "export", subject, *options)

    def emulate(
        file: str, arch: str = "sm_100a", entry: str = "", grid: str = "", block: str = "",
        args: list[str] | None = None, sanitize: str = "report",
    ) -> dict[str, Any]:  # fmt: skip
        """Runs one kernel of a PTX or CUDA C++ file; args such as "f32[64]:random"."""
        options = _options(arch=arch, entry=entry, grid=grid, block=block, arg=args or [],
                           sanitize=sanitize)  # fmt: skip
        return _command(timeout, "emulate", file, *options)

    def doctor() -> dict[str, Any]:
        """Shows what is installed here, what is missing, and what to do about it."""
        return _command(timeout, "doctor")

    return [ir, export, emulate, doctor]
