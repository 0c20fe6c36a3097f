"""Iterations that overlap within a role: attention, where the second gemm of one iteration runs
beside the softmax of the next. Equal to the bit to the same program in order."""

from __future__ import annotations

import re

import pytest
import torch

import tilelang
import tilelang.language as T

#: keeps the iterations of a test of few blocks in one block
WHOLE = {tilelang.PassConfigKey.TL_DISABLE_SPLIT_K: True}
IN_ORDER = {tilelang.PassConfigKey.TL_DISABLE_WARP_SPECIALIZED: True}
LOG2_E = 1.4426950408889634
every_schedule = pytest.mark.every_schedule


@T.macro
def softmax_step(s, p, acc, m, before, scale, total, row, factor):
    """Online softmax of a block of scores; p: the weights, acc: rescaled to the new maximum."""
    bm, bn, d = s.shape[0], s.shape[1], acc.shape[1]
    T.copy(m, before)
    T.reduce_max(s, m, dim=1, clear=False)
    for i in T.Parallel(bm):
        scale[i] = T.exp2(before[i] * factor - m[i] * factor)
    for i, c in T.Parallel(bm, bn):
        s[i, c] = T.exp2(s[i, c] * factor - m[i] * factor)
    T.reduce_sum(s, row, dim=1)
    for i in T.Parallel(bm):
        total[i] = total[i] * scale[i] + row[i]
    T.copy(s, p)
    for i, c in T.Parallel(bm, d):
        acc[i, c] *= scale[i]


def attention(length, d, bm, bn, threads, stages=2, causal=False, dtype="bfloat16"):
    factor = d**-0.5 * LOG2_E

    @T.prim_func
    def main(
        Q: T.Tensor((length, d), dtype),
        K: T.Tensor((length, d), dtype),
        V: T.Tensor((length, d), dtype),
        Out: T.Tensor((length, d), "float32"),
    ):
        with T.Kernel(T.ceildiv(length, bm), threads=threads) as bx:
            q = T.alloc_shared((bm, d), dtype)
            k = T.alloc_shared((bn, d), dtype)
            v = T.alloc_shared((bn, d), dtype)
            s = T.alloc_fragment((bm, bn), "float32")
            p = T.alloc_fragment((bm, bn), dtype)
            acc = T.alloc_fragment((bm, d), "float32")
            m = T.alloc_fragment((bm,), "float32")
            before = T.alloc_fragment((bm,), "float32")
            scale = T.alloc_fragment((bm,), "float32")
            total = T.alloc_fragment((bm,), "float32")
            row = T.alloc_fragment((bm,), "float32")
            T.copy(Q[bx * bm, 0], q)
            T.clear(acc)
            T.clear(total)
            T.fill(m, -T.infinity("float32"))
            blocks = T.ceildiv((bx + 1) * bm, bn) if causal else T.ceildiv(length, bn)
            for j in T.Pipelined(T.min(blocks, T.ceildiv(length, bn)), num_stages=stages):
                T.copy(K[j * bn, 0], k)
                for i, c in T.Parallel(bm, bn):
                    hidden = (j * bn + c > bx * bm + i) if causal else (j * bn + c >= length)
                    s[i, c] = T.if_then_else(hidden, -T.infinity("float32"), 0)
                T.gemm(q, k, s, transpose_B=True)
                softmax_step(s, p, acc, m, before, scale, total, row, factor)
                T.copy(V[j * bn, 0], v)
                T.gemm(p, v, acc)
            for i, c in T.Parallel(bm, d):
                acc[i, c] /= total[i]
            T.copy(acc, Out[bx * bm, 0])

    return main


def expected(Q, K, V, causal):
    scores = Q.double() @ K.double().T * Q.shape[1] ** -0.5
    if causal:
        hidden = torch.ones_like(scores, dtype=torch.bool).triu(1)
        scores.masked_fill_(hidden, float("-inf"))
    return scores.softmax(1) @ V.double()


def overlaps(kernel) -> bool:
    return "wgmma_wait<1>" in kernel.get_kernel_source()


def run(kernel, *inputs, shape, device="cpu"):
    out = torch.full(shape, float("nan"), device=device)
    kernel(*(t.to(device) if isinstance(t, torch.Tensor) else t for t in inputs), out)
    return out.cpu()


CASES = [
    # length, d, bm, bn, threads, stages, causal
    (256, 64, 64, 64, 128, 2, False),
    (320, 64, 128, 64, 256, 3, True),
    (200, 128, 128, 128, 256, 2, False),
    (384, 128, 192, 80, 384, 2, True),
    (70, 32, 64, 32, 128, 2, False),
    (64, 64, 64, 64, 128, 4, True),
]


@every_schedule
@pytest.mark.parametrize("case", CASES, ids=str)
def test_attention(case) -> None:
    length, d, _, bn, _, _, causal = case
    Q, K, V = (torch.randn(length, d).bfloat16() for _ in range(3))
    kernel = tilelang.compile(attention(*case), target="sm_90a", pass_configs=WHOLE)
    # A loop that runs once has nothing to overlap with.
    assert overlaps(kernel) == (length > bn)
    result = run(kernel, Q, K, V, shape=(length, d))
    error = (result.double() - expected(Q, K, V, causal)).norm() / expected(Q, K, V, causal).norm()
    assert error < 5e-3
    in_order = tilelang.compile(attention(*case), target="sm_90a", pass_configs=WHOLE | IN_ORDER)
    assert not overlaps(in_order)
    assert torch.equal(result, run(in_order, Q, K, V, shape=(length, d)))


@pytest.mark.requires_cuda
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", [(128, 128, 256), (192, 80, 384), (64, 64, 128)], ids=str)
@pytest.mark.parametrize("d", [64, 128])
def test_attention_on_a_gpu(d: int, shape, causal: bool) -> None:
    bm, bn, threads = shape
    length = 1100
    Q, K, V = (torch.randn(length, d).bfloat16() for _ in range(3))
    kernel = tilelang.compile(attention(length, d, bm, bn, threads, causal=causal))
    result = run(kernel, Q, K, V, shape=(length, d), device="cuda")
    want = expected(Q, K, V, causal)
    assert (result.double() - want).norm() / want.norm() < 5e-3


def chain(blocks, stages=2, rows=64, columns=64):
    """Two gemms, the second of what threads make of the first; any number of iterations."""

    @T.prim_func
    def main(
        A: T.Tensor((rows, 64), "float16"),
        B: T.Tensor((blocks * columns, 64), "float16"),
        C: T.Tensor((blocks * columns, 64), "float16"),
        n: T.int32,
        Out: T.Tensor((rows, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((rows, 64), "float16")
            b = T.alloc_shared((columns, 64), "float16")
            c = T.alloc_shared((columns, 64), "float16")
            s = T.alloc_fragment((rows, columns), "float32")
            p = T.alloc_fragment((rows, columns), "float16")
            acc = T.alloc_fragment((rows, 64), "float32")
            T.copy(A, a)
            T.clear(acc)
            for j in T.Pipelined(n, num_stages=stages):
                T.copy(B[j * columns, 0], b)
                T.gemm(a, b, s, transpose_B=True, clear_accum=True)
                for i, q in T.Parallel(rows, columns):
                    p[i, q] = T.max(s[i, q], 0) * 0.125 + j
                T.copy(C[j * columns, 0], c)
                T.gemm(p, c, acc)
            T.copy(acc, Out)

    return main


@every_schedule
@pytest.mark.parametrize("count", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("stages", [2, 3])
def test_a_chain_of_any_length(stages: int, count: int) -> None:
    kernel = tilelang.compile(chain(7, stages), target="sm_90a")
    assert overlaps(kernel)
    A, B, C = (torch.randint(-2, 3, (rows, 64)).half() for rows in (64, 448, 448))
    want = torch.zeros(64, 64).double()
    for j in range(count):
        s = A.double() @ B[j * 64 : j * 64 + 64].double().T
        p = (s.clamp(min=0).half() * 0.125 + j).half().double()
        want += p @ C[j * 64 : j * 64 + 64].double()
    assert torch.equal(run(kernel, A, B, C, count, shape=(64, 64)).double(), want)


def test_the_order_of_an_iteration() -> None:
    """Both gemms are issued, the first is waited for, its tile released; the softmax runs; then
    the second is complete, its tile released, and threads touch its result."""
    source = tilelang.compile(chain(7), target="sm_90a").get_kernel_source()
    loop = source[source.index("for (int j_1 = 1;") :]
    loop = loop[: loop.index("\n    }\n") if "\n    }\n" in loop else None]
    call = r"mbarrier_\w+\((\w+)\[|(wgmma_commit)|(wgmma_wait<\d>)|(half_t\()"
    names = ["".join(event) for event in re.findall(call, loop)]
    assert names[: names.index("half_t(") + 1] == [
        "b_full",
        "wgmma_commit",
        "c_full",
        "wgmma_commit",
        "wgmma_wait<1>",
        "b_empty",
        "wgmma_wait<0>",
        "c_empty",
        "half_t(",
    ]


@every_schedule
@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_three_gemms_in_a_row(count: int) -> None:
    """The second and the third one of an iteration run in the round of the next."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 64), "float16"),
        B: T.Tensor((320, 64), "float16"),
        C: T.Tensor((320, 64), "float16"),
        D: T.Tensor((320, 64), "float16"),
        n: T.int32,
        Out: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            tiles = [T.alloc_shared((64, 64), "float16") for _ in range(3)]
            s = T.alloc_fragment((64, 64), "float32")
            p = T.alloc_fragment((64, 64), "float16")
            r = T.alloc_fragment((64, 64), "float32")
            q = T.alloc_fragment((64, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.clear(acc)
            for j in T.Pipelined(n, num_stages=2):
                T.copy(B[j * 64, 0], tiles[0])
                T.copy(C[j * 64, 0], tiles[1])
                T.copy(D[j * 64, 0], tiles[2])
                T.gemm(a, tiles[0], s, transpose_B=True, clear_accum=True)
                for i, k in T.Parallel(64, 64):
                    p[i, k] = T.if_then_else(s[i, k] > 0, 1, -1)
                T.gemm(p, tiles[1], r, clear_accum=True)
                for i, k in T.Parallel(64, 64):
                    q[i, k] = T.if_then_else(r[i, k] > j, 1, 0)
                T.gemm(q, tiles[2], acc)
            T.copy(acc, Out)

    kernel = tilelang.compile(main, target="sm_90a")
    assert overlaps(kernel)
    A = torch.randint(-2, 3, (64, 64)).half()
    B, C, D = torch.randint(-2, 3, (3, 320, 64)).half()
    want = torch.zeros(64, 64).double()
    for j in range(count):
        b, c, d = (M[j * 64 : j * 64 + 64].double() for M in (B, C, D))
        p = torch.where(A.double() @ b.T > 0, 1.0, -1.0).double()
        want += (p @ c > j).double() @ d
    assert torch.equal(run(kernel, A, B, C, D, count, shape=(64, 64)).double(), want)


def test_a_result_that_the_next_iteration_needs_is_waited_for() -> None:
    """Nothing can run ahead of a gemm whose operand comes from the one before."""

    @T.prim_func
    def main(B: T.Tensor((320, 64), "float16"), Out: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            b = T.alloc_shared((64, 64), "float16")
            s = T.alloc_fragment((64, 64), "float32")
            p = T.alloc_fragment((64, 64), "float16")
            T.fill(p, 1)
            for j in T.Pipelined(5, num_stages=2):
                T.copy(B[j * 64, 0], b)
                T.gemm(p, b, s, clear_accum=True)
                for i, q in T.Parallel(64, 64):
                    p[i, q] = T.if_then_else(s[i, q] > 0, 1, -1)
            T.copy(s, Out)

    kernel = tilelang.compile(main, target="sm_90a")
    assert not overlaps(kernel)
    B = torch.randint(-2, 3, (320, 64)).half()
    p = torch.ones(64, 64).double()
    for j in range(5):
        s = p @ B[j * 64 : j * 64 + 64].double()
        p = torch.where(s > 0, 1.0, -1.0).double()
    assert torch.equal(run(kernel, B, shape=(64, 64)).double(), s)
