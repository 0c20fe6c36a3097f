"""Thread IR to CUDA C++: golden texts, and NVRTC accepts them for every target."""

from __future__ import annotations

import pytest
from golden import Golden, ptx_opcodes
from thread_ir import (
    Buf,
    Kernel,
    bind,
    codegen,
    dt,
    if_,
    ir,
    loop,
    ptx_of,
    select,
    seq,
    sync_threads,
    var,
    vector_loop,
)

ARCHS = ["sm_80", "sm_90a", "sm_100a"]
DTYPES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "float8_e4m3fn",
    "float8_e5m2",
]
BYTES = {"bool": 1, "float8_e4m3fn": 1, "float8_e5m2": 1}


def size_of(dtype: str) -> int:
    return BYTES.get(dtype) or int(dtype.lstrip("abcdefghijklmnopqrstuvwxyz")) // 8


def elementwise():
    k = Kernel(name="add")
    n = var("n")
    a, b = k.param("A", "float16", n), k.param("B", "bfloat16", n)
    c = k.param("C", "float32", n)
    i = var("i")
    first = (k.bx * 128 + k.tx) * 8
    inside = if_(
        first < n - 7,
        vector_loop(
            i,
            8,
            c.put(first + i, a[first + i].cast("float32") * 0.1 + b[first + i].cast("float32"), 12),
            [a, b, c],
            11,
        ),
        loop(
            i,
            8,
            if_(first + i < n, c.put(first + i, a[first + i].cast("float32"), 15)),
            "unrolled",
            14,
        ),
    )
    return k.func(inside)


def test_elementwise_text(golden: Golden) -> None:
    compiled = codegen(elementwise())
    golden("elementwise", compiled.source)
    kernel = compiled.kernels[0]
    assert kernel.name == "add_kernel"
    assert [p.name for p in kernel.params] == ["A", "B", "C", "n"]
    assert list(kernel.block) == [128] and kernel.dyn_smem_bytes == 0


def test_line_information_names_the_python_file() -> None:
    ptx = ptx_of(elementwise(), "sm_90a", "-lineinfo")
    assert '"/home/user/kernel.py"' in ptx
    number = next(
        line.split()[1]
        for line in ptx.splitlines()
        if line.startswith("\t.file") and "user" in line
    )
    lines = {w[2] for w in map(str.split, ptx.splitlines()) if w[:2] == [".loc", number]}
    assert {"12", "15"} <= lines


def control_flow():
    k = Kernel(name="control")
    n = var("n")
    a, out = k.param("A", "float32", n), k.param("Out", "float32", n)
    steps = k.scalar("steps", "int32")
    tile = Buf("tile", "float32", 128, "shared.dyn")
    acc = Buf("acc", "float32", 4, "local")
    total = Buf("total", "float32", 1, "local.var", init=ir("FloatImm", dt("float32"), 1.0, None))
    i, j, row = var("i"), var("j"), var("row")
    minus = k.tx - 7
    return k.func(
        tile.alloc(),
        acc.alloc(),
        total.alloc(),
        loop(i, 4, acc.put(i, 0.0, 5), "unrolled", 4),
        loop(
            j,
            steps,
            seq(
                bind(row, minus // 3 + k.tx % 12 + k.bx // 8),
                tile.put(k.tx, a[row], 7),
                sync_threads(),
                if_(
                    (k.tx & 3).eq(0),
                    acc.put(0, acc[0] + tile[k.tx ^ 1], 9),
                    if_(row < 5, total.put(0, total[0] - 1.5, 10), acc.put(1, 2.0, 11)),
                ),
                if_(j * 2 < n, seq(ir("Break", None))),
            ),
            line=6,
        ),
        out.put(k.tx, select(k.tx < n, acc[0] + total[0], -acc[1]), 12),
    )


def test_control_flow_text(golden: Golden) -> None:
    golden("control_flow", codegen(control_flow()).source)


@pytest.mark.parametrize("arch", ARCHS)
def test_control_flow_compiles(arch: str) -> None:
    assert "st.shared" in ptx_of(control_flow(), arch)


def vector_copy(source: str, target: str, lanes: int):
    k = Kernel(name="copy")
    a, b = k.param("A", source, 4096), k.param("B", target, 4096)
    i = var("i")
    first = (k.bx * 128 + k.tx) * lanes
    value = a[first + i] if source == target else a[first + i].cast(target)
    return k.func(vector_loop(i, lanes, b.put(first + i, value), [a, b]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_vectors_move_16_bytes(dtype: str) -> None:
    lanes = 16 // size_of(dtype)
    opcodes = ptx_opcodes(ptx_of(vector_copy(dtype, dtype, lanes)), r"^(ld\.global|st\.global)")
    assert len(opcodes) == 2
    assert all(".v4.u32" in o or ".v2.u64" in o for o in opcodes)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("source", DTYPES)
def test_conversions_compile(source: str, arch: str) -> None:
    k = Kernel(name="convert")
    a = k.param("A", source, 4096)
    outs = [k.param(f"B_{d}", d, 4096) for d in DTYPES]
    body = [b.put(k.tx, a[k.tx].cast(b.dtype)) for b in outs]
    ptx_of(k.func(*body), arch)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "bool"])
def test_arithmetic_compiles(dtype: str, arch: str) -> None:
    k = Kernel(name="arithmetic")
    a, b, c = (k.param(n, dtype, 4096) for n in "ABC")
    x, y = a[k.tx], b[k.tx]
    ops = ["+", "-", "*", "min", "max"]
    ops += ["/"] if dtype.startswith(("float", "bfloat")) else ["//", "%", "&", "|", "^"]
    body = [c.put(k.tx + 128 * i, x.op(op, y)) for i, op in enumerate(ops)]
    body += [if_(x.op(op, y), c.put(k.tx, -x)) for op in ("==", "!=", "<", "<=", ">", ">=")]
    ptx_of(k.func(*body), arch)
