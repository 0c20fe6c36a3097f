"""Targets: the architectures that kernels are compiled for.

A target is written ``"auto"``, ``"sm_80"``, ``"sm_90a"``, ``"sm_100a"``, ``"sm_103a"`` (B300) or
``"sm_120a"`` (RTX 50: no tensor memory, no clusters, 99 KiB of shared memory). Also understood:
``"cuda"`` (as ``"auto"``), architectures without their suffix (``"sm_90"``, ``"sm_100"``),
``"cuda -arch=sm_90a"`` and ``{"kind": "cuda", "arch": "sm_90a"}``. Inside ``with target:``, a
:class:`Target`, ``"auto"`` stands for it.

What the compiler decides by the number of SMs, such as how many persistent blocks there are, it
decides for the first GPU of this machine, if that is one of the target; else for the part that the
target stands for: A100 (108), H200 (132), B200 and B300 (148), RTX 5090 (170).
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any

from tvm_ffi import Object, register_object

from . import _ffi, env
from .errors import TargetError


@register_object("tl.Target", init=False)
class Target(Object):
    """One row of the architecture table in ``src/target``: limits in bytes, threads, registers."""

    arch: str
    major: int
    minor: int
    sm_count: int

    def __init__(self, *_: Any) -> None:
        raise TypeError("targets are made by tilelang.target.resolve")

    def __str__(self) -> str:
        return str(self.arch)

    def __enter__(self) -> Target:
        _entered.set((*_entered.get(), self))
        return self

    def __exit__(self, *_: Any) -> None:
        _entered.set(_entered.get()[:-1])


#: Targets of ``with target:`` in this thread, innermost last.
_entered: ContextVar[tuple[Target, ...]] = ContextVar("targets", default=())
#: Returns them.
entered = _entered.get


@contextlib.contextmanager
def outside() -> Iterator[None]:
    """Leaves all of them."""
    token = _entered.set(())
    try:
        yield
    finally:
        _entered.reset(token)


@functools.cache
def architectures() -> dict[str, Target]:
    """Returns every supported architecture by name, oldest first."""
    return {str(target.arch): target for target in _ffi.get("target.All")()}


def device_target(device_id: int = 0) -> Target | None:
    """Returns the target that fits a GPU of this machine, with as many SMs; None if none does.

    A GPU runs code of its own major compute capability only where the name ends in ``a``;
    ``sm_80`` serves every newer one of the same major number.
    """
    capability = _ffi.get("runtime.DeviceCapability")(device_id)
    matching = [t for t in architectures().values() if _runs_on(t, tuple(capability))]
    return _counted(matching[-1], device_id) if matching else None


def _counted(target: Target, device_id: int = 0) -> Target:
    """Returns the target with the SMs of a GPU, where that is one of the target."""
    capability = tuple(_ffi.get("runtime.DeviceCapability")(device_id))
    if not _runs_on(target, capability):
        return target
    return with_sm_count(target, _ffi.get("runtime.DeviceMultiprocessors")(device_id))


def with_sm_count(target: Target, sm_count: int) -> Target:
    """Returns the target of a GPU with so many SMs, such as 114 for the H100 of a PCIe card.

    Raises:
        ValueError: it is no positive number.
    """
    if sm_count < 1:
        raise ValueError(f"a GPU has at least one SM, not {sm_count}")
    return _ffi.get("target.WithSmCount")(target, sm_count)  # type: ignore[no-any-return]


def _runs_on(target: Target, capability: tuple[int, ...]) -> bool:
    wanted = (target.major, target.minor)
    if str(target.arch).endswith("a"):
        return capability == wanted
    return capability[:1] == wanted[:1] and capability >= wanted


def resolve(target: Any = "auto") -> Target:
    """Returns the target that a user's description names.

    ``"auto"`` is the target of ``with target:``, else ``TILELANG_DEFAULT_TARGET`` if set, else the
    GPU of this machine, else ``sm_100a``, which the emulator executes.

    Raises:
        TargetError: the description names no supported architecture.
    """
    if isinstance(target, Target):
        return target
    arch = _architecture_name(target)
    if arch is not None:
        return _named(arch, target)
    if entered():
        return entered()[-1]
    chosen = env.default_target()
    if chosen and chosen not in ("auto", "cuda"):
        return resolve(chosen)
    return device_target() or architectures()["sm_100a"]


def _architecture_name(target: Any) -> str | None:
    """Extracts "sm_..." from a description; None for the automatic choice."""
    if target is None:
        return None
    if isinstance(target, Mapping):
        if target.get("kind", "cuda") != "cuda":
            raise _unknown(target)
        return target.get("arch")
    if not isinstance(target, str):
        raise _unknown(target)
    text = target.strip()
    if text in ("auto", "cuda"):
        return None
    match = re.fullmatch(r"cuda\s+-?-?arch=(\S+)", text)
    return match[1] if match else text


def _named(arch: str, description: Any) -> Target:
    table = architectures()
    found = table.get(arch) or table.get(arch + "a")
    if found is None:
        raise _unknown(description)
    return _counted(found)


def _unknown(description: Any) -> TargetError:
    names = ", ".join(f'"{name}"' for name in architectures())
    return TargetError(
        f"unknown target {description!r}",
        notes=[
            f'use one of {names}, or "auto" for the GPU of this machine; only NVIDIA GPUs '
            "are supported"
        ],
    )
