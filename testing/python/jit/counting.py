"""What eager functions have compiled."""

from __future__ import annotations

from tilelang.jit import EagerFunction


def kernels_of(function: EagerFunction) -> int:
    """Returns how many kernels an eager function has looked up by its arguments."""
    return sum(len(plan.kernels) for plan in function._plans.values())
