"""T.gemm with promote_every=: sums of float8 that leave the tensor core for registers; equal to the
last bit to a model of wgmma's arithmetic, and nearer to the product than without."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sm90.gemm_kernels import CLEARS, uses_wgmma
from wrong_kernels import cases
from wrong_kernels import check as check_wrong

import tilelang
import tilelang.language as T
from emulator import tensor_core_model as model

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.requires_cuda)]
IN_ORDER = {tilelang.PassConfigKey.TL_DISABLE_WARP_SPECIALIZED: True}
M, N, K = 100, 72, 416
KINDS = {"float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"}
STEP = 32  # K of one wgmma of float8


def kernel(
    tile, promote, dtype="float8_e4m3fn", threads=128, stages=3, fragment=False, clear="add",
    target="sm_90a", configs=None,
):  # fmt: skip
    """C (M, N) of A (M, K) and B (N, K), in tiles (m, n, k) of which C begins as ``clear`` says."""
    m, n, k = tile
    option = {} if promote is None else {"promote_every": promote}

    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((N, K), dtype), C: T.Tensor((M, N))):
        with T.Kernel(T.ceildiv(N, n), T.ceildiv(M, m), threads=threads) as (bx, by):
            a = T.alloc_shared((m, k), dtype)
            b = T.alloc_shared((n, k), dtype)
            f = T.alloc_fragment((m, k), dtype)
            c = T.alloc_fragment((m, n), "float32")
            T.fill(c, 5 if clear == "add" else 0 if clear == "T.clear" else 9)
            for i in T.Pipelined(T.ceildiv(K, k), num_stages=stages):
                T.copy(A[by * m, i * k], a)
                T.copy(B[bx * n, i * k], b)
                if fragment:
                    T.copy(a, f)
                first = {"condition": i == 0, "clear_accum": True}.get(clear, False)
                left = f if fragment else a
                T.gemm(left, b, c, transpose_B=True, clear_accum=first, **option)
            T.copy(c, C[by * m, bx * n])

    return tilelang.compile(main, target=target, pass_configs=configs)


def operands(dtype="float8_e4m3fn"):
    kind = getattr(torch, dtype)
    return torch.randn(M, K).to(kind), torch.randn(N, K).to(kind)


def run(compiled, a, b, device="cpu"):
    c = torch.full((M, N), float("nan"), device=device)
    compiled(a.to(device), b.to(device), c)
    return c.cpu()


def modelled(a, b, k, promote, clear="add", dtype="float8_e4m3fn"):
    """What wgmma makes of it by the model of its arithmetic, promoted in float32."""
    kind = KINDS[dtype]
    blocks = -(-K // k)
    pad = (0, blocks * k - K)
    x = torch.nn.functional.pad(a.double(), pad).numpy()
    y = torch.nn.functional.pad(b.double(), pad).numpy()
    c = np.full((M, N), 5 if clear == "add" else 0, np.float32)
    for first in range(0, blocks * k, promote):
        if clear == "clear_accum" and first % k == 0:
            c[:] = 0
        partial = np.zeros((M, N), np.float32)
        for at in range(first, first + promote, STEP):
            now = slice(at, at + STEP)
            partial = model.reference(
                x[:, now], y[:, now], partial, kind, kind, "f32", fraction_bits=13, result_bits=13
            )
        c = c + partial
    return torch.from_numpy(c)


def equal(got, wanted):
    assert torch.equal(got.view(torch.int32), wanted.view(torch.int32))


@pytest.mark.every_schedule
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("tile", "promote", "threads", "fragment"),
    [
        ((64, 64, 128), 128, 128, False),
        ((64, 64, 128), 64, 128, False),
        ((64, 32, 64), 32, 128, True),
        ((64, 32, 128), 128, 128, True),
        ((128, 72, 128), 128, 256, False),
        ((128, 72, 256), 128, 256, False),
        ((128, 32, 128), 128, 256, True),
        ((64, 64, 128), 128, 256, False),
    ],
)
def test_equal_to_the_model(tile, promote, threads, fragment, device):
    compiled = kernel(tile, promote, threads=threads, fragment=fragment)
    assert uses_wgmma(compiled)
    a, b = operands()
    equal(run(compiled, a, b, device), modelled(a, b, tile[2], promote))


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("clear", CLEARS)
@pytest.mark.parametrize("stages", [0, 2])
def test_accumulators_begin(stages, clear, dtype):
    compiled = kernel((64, 64, 64), 32, dtype, clear=clear, stages=stages)
    a, b = operands(dtype)
    equal(run(compiled, a, b), modelled(a, b, 64, 32, clear, dtype))


def error_of(compiled, a, b):
    exact = a.double() @ b.double().T
    return ((run(compiled, a, b).double() - exact).norm() / exact.norm()).item()


def test_the_error_falls():
    """Sums that stay in the tensor core lose what is below 13 bits of the largest, each time."""
    a, b = operands()
    errors = [
        error_of(kernel((64, 64, 128), promote, clear="T.clear"), a, b) for promote in (None, 128)
    ]
    assert errors[1] < errors[0] / 2 < 1e-3


def test_the_same_on_blackwell():
    """The tensor core sums into tensor memory, threads into registers."""
    compiled = kernel((128, 64, 128), 64, target="sm_100a")
    assert "tcgen05.mma" in compiled.get_ptx()
    a, b = operands()
    want = a.double() @ b.double().T + 5
    torch.testing.assert_close(run(compiled, a, b).double(), want, rtol=1e-5, atol=1e-4)


def test_in_order_is_the_same():
    a, b = operands()
    one, other = (kernel((64, 64, 128), 64, configs=c) for c in (None, IN_ORDER))
    equal(run(one, a, b), run(other, a, b))


def attention(promote, length=160, d=64, bm=64, bn=64):
    """A gemm of the result of another: iterations overlap, and the second gemm is promoted."""
    dtype = "bfloat16"
    option = {} if promote is None else {"promote_every": promote}

    @T.prim_func
    def main(
        Q: T.Tensor((length, d), dtype), K: T.Tensor((length, d), dtype),
        V: T.Tensor((length, d), dtype), Out: T.Tensor((length, d)),
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(length, bm), threads=128) as bx:
            q = T.alloc_shared((bm, d), dtype)
            k = T.alloc_shared((bn, d), dtype)
            v = T.alloc_shared((bn, d), dtype)
            s = T.alloc_fragment((bm, bn), "float32")
            p = T.alloc_fragment((bm, bn), dtype)
            acc = T.alloc_fragment((bm, d), "float32")
            T.copy(Q[bx * bm, 0], q)
            T.clear(acc)
            for i in T.Pipelined(T.ceildiv(length, bn), num_stages=2):
                T.copy(K[i * bn, 0], k)
                T.gemm(q, k, s, transpose_B=True, clear_accum=True)
                for r, c in T.Parallel(bm, bn):
                    p[r, c] = T.max(s[r, c], 0)
                T.copy(V[i * bn, 0], v)
                T.gemm(p, v, acc, **option)
            T.copy(acc, Out[bx * bm, 0])

    return main


@pytest.mark.every_schedule
@pytest.mark.parametrize("promote", [64, 32])
def test_beside_other_gemms(promote):
    length, d = 160, 64
    q, k, v = (torch.randint(-2, 3, (length, d)).bfloat16() for _ in range(3))
    weights = (q.double() @ k.double().T).clamp(min=0)
    results = []
    for option, configs in ((promote, None), (promote, IN_ORDER), (None, None)):
        out = torch.full((length, d), float("nan"))
        compiled = tilelang.compile(attention(option), target="sm_90a", pass_configs=configs)
        compiled(q, k, v, out)
        results.append(out)
    assert torch.equal(results[2].double(), weights @ v.double())
    assert torch.equal(results[0], results[2]) and torch.equal(results[1], results[2])


def refused(dtype="float8_e4m3fn", c_dtype="float32", k=128, **options):
    @T.prim_func
    def main(A: T.Tensor((64, k), dtype), B: T.Tensor((64, k), dtype)):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, k), dtype)
            b = T.alloc_shared((64, k), dtype)
            c = T.alloc_fragment((64, 64), c_dtype)
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, transpose_B=True, clear_accum=True, **options)

    return tilelang.compile(main, target="sm_90a")


def case_no_divisor_of_k():
    """ShapeError: promote_every=96: K = 128 is no multiple of it; choose a divisor of the K"""
    refused(promote_every=96)


def case_more_than_k():
    """ShapeError: promote_every=128: K = 64 is no multiple of it"""
    refused(k=64, promote_every=128)


def case_accumulator_of_16_bits():
    """DTypeError: promote_every=128 into c (float16[64, 64] in a fragment); partial sums"""
    refused(c_dtype="float16", promote_every=128)


def case_integers():
    """DTypeError: promote_every=128 into c (int32[64, 64] in a fragment)"""
    refused("int8", "int32", promote_every=128)


def case_groups_in_flight():
    """SemanticsError: adds its result to C, so that it must wait for it: leave out mbar= and"""
    refused(promote_every=128, wg_wait=1)


def case_no_constant():
    """SemanticsError: promote_every must be a positive constant that divides K, got `0`"""
    refused(promote_every=0)


@cases(globals())
def test_refused(case):
    check_wrong(case)
