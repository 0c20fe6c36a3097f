"""Grids and threads one dimension at a time: ``T.launch_thread``, ``T.thread_binding``.

The first dimension opens a kernel that lasts until the end of the block around it (of the `with` or
`for` statement, where it stands in one); each further one adds to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import errors
from ...ir import span
from ...ir.buffer import plain
from ...ir.dtype import INT32
from ...ir.expr import Expr, Operand, as_expr, var
from ...ir.stmt import Stmt
from ..builder import Builder, current
from ..kernel import KernelFrame, grid_extent, thread_extents
from ..loops import Loop, Opened, refuse_extra, serial

_AXES = ("x", "y", "z")
_PLACES = tuple(f"{what}.{axis}" for what in ("blockIdx", "threadIdx") for axis in _AXES)


class BoundKernel(KernelFrame):
    """A kernel whose dimensions are bound one by one."""

    def __init__(self) -> None:
        super().__init__((), (1,), {})
        self._bound: dict[str, tuple[Expr, Any]] = {}

    def bind(self, place: str, extent: Any, name: str) -> Expr:
        """Binds ``blockIdx.x``, ..., ``threadIdx.z`` and returns its index.

        Raises:
            SemanticsError: it is bound with another extent.
        """
        known = self._bound.get(place)
        if known is not None:
            if plain(known[1]) != plain(extent):
                raise errors.SemanticsError(
                    f"{place} has the extent {known[1]}, and {extent} here", span=span.here()
                )
            return known[0]
        if place.startswith("threadIdx"):
            thread_extents(extent)
        else:
            extent = grid_extent(extent)
        self._bound[place] = var(name, INT32), extent
        self._collect()
        return self._bound[place][0]

    def _collect(self) -> None:
        """Orders what is bound, x first; a dimension left out has the extent 1."""
        blocks, threads = self._dimensions("blockIdx"), self._dimensions("threadIdx")
        self.block_vars = [index for index, _ in blocks]
        self.grid = [as_expr(extent) for _, extent in blocks]
        self.thread_vars = [index for index, _ in threads]
        self.threads = thread_extents(tuple(plain(extent) for _, extent in threads))

    def _dimensions(self, what: str) -> list[tuple[Expr, Any]]:
        bound = [self._bound.get(f"{what}.{axis}") for axis in _AXES]
        last = max((n for n, each in enumerate(bound) if each is not None), default=0)
        initial = {"blockIdx": "b", "threadIdx": "t"}[what]
        return [
            each or (var(f"{initial}{axis}", INT32), 1)
            for each, axis in zip(bound[: last + 1], _AXES, strict=False)
        ]

    def indices(self) -> None:
        """Nothing: each dimension is bound on its own."""


def _kernel(builder: Builder) -> tuple[BoundKernel, bool]:
    """The kernel that dimensions are bound in, and whether it was opened just now."""
    if builder.kernel is not None:
        assert isinstance(builder.kernel, BoundKernel)
        return builder.kernel, False
    frame = BoundKernel()
    frame.__enter__()
    return frame, True


def _place(what: str, place: Any) -> str:
    text = str(getattr(place, "place", place))
    if text not in _PLACES:
        raise errors.SemanticsError(
            f"{what} binds one of {', '.join(_PLACES)}, not {text!r}", span=span.here()
        )
    return text


class EnvThread:
    """A dimension of the grid or the block that has no extent yet.

    Attributes:
        place: ``blockIdx.x``, ..., ``threadIdx.z``.
    """

    def __init__(self, place: str) -> None:
        self.place = _place("T.env_thread", place)


def env_thread(thread_tag: str, dtype: Any = "int32") -> EnvThread:
    """Names a dimension of the grid or the block for :func:`launch_thread`."""
    del dtype
    return EnvThread(thread_tag)


def launch_thread(thread: Any, extent: Any) -> Any:
    """Binds a dimension of the grid or the block: ``bx = T.launch_thread("blockIdx.x", 8)``.

    Inside T.Kernel it is the index that the kernel has, whose extent has to be ``extent``.

    Args:
        thread: ``"blockIdx.x"`` to ``"threadIdx.z"``, or what :func:`env_thread` gives.
        extent: how many; of threads a constant.

    Returns:
        The index; also a context manager, at whose end the kernel is complete.

    Raises:
        ScopeError: under control flow.
        SemanticsError: there is no such dimension, or the kernel has one of another extent.
    """
    builder = current("T.launch_thread")
    place = _place("T.launch_thread", thread)
    if builder.kernel is not None and not isinstance(builder.kernel, BoundKernel):
        return _known_index("T.launch_thread", builder.kernel, place, extent)
    frame, opened = _kernel(builder)
    index = frame.bind(place, extent, builder.take_hint(place.replace("Idx.", "_")))
    if opened:
        builder.blocks[-1].close = lambda: frame.__exit__(None)
    return index


def thread_binding(
    start: Any, stop: Any = None, thread: str | None = None, annotations: Any = None
) -> BoundLoop:
    """The index of a thread or block, as a value or as a loop of which each does one iteration.

    ``tx = T.thread_binding(0, 128, thread="threadIdx.x")`` or
    ``for tx in T.thread_binding(128, thread="threadIdx.x")``. Inside T.Kernel it is the index that
    the kernel has, whose extent has to be that of the range; elsewhere it adds a dimension.

    Args:
        start, stop: the range; with one number it starts at 0.
        thread: ``"blockIdx.x"`` to ``"threadIdx.z"``.
        annotations: none.

    Raises:
        SemanticsError: the kernel has no such dimension, or one of another extent.
    """
    refuse_extra("T.thread_binding", {"annotations": annotations}, {"annotations": None})
    if isinstance(stop, str):  # T.thread_binding(128, "threadIdx.x")
        stop, thread = None, stop
    low, high = (0, start) if stop is None else (start, stop)
    return BoundLoop(_place("T.thread_binding", thread), low, high - low)


class BoundLoop(Loop, Operand):
    """A loop whose iterations are threads or blocks; as a value, the index of this one."""

    def __init__(self, place: str, low: Any, extent: Any) -> None:
        super().__init__("T.thread_binding", self._opened)
        self._place, self._low, self._extent = place, low, extent
        self._value: Expr | None = None

    def open(self, hints: Sequence[str], builder: Builder) -> Opened:
        """Opens the kernel where it is the first dimension."""
        return self._opened(hints)

    def _opened(self, hints: Sequence[str]) -> Opened:
        builder = current("T.thread_binding")
        value, frame = self._bound(builder, hints[0] if hints else "i")

        def close(body: Stmt, where: Any) -> Stmt:
            if frame is None:
                return body
            builder.emit(body)
            return frame.close()

        return Opened(value, close)

    def _bound(self, builder: Builder, name: str) -> tuple[Expr, BoundKernel | None]:
        """The index, and the kernel if it was opened for it."""
        kernel = builder.kernel
        if kernel is not None and not isinstance(kernel, BoundKernel):
            index = _known_index("T.thread_binding", kernel, self._place, self._extent)
            return self._from_start(index), None
        frame, opened = _kernel(builder)
        index = frame.bind(self._place, self._extent, name)
        return self._from_start(index), frame if opened else None

    def _from_start(self, index: Expr) -> Expr:
        return index if plain(self._low) == 0 else index + self._low

    def named(self, name: str) -> Expr:
        """The index as a value, which is called ``name`` where it is a new dimension."""
        if self._value is None:
            builder = current("T.thread_binding")
            self._value, frame = self._bound(builder, name)
            if frame is not None:
                builder.blocks[-1].close = lambda: frame.__exit__(None)
        return self._value

    def __tl_load__(self) -> Expr:
        return self.named(self._place.replace("Idx.", "_"))


def _known_index(what: str, kernel: KernelFrame, place: str, extent: Any) -> Expr:
    """The index that a kernel has along a dimension.

    Raises:
        SemanticsError: it has no such dimension, or one of another extent.
    """
    of_threads = place.startswith("threadIdx")
    indices = kernel.thread_vars if of_threads else kernel.block_vars
    extents = list(map(plain, kernel.threads if of_threads else kernel.grid))
    axis = _AXES.index(place[-1])
    found = extents[axis] if axis < len(extents) else 1
    if found != plain(extent) and isinstance(plain(extent), int) and isinstance(found, int):
        raise errors.SemanticsError(
            f"{what} of {extent} along {place}, where T.Kernel has {found}",
            span=span.here(),
            notes=["the range is all of the dimension; put the rest of the body under an `if`"],
        )
    return indices[axis] if axis < len(indices) else as_expr(0)


def parallel(start: Any, stop: Any = None, **annotations: Any) -> Loop:
    """A loop of independent iterations that each thread runs one after the other."""
    return serial(start, stop, **annotations)


class IterVar:
    """A dimension with its extent, for ``T.attr(..., "thread_extent", n)``.

    Attributes:
        place: ``blockIdx.x``, ..., ``threadIdx.z``.
        var: the index.
    """

    def __init__(self, variable: Any, dom: Any, iter_type: str, thread_tag: str) -> None:
        del dom, iter_type
        self.place = _place("T.iter_var", thread_tag)
        self.var = variable


def iter_var(
    v: Any = None, dom: Any = None, iter_type: str = "ThreadIndex", thread_tag: str = ""
) -> IterVar:
    """Names a dimension of the grid or the block, for ``T.attr(iter_var, "thread_extent", n)``."""
    return IterVar(v, dom, iter_type, thread_tag)


__all__ = [
    "BoundKernel",
    "IterVar",
    "env_thread",
    "iter_var",
    "launch_thread",
    "parallel",
    "thread_binding",
]
