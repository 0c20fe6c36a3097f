"""Stores of a loop that interleave become one, which vectors carry out."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.transform import run_pass

TARGETS = ("sm_100a", "sm_90a", "sm_80", "sm_120a")


def rotated(rows, columns, tall=16, dtype="bfloat16", own=False):
    """Y (or X itself) = pairs of X, each turned by an angle of its own."""

    @T.prim_func
    def main(
        X: T.Tensor((rows, columns), dtype),
        C: T.Tensor((rows, columns // 2), "float32"),
        S: T.Tensor((rows, columns // 2), "float32"),
        Y: T.Tensor((rows, columns), dtype),
    ):
        with T.Kernel(T.ceildiv(rows, tall), threads=128) as block:
            for i, j in T.Parallel(tall, columns // 2):
                r = block * tall + i
                a = T.cast(X[r, 2 * j], "float32")
                b = T.cast(X[r, 2 * j + 1], "float32")
                if own:
                    X[r, 2 * j] = a * C[r, j] - b * S[r, j]
                    X[r, 2 * j + 1] = a * S[r, j] + b * C[r, j]
                else:
                    Y[r, 2 * j + 1] = a * S[r, j] + b * C[r, j]
                    Y[r, 2 * j] = a * C[r, j] - b * S[r, j]

    return main


def unpacked(rows, columns, count=4, dtype="int8"):
    """Y (rows, count * columns): fields of 8 / count bits of each byte of Q, in order."""
    bits = 8 // count

    @T.prim_func
    def main(Q: T.Tensor((rows, columns), "uint8"), Y: T.Tensor((rows, count * columns), dtype)):
        with T.Kernel(rows, threads=64) as r:
            for j in T.Parallel(columns):
                for field in T.unroll(count):
                    value = (Q[r, j] >> T.uint8(field * bits)) & T.uint8(2**bits - 1)
                    Y[r, count * j + field] = T.cast(value, dtype)

    return main


def is_joined(program) -> bool:
    return str(run_pass("join_stores", program)) != str(program)


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("rows", "columns", "dtype"),
    [(40, 128, "bfloat16"), (33, 64, "float32"), (7, 30, "float16"), (5, 2, "bfloat16"),
     (16, 778, "bfloat16"), (16, 256, "float8_e4m3fn")],
)  # fmt: skip
@pytest.mark.parametrize("own", [False, True])
def test_results_of_pairs(target, rows, columns, dtype, own):
    program = rotated(rows, columns, dtype=dtype, own=own)
    assert is_joined(program) == (not own and columns > 2)
    element = T.dtype(dtype).as_torch()
    torch.manual_seed(0)
    x = torch.randn(rows, columns).to(element)
    c, s = torch.randn(2, rows, columns // 2)
    y = torch.full((rows, columns), torch.nan).to(element)
    a, b = x.double()[:, 0::2], x.double()[:, 1::2]
    wanted = torch.stack([a * c - b * s, a * s + b * c], -1).reshape(rows, columns)
    tilelang.compile(program, target=target)(x, c, s, y)
    found = (x if own else y).double()
    size = {"float32": 1e-6, "float16": 2e-3, "bfloat16": 1e-2, "float8_e4m3fn": 0.07}[dtype]
    torch.testing.assert_close(found, wanted, rtol=size, atol=size / 4)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("count", [2, 4, 8])
@pytest.mark.parametrize(("columns", "dtype"), [(64, "int8"), (37, "bfloat16"), (200, "float32")])
def test_results_of_fields(target, count, columns, dtype):
    q = torch.arange(3 * columns).reshape(3, columns).mul(37).remainder(256).to(torch.uint8)
    y = torch.full((3, count * columns), -1).to(T.dtype(dtype).as_torch())
    tilelang.compile(unpacked(3, columns, count, dtype), target=target)(q, y)
    bits = 8 // count
    fields = [(q.int() >> (i * bits)) % 2**bits for i in range(count)]
    assert torch.equal(y.int(), torch.stack(fields, -1).reshape(3, -1))


def test_pairs_move_as_vectors():
    text = tilelang.compile(rotated(64, 128), target="sm_100a").get_kernel_source()
    assert "tl::load<8>(X + " in text and "tl::load<4>(C + " in text
    assert text.count("tl::store(Y + ") == 1 and "Y[" not in text


def with_stores(kind):
    @T.prim_func
    def main(
        A: T.Tensor((64, 64), "float32"),
        C: T.Tensor((64, 130), "float32"),
        D: T.Tensor((64, 128), "float32"),
    ):
        with T.Kernel(1, threads=128):
            f = T.alloc_fragment((64, 128), "float32")
            for i, j in T.Parallel(64, 64):
                if kind == "two tensors":
                    C[i, 2 * j] = A[i, j]
                    D[i, 2 * j + 1] = A[i, j]
                elif kind == "same residue":
                    C[i, 2 * j] = A[i, j]
                    C[i, 2 * j + 2] = A[i, j]
                elif kind == "other rows":
                    C[i, 2 * j] = A[i, j]
                    C[63 - i, 2 * j + 1] = A[i, j]
                elif kind == "another pair":
                    C[i, 2 * j] = A[i, j]
                    C[i, 2 * j + 3] = A[i, j]
                elif kind == "halves":
                    D[i, j] = A[i, j]
                    D[i, j + 64] = A[i, j]
                elif kind == "read":
                    C[i, 2 * j] = A[i, j]
                    C[i, 2 * j + 1] = C[i, 2 * j] + 1
                elif kind == "fragment":
                    f[i, 2 * j] = A[i, j]
                    f[i, 2 * j + 1] = A[i, j]
                elif kind == "one condition":
                    C[i, 2 * j] = A[i, j]
                    if j < 32:
                        C[i, 2 * j + 1] = A[i, j]

    return main


@pytest.mark.parametrize(
    "kind",
    ["two tensors", "same residue", "other rows", "another pair", "halves", "read", "fragment",
     "one condition"],
)  # fmt: skip
def test_other_stores_stay(kind):
    assert not is_joined(with_stores(kind))
