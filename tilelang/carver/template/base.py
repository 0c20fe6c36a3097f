"""The base of all templates."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, TypeVar

from ...errors import ConfigError, DTypeError
from ...language import dtype as as_dtype
from ..arch import CUDA, auto_infer_current_arch
from ..hint import Hint

Self = TypeVar("Self", bound="Template")


@dataclasses.dataclass
class Template:
    """A kind of kernel with its sizes."""

    def __post_init__(self) -> None:
        self._arch: CUDA | None = None
        self._need_types()

    @property
    def arch(self) -> CUDA:
        """The GPU that hints are for: that of :meth:`with_arch`, else what "auto" stands for."""
        if self._arch is None:
            self._arch = auto_infer_current_arch()
        return self._arch

    def with_arch(self: Self, arch: Any) -> Self:
        """Sets the GPU, one of :mod:`tilelang.carver.arch` or a target; returns the template."""
        self._arch = arch if isinstance(arch, CUDA) else CUDA(arch)
        return self

    def recommend_hints(self, topk: int = 10) -> list[Hint]:
        """Returns the ``topk`` best hints by an estimate, the best one first.

        Raises:
            ConfigError: ``topk`` is no positive number, or no tiling fits.
        """
        if isinstance(topk, bool) or not isinstance(topk, int) or topk < 1:
            raise ConfigError(f"recommend_hints(topk={topk!r}): topk must be a positive integer")
        best: dict[str, Hint] = {}  # of those that differ in their stages alone
        for hint in sorted(self._candidates(), key=lambda hint: hint.seconds):
            if hint.seconds < math.inf:
                best.setdefault(f"{hint.block} {hint.rstep} {hint.threads}", hint)
        if not best:
            raise ConfigError(f"no tiling of {self} fits {self.arch.arch}")
        return list(best.values())[:topk]

    def _need_types(self) -> None:
        """Refuses names of types that there are not."""
        for field in dataclasses.fields(self):
            if not field.name.endswith("dtype"):
                continue
            value = getattr(self, field.name)
            try:
                bits_of(value)
            except DTypeError as error:
                name = f"{type(self).__name__}({field.name}={value!r})"
                raise DTypeError(f"{name}: {error.message}", notes=error.notes) from None

    def _need_shape(self, shape: Any) -> None:
        """Refuses what is no sequence of sizes."""
        if not isinstance(shape, (list, tuple)):
            raise ConfigError(
                f"{type(self).__name__}(shape={shape!r}): shape must be a list of sizes"
            )
        for axis, extent in enumerate(shape):
            self._need(**{f"shape[{axis}]": extent})

    def _candidates(self) -> list[Hint]:
        raise NotImplementedError

    def _need(self, **sizes: Any) -> None:
        """Refuses sizes that are no positive numbers."""
        for name, value in sizes.items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigError(
                    f"{type(self).__name__}({name}={value!r}): a size must be a positive integer; "
                    "for a dynamic size give a typical value"
                )


def bits_of(dtype: Any) -> int:
    """Returns the bits of an element."""
    return int(as_dtype(dtype).bits)
