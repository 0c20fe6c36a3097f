"""The function being traced: its open blocks, loops and kernel."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from .. import _ffi, errors
from ..ir import span
from ..ir.definitions import Definitions, define, set_definitions
from ..ir.expr import Expr, Var, var
from ..ir.span import Span
from ..ir.stmt import Stmt

_seq = _ffi.get("ir.Seq")
_bind = _ffi.get("ir.Bind")
_with_safe_values = _ffi.get("op.WithSafeValues")
# What these declare holds until the end of the enclosing sequence.
_DECLARATIONS = frozenset({"tl.ir.Bind", "tl.ir.Alloc", "tl.ir.Assume"})


def declares(stmt: Stmt) -> bool:
    """Returns whether the statement names something, and does nothing."""
    return stmt.__tvm_ffi_type_info__.type_key in _DECLARATIONS  # type: ignore[attr-defined]


class Block:
    """Statements collected for one body.

    Attributes:
        kind: what the body belongs to: "function", "kernel", "if", "while", a kind of loop, or
            "lazy" for a conditionally evaluated operand, where nothing may be emitted.
        ended: a break or continue was emitted; what follows is never executed.
        leaves: the condition under which a thread has left the kernel in this block, or None.
        close: closes a block that lasts until the end of the one around it; None for others.
        safe_values: what is read outside of tensors in the block (T.annotate_safe_value).
        targets: of a loop, the variables that it gives; and what T.assume_disjoint says of it,
            tensors and where.
    """

    def __init__(self, kind: str, where: Span | None) -> None:
        self.kind = kind
        self.where = where
        self.stmts: list[Stmt] = []
        self.ended = False
        self.leaves: Expr | None = None
        self.close: Callable[[], None] | None = None
        self.safe_values: dict[Any, Expr] = {}
        self.targets: tuple[Any, ...] = ()
        self.disjoint: list[tuple[str, Span | None]] = []

    def body(self) -> Stmt:
        """The statements as one; a sequence where something declared must end with the block."""
        if len(self.stmts) == 1 and not declares(self.stmts[0]):
            return self.stmts[0]
        return _seq(self.stmts, self.where)


class Builder:
    """Collects the statements of one function."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.kernel: Any = None
        # Those of the function (parameters.Parameters).
        self.parameters: Any = None
        # What allocates the global buffers, outside of kernels.
        self.workspaces: list[tuple[Any, Stmt]] = []
        # What T.assume states outside of kernels.
        self.facts: list[Stmt] = []
        # Annotations of the function.
        self.attrs: dict[str, Any] = {}
        # Open loops, innermost last: the kind, and how many blocks were open at its start.
        # "python" is a loop that runs while tracing.
        self.loops: list[tuple[str, int]] = []
        self.hints: tuple[str, ...] = ()
        self.definitions: Definitions = {}
        # The kind of the block that a `with` statement closed last.
        self.left: str | None = None
        # Of the forms of TIR (language/raw): the operation of T.tvm_thread_allreduce, and the open
        # T.sblock and T.If frames.
        self.reducer: Any = None
        self.tir_blocks: list[Any] = []
        self.tir_ifs: list[Any] = []
        # What T.alloc_reducer made.
        self.reducers: list[Any] = []
        # The state of T.rng_init.
        self.random: Any = None
        # Of the open kernel: the schedule that describes it, where, and the ids of its statements.
        self.ws_schedule: tuple[Any, errors.Span | None] | None = None
        self.ws_ids: set[str] = set()
        # Macros being expanded, one inside the other.
        self.macro_depth = 0

    def push(self, kind: str) -> Block:
        block = Block(kind, span.current())
        self.blocks.append(block)
        return block

    def pop(self, block: Block) -> Stmt:
        """Closes ``block`` and returns its body."""
        self.end(block)
        return block.body()

    def end(self, block: Block) -> None:
        """Closes ``block``, and first those inside that last until its end."""
        self.close_inner(block)
        self.blocks.pop()
        if block.safe_values:
            block.stmts = [_with_safe_values(stmt, block.safe_values) for stmt in block.stmts]

    def close_inner(self, block: Block) -> None:
        """Closes the blocks inside of ``block`` that last until its end."""
        while self.blocks[-1] is not block:
            close = self.blocks[-1].close
            assert close is not None, "blocks close in the order they were opened"
            close()

    def emit(self, stmt: Stmt) -> None:
        block = self.blocks[-1]
        if block.kind == "lazy":
            raise errors.SemanticsError(
                "an operation with an effect cannot stand in an operand that is evaluated only "
                "under a condition known at run time",
                span=span.here(),
                notes=["write an `if` statement instead of `and`, `or` or `a if c else b`"],
            )
        if not block.ended:
            block.stmts.append(stmt)

    def take_hint(self, default: str) -> str:
        """Returns the name that the statement gives to the next thing it creates."""
        if not self.hints:
            return default
        name = self.hints[0]
        if len(self.hints) > 1:
            self.hints = self.hints[1:]
        return name

    def bind(self, name: str, value: Expr) -> Expr:
        """Names ``value`` and evaluates it here; outside a kernel it stays an expression."""
        if self.kernel is None:
            return value
        variable: Var = var(name, value.dtype)
        self.emit(_bind(variable, value, span.current()))
        define(variable, value)
        return variable

    def inside(self, *kinds: str) -> bool:
        """Returns whether a block of one of these kinds is open."""
        return any(block.kind in kinds for block in self.blocks)


class _Current(threading.local):
    builder: Builder | None = None


_current = _Current()


def active() -> Builder | None:
    """Returns the builder of the function being traced in this thread, if any."""
    return _current.builder


def set_active(builder: Builder | None) -> Builder | None:
    """Makes ``builder`` the one of this thread; returns what was before."""
    previous, _current.builder = _current.builder, builder
    set_definitions(None if builder is None else builder.definitions)
    return previous


def current(what: str) -> Builder:
    """Returns the active builder; ``what`` names the operation that needs it.

    Raises:
        ScopeError: no function is being traced.
    """
    builder = _current.builder
    if builder is None:
        raise errors.ScopeError(
            f"{what} is only meaningful inside a function decorated with @T.prim_func"
        )
    return builder


def in_block(what: str) -> Builder:
    """As :func:`in_kernel`, for what all threads of the block do together.

    Raises:
        ScopeError: also inside T.Parallel or T.vectorized.
    """
    builder = in_kernel(what)
    if in_parallel_loop(builder):
        raise errors.ScopeError(
            f"{what} inside T.Parallel or T.vectorized, whose iterations are spread over threads",
            span=span.here(),
            notes=["place it before or after the loop"],
        )
    return builder


def at_barrier(what: str) -> Builder:
    """Returns the builder for a barrier, which may stand directly in a T.Parallel loop.

    The barrier divides the loop. Everywhere else the rules are those of :func:`in_block`.

    Raises:
        ScopeError: also under a condition or in a loop inside T.Parallel, and in T.vectorized.
    """
    builder = in_kernel(what)
    divides = builder.blocks[-1].kind == "T.Parallel"
    outer = builder.blocks[:-1] if divides else builder.blocks
    if any(block.kind in ("T.Parallel", "T.vectorized") for block in outer):
        raise errors.ScopeError(
            f"{what} under a condition or in a loop inside T.Parallel or T.vectorized, whose "
            "iterations are spread over threads",
            span=span.here(),
            notes=[
                "place it before or after the loop, or directly in the body of T.Parallel, which "
                "it divides"
            ],
        )
    return builder


def in_parallel_loop(builder: Builder) -> bool:
    """Returns whether the threads share the iterations of a loop that is open."""
    return builder.inside("T.Parallel", "T.vectorized")


def in_kernel(what: str) -> Builder:
    """Returns the active builder, inside ``with T.Kernel``.

    Raises:
        ScopeError: no kernel is open.
    """
    builder = current(what)
    if builder.kernel is None:
        raise errors.ScopeError(
            f"{what} is outside of `with T.Kernel(...)`",
            span=span.here(),
            notes=["code that runs on the GPU must be inside of a T.Kernel block"],
        )
    return builder
