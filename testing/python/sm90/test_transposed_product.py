"""Tiles whose rows are multiples of 8 and not of 64: wgmma computes C^T = B^T A^T, and all that
reads C follows; each on the emulator and, with the same code, on a GPU."""

from __future__ import annotations

import itertools
import random
import re

import pytest
import torch
from sm90.gemm_kernels import (
    CLEARS,
    HALF_TYPES,
    OTHER_TYPES,
    Case,
    check,
    gemm,
    poisoned,
    uses_wgmma,
)

import tilelang
import tilelang.language as T

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.requires_cuda)]
FULL_ROW, FULL_COL = T.GemmWarpPolicy.FullRow, T.GemmWarpPolicy.FullCol
#: (M, N, K), threads: one instruction, parts of columns, parts of rows, several instructions
SHAPES = [
    ((88, 64, 64), 128),
    ((24, 128, 64), 256),
    ((80, 64, 32), 256),
    ((104, 128, 96), 128),
    ((272, 64, 32), 128),
]


def all_cases() -> list[Case]:
    """Every type, and of 16 bits every transpose, over shapes that warpgroups share differently."""
    cases = []
    for (shape, threads), policy in itertools.product(SHAPES, (FULL_ROW, FULL_COL)):
        for types, ta, tb in itertools.product(HALF_TYPES, (False, True), (False, True)):
            # 80 rows that are contiguous are swizzled by 16: two warpgroups cannot share them.
            if not (ta and shape == (80, 64, 32)):
                cases.append(Case(types, shape, threads, policy, transpose_a=ta, transpose_b=tb))
        cases += [Case(types, shape, threads, policy) for types in OTHER_TYPES]
    random.Random(0).shuffle(cases)
    clears = itertools.cycle(CLEARS)
    return [case._replace(clear=clear) for case, clear in zip(cases, clears, strict=False)]


CASES = all_cases()


def widths(kernel) -> set[int]:
    return {int(n) for n in re.findall(r"mma_async\.sync\.aligned\.m64n(\d+)k", kernel.get_ptx())}


@pytest.mark.parametrize("case", CASES[:40], ids=str)
def test_exact_sums(case):
    check(case)


@pytest.mark.requires_cuda
@pytest.mark.parametrize("case", CASES, ids=str)
def test_exact_sums_on_a_gpu(case):
    check(case, "cuda")


@pytest.mark.parametrize("m", [8, 16, 40, 72, 152, 248, 264, 328])
@pytest.mark.parametrize("types", [HALF_TYPES[2], OTHER_TYPES[5], OTHER_TYPES[0]], ids="-".join)
def test_rows(types, m):
    case = Case(types, (m, 64, 32))
    check(case)
    assert m > 256 or widths(gemm(case)) == {m}


@pytest.mark.parametrize("m", [8, 24, 40, 48, 72, 88, 208])
def test_rows_of_integers(m):
    """int8 has no instruction for 40 rows, or for other odd multiples of 8 from 40 on."""
    check(Case(OTHER_TYPES[1], (m, 64, 64)))


@pytest.mark.parametrize(
    ("shape", "threads", "policy", "width"),
    [
        ((48, 128, 64), 256, T.GemmWarpPolicy.Square, 48),
        ((48, 128, 64), 256, FULL_COL, 48),
        ((48, 128, 64), 256, FULL_ROW, 24),
        ((48, 64, 64), 256, FULL_COL, 24),
        ((96, 128, 64), 512, FULL_COL, 48),
    ],
)
def test_parts_of_warpgroups(shape, threads, policy, width):
    """Columns in 64s first, then rows in 8s; the policy decides where both are possible."""
    case = Case(HALF_TYPES[2], shape, threads, policy)
    check(case)
    assert widths(gemm(case)) == {width}


def of_tensor(
    M, N, K, m, n, k, threads, dtype="bfloat16", out=None, stages=3, by_hand=False, relu=False,
    configs=None, promote=None,
):  # fmt: skip
    """C = A B^T in tiles, with the sums stored as they are, or by way of a tile of the program."""
    out = out or dtype
    option = {} if promote is None else {"promote_every": promote}

    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((N, K), dtype), C: T.Tensor((M, N), out)):
        with T.Kernel(T.ceildiv(N, n), T.ceildiv(M, m), threads=threads) as (bx, by):
            a = T.alloc_shared((m, k), dtype)
            b = T.alloc_shared((n, k), dtype)
            c = T.alloc_fragment((m, n), "float32")
            T.clear(c)
            for i in T.Pipelined(T.ceildiv(K, k), num_stages=stages):
                T.copy(A[by * m, i * k], a)
                T.copy(B[bx * n, i * k], b)
                T.gemm(a, b, c, transpose_B=True, **option)
            if relu:
                for i, j in T.Parallel(m, n):
                    c[i, j] = T.max(c[i, j] + i - j, 0.0)
            if by_hand:
                tile = T.alloc_shared((m, n), out)
                T.copy(c, tile)
                T.copy(tile, C[by * m, bx * n])
            else:
                T.copy(c, C[by * m, bx * n])

    return tilelang.compile(main, target="sm_90a", pass_configs=configs)


def check_tensor(kernel, M, N, K, dtype="bfloat16", out=None, device="cpu", change=None):
    a, b = (torch.randn(rows, K).to(getattr(torch, dtype)) for rows in (M, N))
    c = poisoned((M, N), out or dtype, device)
    kernel(a.to(device), b.to(device), c)
    want = a.double() @ b.double().T
    want = want if change is None else change(want)
    eps = torch.finfo(getattr(torch, out or dtype)).eps
    torch.testing.assert_close(c.double().cpu(), want, rtol=2 * eps, atol=1e-3)


@pytest.mark.every_schedule
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("m", "n", "k", "threads"),
    [
        (88, 128, 64, 256),
        (152, 64, 64, 128),
        (24, 64, 32, 128),
        (40, 192, 16, 384),
        (8, 128, 128, 128),
    ],
)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("by_hand", [False, True])
def test_results_go_by_transposed_matrices(m, n, k, threads, dtype, by_hand, device):
    """stmatrix fills the tile, TMA stores it, and no barrier stands between the matrices."""
    M, N, K = 9 * m + 8, 8 * n + 8, 200
    as_written = {"tl.disable_tile_choice": True}
    kernel = of_tensor(M, N, K, m, n, k, threads, dtype, by_hand=by_hand, configs=as_written)
    source = kernel.get_kernel_source()
    stores = source.split("void __launch_bounds__")[1].split("stmatrix_transposed<")
    assert uses_wgmma(kernel) and len(stores) > 1 and "tl::tma_store(" in stores[-1]
    assert not any("sync" in between for between in stores[1:-1])
    check_tensor(kernel, M, N, K, dtype, device=device)


def test_blocks_that_take_several_tiles():
    """Blocks of more than a wave are persistent; each warpgroup stores its columns, and waits for
    no other. What they compute: test_divided_stores.py."""
    kernel = of_tensor(208 * 20, 4096, 4096, 208, 128, 64, 256)
    assert any("as by T.Persistent" in remark.message for remark in kernel.remarks)
    source = kernel.get_kernel_source()
    assert "tl::sync_threads(15, 256)" not in source and widths(kernel) == {208}


@pytest.mark.every_schedule
@pytest.mark.parametrize("configs", [None, {"tl.disable_warp_specialized": True}])
@pytest.mark.parametrize(
    ("dtype", "k"), [("float8_e4m3fn", 128), ("float8_e5m2", 64), ("float32", 32), ("float16", 64)]
)
def test_sums_that_threads_change(dtype, k, configs):
    """Sums of float8 are taken from the instruction, others are left there."""
    promote = k if dtype.startswith("float8") else None
    M, N, K = 104 + 8, 128 + 64, 192
    kernel = of_tensor(
        M, N, K, 104, 64, k, 128, dtype, "float32", relu=True, configs=configs, promote=promote
    )
    assert uses_wgmma(kernel)
    i, j = torch.meshgrid(torch.arange(M) % 104, torch.arange(N) % 64, indexing="ij")
    a, b = (torch.randint(-3, 4, (rows, K)).to(getattr(torch, dtype)) for rows in (M, N))
    c = poisoned((M, N), "float32")
    kernel(a, b, c)
    assert torch.equal(c.double(), (a.double() @ b.double().T + i - j).clamp(min=0))


@pytest.mark.every_schedule
@pytest.mark.parametrize("device", DEVICES)
def test_rows_and_columns_are_reduced(device):
    """The largest of each row, and the sum of each column, of a product of 24 rows."""

    @T.prim_func
    def main(A: T.Tensor((24, 64), "float16"), B: T.Tensor((128, 64), "float16"),
             Most: T.Tensor((24,)), Sums: T.Tensor((128,))):  # fmt: skip
        with T.Kernel(1, threads=256):
            a, b = T.alloc_shared((24, 64), "float16"), T.alloc_shared((128, 64), "float16")
            c = T.alloc_fragment((24, 128), "float32")
            most, sums = T.alloc_fragment((24,), "float32"), T.alloc_fragment((128,), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, transpose_B=True, clear_accum=True)
            T.reduce_max(c, most, dim=1)
            T.reduce_sum(c, sums, dim=0)
            T.copy(most, Most)
            T.copy(sums, Sums)

    kernel = tilelang.compile(main, target="sm_90a")
    assert widths(kernel) == {24}
    a, b = torch.randint(-3, 4, (24, 64)).half(), torch.randint(-3, 4, (128, 64)).half()
    most, sums = poisoned((24,), "float32", device), poisoned((128,), "float32", device)
    kernel(a.to(device), b.to(device), most, sums)
    want = a.double() @ b.double().T
    assert torch.equal(most.double().cpu(), want.amax(1))
    assert torch.equal(sums.double().cpu(), want.sum(0))


@pytest.mark.every_schedule
def test_groups_that_the_program_waits_for():
    @T.prim_func
    def main(A: T.Tensor((3, 72, 64), "float16"), B: T.Tensor((3, 64, 128), "float16"),
             C: T.Tensor((72, 128))):  # fmt: skip
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((3, 72, 64), "float16")
            b = T.alloc_shared((3, 64, 128), "float16")
            c = T.alloc_fragment((72, 128), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            for i in T.serial(3):
                T.wgmma_gemm(a[i, :, :], b[i, :, :], c)
            T.wait_wgmma(0)
            T.copy(c, C)

    kernel = tilelang.compile(main, target="sm_90a")
    assert widths(kernel) == {72}
    a, b = torch.randint(-3, 4, (3, 72, 64)).half(), torch.randint(-3, 4, (3, 64, 128)).half()
    c = poisoned((72, 128), "float32")
    kernel(a, b, c)
    assert torch.equal(c.double(), (a.double() @ b.double()).sum(0))


@pytest.mark.parametrize("rows", [16, 32])
def test_operands_in_registers_keep_their_rows(rows):
    """Scores that become an operand in registers stay with mma.sync, as the gemm that takes it."""

    @T.prim_func
    def main(Q: T.Tensor((rows, 64), "float16"), K: T.Tensor((128, 64), "float16"),
             V: T.Tensor((128, 64), "float16"), Out: T.Tensor((rows, 64))):  # fmt: skip
        with T.Kernel(1, threads=128):
            q, k = T.alloc_shared((rows, 64), "float16"), T.alloc_shared((128, 64), "float16")
            v = T.alloc_shared((128, 64), "float16")
            s, p = (
                T.alloc_fragment((rows, 128), "float32"),
                T.alloc_fragment((rows, 128), "float16"),
            )
            o = T.alloc_fragment((rows, 64), "float32")
            T.copy(Q, q)
            T.copy(K, k)
            T.copy(V, v)
            T.gemm(q, k, s, transpose_B=True, clear_accum=True)
            T.copy(s, p)
            T.gemm(p, v, o, clear_accum=True)
            T.copy(o, Out)

    kernel = tilelang.compile(main, target="sm_90a")
    assert "wgmma" not in kernel.get_ptx()
    q, k, v = (torch.randint(-1, 2, (n, 64)).half() for n in (rows, 128, 128))
    o = poisoned((rows, 64), "float32")
    kernel(q, k, v, o)
    assert torch.equal(o.double(), q.double() @ k.double().T @ v.double())


@pytest.mark.parametrize("rows", [16, 48])
def test_sums_with_those_of_an_operand_in_registers_keep_their_rows(rows):
    """Both gemms add to C as mma.sync holds it, without a copy in another layout."""

    @T.prim_func
    def main(A: T.Tensor((2, rows, 64), "float16"), B: T.Tensor((2, 64, 128), "float16"),
             C: T.Tensor((rows, 128))):  # fmt: skip
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((2, rows, 64), "float16")
            b = T.alloc_shared((2, 64, 128), "float16")
            f = T.alloc_fragment((rows, 64), "float16")
            c = T.alloc_fragment((rows, 128), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.copy(a[1, :, :], f)
            T.gemm(a[0, :, :], b[0, :, :], c, clear_accum=True)
            T.gemm(f, b[1, :, :], c)
            T.copy(c, C)

    kernel = tilelang.compile(main, target="sm_90a")
    assert "wgmma" not in kernel.get_ptx() and "c_mma" not in kernel.get_kernel_source()
    a, b = torch.randint(-3, 4, (2, rows, 64)).half(), torch.randint(-3, 4, (2, 64, 128)).half()
    c = poisoned((rows, 128), "float32")
    kernel(a, b, c)
    assert torch.equal(c.double(), (a.double() @ b.double()).sum(0))


def reasons(case: Case) -> list[str]:
    return [str(remark) for remark in gemm(case).remarks if "not by wgmma" in str(remark)]


def test_what_neither_product_has():
    few = Case(HALF_TYPES[2], (80, 96, 32))
    check(few, wgmma=False)
    (reason,) = reasons(few)
    assert "M = 80 is no multiple of 64; transposed: N = 96 is no multiple of 64 either" in reason
    shared = Case(HALF_TYPES[2], (144, 64, 32), 384)
    keeps = {"tl.disable_block_fitting": True}
    by_threads = [str(r) for r in gemm(shared._replace(shape=(80, 64, 32)), **keeps).remarks]
    assert any("12 warps cannot share C of 80 x 64 in equal parts" in each for each in by_threads)
    check(shared)


def test_the_pass_option_leaves_such_tiles_to_mma_sync():
    kernel = of_tensor(160, 128, 64, 80, 64, 32, 128, configs={"tl.disable_wgmma": True})
    assert "wgmma" not in kernel.get_ptx() and "mma.sync" in kernel.get_ptx()
