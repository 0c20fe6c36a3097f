"""Kernel specifications and CUDA sources written by hand, to test the runtime alone."""

from __future__ import annotations

from typing import Any

import tvm_ffi

from tilelang import _ffi

ADD, MUL, FLOORDIV = 0, 2, 4


def var(name: str, dtype: str = "int32") -> Any:
    return _ffi.get("ir.Var")(name, tvm_ffi.dtype(dtype), None)


def imm(value: int) -> Any:
    return _ffi.get("ir.IntImm")(tvm_ffi.dtype("int32"), value, None)


def expr(value: Any) -> Any:
    return imm(value) if isinstance(value, int) else value


def ceildiv(a: Any, b: int) -> Any:
    arithmetic = _ffi.get("ir.Arithmetic")
    return arithmetic(FLOORDIV, arithmetic(ADD, expr(a), imm(b - 1), None), imm(b), None)


def floordiv(a: Any, b: Any) -> Any:
    return _ffi.get("ir.Arithmetic")(FLOORDIV, expr(a), expr(b), None)


def times(a: Any, b: Any) -> Any:
    return _ffi.get("ir.Arithmetic")(MUL, expr(a), expr(b), None)


def tensor(name: str, dtype: str, shape: tuple[Any, ...], strides: tuple[Any, ...] = ()) -> Any:
    dims, steps = [expr(e) for e in shape], [expr(e) for e in strides]
    return _ffi.get("ir.Buffer")(name, tvm_ffi.dtype(dtype), dims, steps, "global", {}, None)


def launch(name, grid, block, args, cluster=(), shared_memory=0) -> Any:
    return _ffi.get("runtime.LaunchSpec")(
        name,
        [expr(e) for e in grid],
        [expr(e) for e in block],
        list(cluster),
        expr(shared_memory),
        [expr(a) for a in args],
    )


def spec(name, params, launches, alignment=None, workspaces=(), written=()) -> Any:
    return _ffi.get("runtime.KernelSpec")(
        name, list(params), alignment or {}, list(workspaces), list(launches), list(written)
    )


def tensor_map(buffer, dims, strides, box, swizzle=0) -> Any:
    return _ffi.get("runtime.TensorMapSpec")(
        buffer, [expr(e) for e in dims], [expr(e) for e in strides], list(box), swizzle
    )
