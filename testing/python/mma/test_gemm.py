"""T.gemm by mma.sync: types, shapes, transposes, policies, fragments as operands; each on the
emulator and, with the same code, on a GPU."""

from __future__ import annotations

import itertools
import random

import block_gemms
import pytest
import torch
from block_gemms import Case, operands

import tilelang
import tilelang.language as T

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.requires_cuda)]

TYPES = [
    ("float16", "float16", "float32"),
    ("float16", "float16", "float16"),
    ("bfloat16", "bfloat16", "float32"),
    ("float32", "float32", "float32"),
    ("float64", "float64", "float64"),
    ("int8", "int8", "int32"),
    ("int8", "uint8", "int32"),
    ("uint8", "int8", "int32"),
    ("uint8", "uint8", "int32"),
    ("float8_e4m3fn", "float8_e4m3fn", "float32"),
    ("float8_e4m3fn", "float8_e5m2", "float32"),
    ("float8_e5m2", "float8_e4m3fn", "float32"),
    ("float8_e5m2", "float8_e5m2", "float32"),
]


#: sm_90a has wgmma, which takes most of these gemms otherwise.
WITHOUT_WGMMA = {"tl.disable_wgmma": True}


def all_cases() -> list[Case]:
    """Every type and transpose, over shapes that warps share evenly and unevenly."""
    shapes = [((64, 64, 64), 128), ((128, 32, 96), 64), ((32, 128, 32), 128), ((16, 24, 64), 32)]
    cases = []
    for types, (shape, threads), policy, ta, tb, fragment in itertools.product(
        TYPES, shapes, T.GemmWarpPolicy, (False, True), (False, True), (False, True)
    ):
        if not (fragment and ta):
            cases.append(Case(types, shape, threads, policy, ta, tb, fragment))
    random.Random(0).shuffle(cases)
    clears = itertools.cycle(["clear_accum", "T.clear", "add", "condition"])
    return [case._replace(clear=clear) for case, clear in zip(cases, clears, strict=False)]


CASES = all_cases()


def gemm(case: Case, target: str):
    return block_gemms.gemm(case, target, WITHOUT_WGMMA)


def check(case: Case, target: str, device: str) -> None:
    a, b, want = operands(case, device)
    c = torch.full(want.shape, 77, dtype=getattr(torch, case.types[2]), device=device)
    gemm(case, target)(a, b, c, 0)
    assert torch.equal(c.double(), want)


@pytest.mark.parametrize("case", CASES[:80], ids=str)
def test_exact_sums(case):
    check(case, "sm_90a", "cpu")


@pytest.mark.requires_cuda
@pytest.mark.parametrize("case", CASES[:500], ids=str)
def test_exact_sums_on_a_gpu(case):
    check(case, "sm_90a", "cuda")


@pytest.mark.parametrize("types", [t for t in TYPES if "float8" not in t[0]], ids="-".join)
def test_sm_80(types):
    check(Case(types, (64, 48, 64), 128, a_in_fragment=True), "sm_80", "cpu")


@pytest.mark.parametrize("transpose_b", [False, True])
def test_b_in_a_fragment(transpose_b):
    case = Case(TYPES[0], (64, 48, 32), 128, transpose_b=transpose_b, b_in_fragment=True)
    check(case, "sm_90a", "cpu")


@pytest.mark.parametrize("shape", [(16, 64, 64), (32, 128, 32)], ids=str)
@pytest.mark.parametrize("fragment", [False, True])
def test_few_rows_on_blackwell(shape, fragment):
    """tcgen05.mma has no such shape; with a remark."""
    case = Case(TYPES[2], shape, 64, a_in_fragment=fragment)
    check(case, "sm_100a", "cpu")
    messages = [remark.message for remark in gemm(case, "sm_100a").remarks]
    assert any("mma.sync: tcgen05.mma needs at least 64 rows" in text for text in messages)


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_policy_means_nothing_to_the_tensor_core_of_blackwell(target):
    case = Case(TYPES[0], (64, 64, 64), 128, policy=T.GemmWarpPolicy.FullRow)
    messages = [remark.message for remark in gemm(case, target).remarks]
    told = any("policy has no effect" in text for text in messages)
    assert told == (target == "sm_100a")


def test_float64_on_blackwell():
    check(Case(TYPES[4], (64, 64, 16), 128), "sm_100a", "cpu")


def tiled(M, N, K, tile, types, threads, target, stages=2, transpose_b=False):
    (m, n, k), (a, b, c) = tile, types

    @T.prim_func
    def main(
        A: T.Tensor((M, K), a), B: T.Tensor((N, K) if transpose_b else (K, N), b),
        C: T.Tensor((M, N), c),
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(N, n), T.ceildiv(M, m), threads=threads) as (bx, by):
            x = T.alloc_shared((m, k), a)
            y = T.alloc_shared((n, k) if transpose_b else (k, n), b)
            z = T.alloc_fragment((m, n), "float32")
            T.clear(z)
            for i in T.Pipelined(T.ceildiv(K, k), num_stages=stages):
                T.copy(A[by * m, i * k], x)
                if transpose_b:
                    T.copy(B[bx * n, i * k], y)
                else:
                    T.copy(B[i * k, bx * n], y)
                T.gemm(x, y, z, transpose_B=transpose_b)
            T.copy(z, C[by * m, bx * n])

    return tilelang.compile(main, target=target, pass_configs=WITHOUT_WGMMA)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("size", [(128, 128, 128), (200, 136, 104)], ids=str)
def test_many_tiles_with_ragged_edges(size, target, transpose_b, device):
    M, N, K = size
    if device == "cuda" and target == "sm_80":
        pytest.skip("a GPU of its own architecture runs it")
    a = torch.randn(M, K).bfloat16().to(device)
    b = torch.randn((N, K) if transpose_b else (K, N)).bfloat16().to(device)
    c = torch.full((M, N), float("nan"), device=device).bfloat16()
    kernel = tiled(M, N, K, (64, 64, 32), ("bfloat16",) * 3, 128, target, transpose_b=transpose_b)
    kernel(a, b, c)
    want = a.double() @ (b.double().T if transpose_b else b.double())
    torch.testing.assert_close(c.double(), want, rtol=1e-2, atol=1e-2)


def attention(seq, dim, block_m, block_n, threads, target, policy=None):
    @T.prim_func
    def main(
        Q: T.Tensor((seq, dim), "float16"), K: T.Tensor((seq, dim), "float16"),
        V: T.Tensor((seq, dim), "float16"), Out: T.Tensor((seq, dim), "float16"),
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(seq, block_m), threads=threads) as bx:
            q = T.alloc_shared((block_m, dim), "float16")
            k = T.alloc_shared((block_n, dim), "float16")
            v = T.alloc_shared((block_n, dim), "float16")
            s = T.alloc_fragment((block_m, block_n), "float32")
            p = T.alloc_fragment((block_m, block_n), "float16")
            o = T.alloc_fragment((block_m, dim), "float32")
            largest = T.alloc_fragment((block_m,), "float32")
            before = T.alloc_fragment((block_m,), "float32")
            scale = T.alloc_fragment((block_m,), "float32")
            part = T.alloc_fragment((block_m,), "float32")
            total = T.alloc_fragment((block_m,), "float32")
            T.copy(Q[bx * block_m, 0], q)
            T.clear(o)
            T.clear(total)
            T.fill(largest, -T.infinity("float32"))
            for i in T.Pipelined(T.ceildiv(seq, block_n), num_stages=1):
                T.copy(K[i * block_n, 0], k)
                T.copy(V[i * block_n, 0], v)
                T.gemm(q, k, s, transpose_B=True, clear_accum=True, policy=policy)
                T.copy(largest, before)
                T.reduce_max(s, largest, dim=1, clear=False)
                for r in T.Parallel(block_m):
                    scale[r] = T.exp(before[r] - largest[r])
                for r, c in T.Parallel(block_m, block_n):
                    s[r, c] = T.exp(s[r, c] - largest[r])
                T.reduce_sum(s, part, dim=1)
                for r in T.Parallel(block_m):
                    total[r] = total[r] * scale[r] + part[r]
                for r, c in T.Parallel(block_m, dim):
                    o[r, c] *= scale[r]
                T.copy(s, p)
                T.gemm(p, v, o, policy=policy)
            for r, c in T.Parallel(block_m, dim):
                o[r, c] /= total[r]
            T.copy(o, Out[bx * block_m, 0])

    return tilelang.compile(main, target=target, pass_configs=WITHOUT_WGMMA)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("seq", "dim", "block_m", "block_n"), [(128, 64, 64, 64), (96, 32, 32, 32)]
)
def test_attention(seq, dim, block_m, block_n, device):
    q, k, v = ((torch.randn(seq, dim) / 2).half().to(device) for _ in range(3))
    o = torch.full((seq, dim), float("nan"), device=device).half()
    kernel = attention(seq, dim, block_m, block_n, 2 * block_m, "sm_90a")
    kernel(q, k, v, o)
    want = torch.softmax(q.double() @ k.double().T, 1) @ v.double()
    torch.testing.assert_close(o.double(), want, rtol=2e-2, atol=2e-3)


def test_probabilities_stay_in_their_registers():
    """The accumulator of one gemm is the A operand of the next: neither leaves its thread."""
    kernel = attention(128, 64, 64, 64, 128, "sm_90a")
    assert not [r for r in kernel.remarks if "shared memory" in r.message]
    assert "_stage" not in kernel.get_kernel_source()


def test_matrices_are_loaded_without_bank_conflicts():
    """Tiles are swizzled, so that ldmatrix is used; not one warning, and no scalar loads."""
    kernel = tiled(128, 128, 64, (64, 64, 64), ("float16",) * 3, 128, "sm_90a")
    assert kernel.get_kernel_source().count("tl::ldmatrix<4, ") == 2


BY_THREADS = [
    (Case(TYPES[0], (24, 64, 32), 128), "sm_90a", "cannot share C of 24 x 64"),
    (Case(TYPES[9], (64, 64, 64), 128), "sm_80", "no mma.sync of float8_e4m3"),
]


@pytest.mark.parametrize(("case", "target", "text"), BY_THREADS, ids=lambda value: str(value))
def test_what_no_instruction_has_is_done_by_threads(case, target, text):
    remarks = [str(remark.message) for remark in gemm(case, target).remarks]
    assert any("is done by threads, without tensor cores" in r and text in r for r in remarks)
    assert not any("is done by mma.sync" in r for r in remarks)


@pytest.mark.parametrize("target", ["sm_100a", "sm_90a", "sm_80", "sm_120a"])
@pytest.mark.parametrize("shape", [(32, 64, 64), (64, 48, 32)])
def test_a_transposed_fragment_goes_through_shared_memory(shape, target):
    check(Case(TYPES[0], shape, 128, transpose_a=True, a_in_fragment=True), target, "cpu")


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_chained_gemms_share_their_results_by_rows(target):
    """Without policy= the weights stay in their threads; as squares they would change them."""
    sources = {
        policy: attention(256, 64, 128, 64, 256, target, policy).get_kernel_source()
        for policy in (None, T.GemmWarpPolicy.FullRow, T.GemmWarpPolicy.Square)
    }
    assert sources[None] == sources[T.GemmWarpPolicy.FullRow] != sources[T.GemmWarpPolicy.Square]


def test_chained_gemms_with_too_few_rows_for_all_warps():
    """Eight warps cannot have 16 of 64 rows each."""
    kernel = attention(128, 64, 64, 64, 256, "sm_80")
    q, k, v = (torch.randn(128, 64).half() for _ in range(3))
    out = torch.full((128, 64), float("nan")).half()
    kernel(q, k, v, out)
    weights = torch.softmax(q.double() @ k.double().T, dim=1)
    torch.testing.assert_close(out.double(), weights @ v.double(), rtol=1e-2, atol=1e-2)
