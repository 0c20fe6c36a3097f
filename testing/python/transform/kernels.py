"""Kernels built node by node: what the frontend would refuse, and small thread programs."""

from __future__ import annotations

from typing import Any

from arith.exprs import binary, imm, var

from tilelang import _ffi

__all__ = ["binary", "imm", "var"]


def node(name: str, *args: Any) -> Any:
    return _ffi.get(f"ir.{name}")(*args, None)


def buffer(
    name: str, shape: list[Any], dtype: str = "float32", scope: str = "global", **attrs: Any
):
    shape = [imm(n) if isinstance(n, int) else n for n in shape]
    return node("Buffer", name, dtype, shape, [], scope, attrs)


def seq(*stmts: Any) -> Any:
    return node("Seq", list(stmts))


def alloc(*buffers: Any) -> list[Any]:
    return [node("Alloc", b) for b in buffers]


def region(b: Any, extents: list[Any] | None = None, mins: list[Any] | None = None) -> Any:
    extents = [imm(n) if isinstance(n, int) else n for n in extents or b.shape]
    mins = [imm(m) if isinstance(m, int) else m for m in mins or [0] * len(extents)]
    return _ffi.get("ir.Region")(b, mins, extents)


def copy(src: Any, dst: Any) -> Any:
    options = _ffi.get("ir.CopyOptions")(0, False, False, 0, 0, False, 0, None)
    return _ffi.get("ir.Copy")(src, dst, options, None, None, None, [])


def store(b: Any, indices: list[Any], value: Any = None) -> Any:
    if value is None:
        value = _ffi.get("ir.Cast")(b.dtype, imm(1), None)
    indices = [imm(i) if isinstance(i, int) else i for i in indices]
    return node("Store", b, indices, value)


def load(b: Any, indices: list[Any]) -> Any:
    return node("Load", b, [imm(i) if isinstance(i, int) else i for i in indices])


def product(
    a: Any,
    b: Any,
    c: Any,
    trans_a: bool = False,
    trans_b: bool = False,
    clear: int = 0,
    **notes: Any,
) -> Any:
    operand = _ffi.get("ir.GemmOperand")
    parts = [(a, trans_a), (b, trans_b), (c, False)]  # their kinds are 0, 1, 2, their formats own
    operands = [operand(kind, region(x), flag, 0) for kind, (x, flag) in enumerate(parts)]
    return node("Gemm", operands, imm(clear, "bool"), None, notes, None)


def parallel(names: list[Any], extents: list[int], body: Any) -> Any:
    return node("ParallelFor", names, [imm(n) for n in extents], body, {})


def loop(v: Any, extent: Any, *body: Any, kind: int = 0) -> Any:
    extent = imm(extent) if isinstance(extent, int) else extent
    return node("For", v, imm(0), extent, kind, seq(*body), {})


def kernel(
    *stmts: Any, params: list[Any] = (), threads: Any = (128,), grid: Any = (4,), attrs: Any = None
) -> Any:
    tx = [var(f"t{axis}") for axis, _ in zip("xyz", threads, strict=False)]
    bx = [var(f"b{axis}") for axis, _ in zip("xyz", grid, strict=False)]
    as_node = lambda n: imm(n) if isinstance(n, int) else n  # noqa: E731
    body = stmts[0](*tx) if len(stmts) == 1 and callable(stmts[0]) else seq(*stmts)
    launch = node(
        "KernelLaunch",
        bx,
        [as_node(n) for n in grid],
        tx,
        [as_node(n) for n in threads],
        attrs or {},
        body,
    )
    return node("Func", "main", list(params), launch, {})
