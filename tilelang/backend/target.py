"""Resolves the description of a target."""

from __future__ import annotations

from typing import Any

from .. import target as targets


def determine_target(target: Any = "auto", return_object: bool = False) -> Any:
    """Returns the target that a description names.

    Args:
        target: see :mod:`tilelang.target`.
        return_object: a :class:`tilelang.target.Target`; else its name.

    Raises:
        TargetError: no supported architecture.
    """
    found = targets.resolve(target)
    return found if return_object else str(found)


def target_is_cuda(target: Any) -> bool:
    """Returns whether a description names an NVIDIA GPU: always, or it is refused."""
    return targets.resolve(target) is not None


__all__ = ["determine_target", "target_is_cuda"]
