"""``tvm.target.Target``: the architecture to compile for."""

from __future__ import annotations

from typing import Any

from .. import target as targets


class _Described(type):
    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, targets.Target)


class Target(metaclass=_Described):
    """``Target("cuda")``, ``Target({"kind": "cuda", "arch": "sm_90a"})``: see tilelang.target.

    Raises:
        TargetError: the description names no supported architecture.
    """

    def __new__(cls, target: Any = "auto", host: Any = None) -> Any:
        """Returns the row of the table of architectures; ``host`` is accepted."""
        del host
        return targets.resolve(target)

    @staticmethod
    def current(allow_none: bool = True) -> Any:
        """Returns the target that ``"auto"`` stands for: of ``with target:``, or by default."""
        del allow_none
        return targets.resolve("auto")


__all__ = ["Target"]
