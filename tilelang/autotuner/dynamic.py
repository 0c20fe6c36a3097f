"""Kernels with dimensions that only a call knows: each class of sizes has its configuration."""

from __future__ import annotations

import bisect
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import ConfigError, boundary
from ..ir.buffer import Buffer
from ..ir.expr import Var
from ..jit.kernel import JITKernel
from .result import AutotuneResult

#: The largest size of each class; beyond the last one tiles do not change any more.
_BOUNDS = (16, 32, *(x << n for n in range(5, 13) for x in (2, 3)), 16384)


def class_of(size: int) -> int:
    """Returns the size that stands for the class of a size: its largest one."""
    return _BOUNDS[min(bisect.bisect_left(_BOUNDS, size), len(_BOUNDS) - 1)]


class Axis(NamedTuple):
    """The place in a call that determines the value of a variable.

    Attributes:
        variable: its name.
        parameter, position: a tensor with a dimension that is the variable: its name, and where it
            stands among what a call passes.
        axis: which dimension that is.
    """

    variable: str
    parameter: str
    position: int
    axis: int


def axes_of(params: Sequence[Any], outputs: Sequence[int]) -> list[Axis]:
    """Returns an axis for each variable that is a dimension of a parameter.

    Args:
        params: of the function in the IR.
        outputs: indices of tensors that a call does not pass.
    """
    found: dict[str, Axis] = {}
    passed = [param for i, param in enumerate(params) if i not in outputs]
    for position, param in enumerate(passed):
        for axis, extent in enumerate(param.shape if isinstance(param, Buffer) else ()):
            if isinstance(extent, Var):
                name = str(extent.name)
                found.setdefault(name, Axis(name, str(param.name), position, axis))
    return list(found.values())


class TunedKernel:
    """A kernel with dimensions of ``T.dynamic``: a call runs the best one for its class of sizes.

    Sizes of a class are those up to 16, 32, 64, 96, 128, 192, 256, 384 and so on; those beyond
    12288 are one. The first call of a class searches.

    Args:
        axes: where calls tell the sizes.
        choose: searches, for sizes by variable, with the arguments of a call or with its own.
        refuse: the kernel whose errors calls get that do not fit the parameters.

    Attributes:
        results: what the searches gave, by the largest sizes of their classes.
    """

    def __init__(
        self,
        axes: Sequence[Axis],
        choose: Callable[[Mapping[str, int], Sequence[Any] | None], AutotuneResult],
        refuse: Callable[[], JITKernel],
    ) -> None:
        self._axes = list(axes)
        self._choose = choose
        self._refuse = refuse
        self._lock = threading.RLock()
        self.results: dict[tuple[int, ...], AutotuneResult] = {}

    @property
    def example(self) -> str:
        """Arguments of :meth:`at`, for messages."""
        return ", ".join(f"{axis.variable}=512" for axis in self._axes)

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the kernel for the sizes of the tensors; as :meth:`JITKernel.__call__`."""
        try:
            sizes = tuple([class_of(self._size(axis, args, kwargs)) for axis in self._axes])
        except (AttributeError, LookupError, TypeError):
            return self._refuse()(*args, **kwargs)
        result = self.results.get(sizes)
        # Tensors by name are searched with others of their sizes.
        result = result or self._search(sizes, None if kwargs else args)
        return result.kernel(*args, **kwargs)

    @boundary
    def at(self, **sizes: int) -> JITKernel:
        """Returns the kernel for sizes, without running it: ``kernel.at(M=512)``.

        Raises:
            ConfigError: the variables are others, or a size is no positive number.
        """
        names = [axis.variable for axis in self._axes]
        if sorted(sizes) != sorted(names):
            raise ConfigError(f"at({', '.join(sizes)}): the dynamic sizes are {', '.join(names)}")
        for name, size in sizes.items():
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                raise ConfigError(f"at({name}={size!r}): a size must be a positive integer")
        classes = tuple(class_of(sizes[name]) for name in names)
        result = self.results.get(classes) or self._search(classes, None)
        kernel: JITKernel = result.kernel
        return kernel

    def _size(self, axis: Axis, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
        tensor = args[axis.position] if axis.position < len(args) else kwargs[axis.parameter]
        size: int = tensor.shape[axis.axis]
        return size

    def _search(self, classes: tuple[int, ...], args: Sequence[Any] | None) -> AutotuneResult:
        with self._lock:
            if classes not in self.results:
                names = [axis.variable for axis in self._axes]
                sizes = dict(zip(names, classes, strict=True))
                self.results[classes] = self._choose(sizes, args)
            return self.results[classes]
