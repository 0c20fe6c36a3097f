"""Questions about targets that programs ask by the name of NVIDIA's compiler."""

from __future__ import annotations

from typing import Any

from .. import target as targets


def get_target_compute_version(target: Any = None) -> str:
    """Returns the compute capability of a target, as ``"9.0"``."""
    row = targets.resolve(target)
    return f"{row.major}.{row.minor}"


def parse_compute_version(version: str) -> tuple[int, int]:
    """Returns ``(9, 0)`` for ``"9.0"``."""
    major, _, minor = version.partition(".")
    return int(major), int(minor or 0)


def get_target_arch(version: str) -> str:
    """Returns ``"90"`` for ``"9.0"``."""
    major, minor = parse_compute_version(version)
    return str(10 * major + minor)


def have_tma(target: Any = None) -> bool:
    """Returns whether the target has the tensor memory accelerator."""
    return bool(targets.resolve(target).has_tma)  # type: ignore[attr-defined]


__all__ = [
    "get_target_arch",
    "get_target_compute_version",
    "have_tma",
    "parse_compute_version",
]
