"""``tilelang doctor``: shows what is installed on this machine, and what is missing."""

from __future__ import annotations

import importlib.util
import os
import platform
from collections.abc import Callable, Iterator
from importlib import metadata
from typing import NamedTuple

import click

from .. import __version__, _ffi, env
from .._owner import DISTRIBUTION, advice
from ..runtime import nvrtc, toolchain
from ..target import device_target
from .output import bad, document, emit, faint, good, guarded, json_option


class Finding(NamedTuple):
    """The state of one component.

    Attributes:
        name: name of the component.
        state: ``"ok"``, ``"missing"`` (an optional component) or ``"bad"``.
        text: what was found, or what to do.
    """

    name: str
    state: str
    text: str


def owners() -> list[str]:
    """Returns the distributions in this environment that install a package ``tilelang``."""
    found = set()
    for each in metadata.distributions():
        # metadata.packages_distributions() would parse the names of all files of torch.
        files = each.read_text("RECORD") or ""
        packages = (each.read_text("top_level.txt") or "").split()
        if "tilelang" in packages or "tilelang/__init__.py" in files:
            found.add(each.name or DISTRIBUTION)
    return sorted(found)


def _package() -> Finding:
    found = [name for name in owners() if name.lower().replace("_", "-") != DISTRIBUTION]
    if found:
        return Finding("package", "bad", advice(", ".join(found)))
    return Finding(
        "package",
        "ok",
        f"{DISTRIBUTION} {__version__} installs `import tilelang`, {_ffi.LIBRARY_PATH}",
    )


def _gpu() -> Finding:
    target = device_target()
    if target is None:
        return Finding("GPU", "missing", "none that a target fits: kernels run on the emulator")
    return Finding("GPU", "ok", f"target {target}")


def _nvrtc() -> Finding:
    return Finding("NVRTC", "ok", f"{nvrtc.version()}, headers in {nvrtc.cuda_include()}")


def _tools() -> Finding:
    found, lacking = [], []
    for name in ("ptxas", "nvdisasm"):
        try:
            found.append(f"{name} {toolchain.find_tool(name)}")
        except toolchain.ToolNotFoundError as error:
            lacking.append(str(error))
    if lacking:
        return Finding("CUDA tools", "missing", "; ".join(lacking) + " (optional)")
    return Finding("CUDA tools", "ok", ", ".join(found))


def _module(name: str, minimum: str, purpose: str) -> Finding:
    if importlib.util.find_spec(name) is None:
        return Finding(name, "missing", f"not installed; {purpose}")
    version = metadata.version(name)
    numbers = [int("".join(filter(str.isdigit, part)) or 0) for part in version.split(".")[:2]]
    if numbers < [int(part) for part in minimum.split(".")]:
        return Finding(name, "bad", f"{version} is too old: {minimum} is needed")
    return Finding(name, "ok", version)


def _cache() -> Finding:
    folder = env.cache_directory()
    if env.flag("TILELANG_DISABLE_CACHE"):
        return Finding("cache", "missing", "switched off by TILELANG_DISABLE_CACHE")
    parent = folder
    while not parent.exists():
        parent = parent.parent
    if not os.access(parent, os.W_OK):
        return Finding("cache", "bad", f"{folder} cannot be written: set TILELANG_CACHE_DIR")
    return Finding("cache", "ok", str(folder))


def _emulator() -> Finding:
    known = list(_ffi.get("emulator.Architectures")())
    return Finding("emulator", "ok", ", ".join(map(str, known)))


_CHECKS: tuple[tuple[str, Callable[[], Finding]], ...] = (
    ("package", _package),
    ("emulator", _emulator),
    ("GPU", _gpu),
    ("NVRTC", _nvrtc),
    ("CUDA tools", _tools),
    ("torch", lambda: _module("torch", "2.10", "needed for torch tensors and this command line")),
    ("triton", lambda: _module("triton", "3.6", "needed to emulate programs in Triton")),
    ("cache", _cache),
)


def examine() -> Iterator[Finding]:
    """Yields the state of each component; one that cannot be examined is bad."""
    python = platform.python_version()
    yield Finding("system", "ok", f"Python {python}, {platform.system()} {platform.machine()}")
    for name, look in _CHECKS:
        try:
            yield look()
        except Exception as error:
            yield Finding(name, "bad", str(error))


@click.command()
@json_option
@guarded
def doctor(as_json: bool) -> None:
    """Show what is installed, what is missing, and what to do about it.

    The exit status is 1 if a component is bad. Missing components are optional.
    """
    found = list(examine())
    ok = all(finding.state != "bad" for finding in found)
    marks = {"ok": good("ok     "), "missing": faint("missing"), "bad": bad("bad    ")}
    lines = [f"{marks[finding.state]}  {finding.name:<10}  {finding.text}" for finding in found]
    content = document("doctor", ok=ok, findings=[finding._asdict() for finding in found])
    emit(content, "\n".join(lines), as_json)
    raise SystemExit(0 if ok else 1)
