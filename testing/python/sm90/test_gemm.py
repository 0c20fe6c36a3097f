"""T.gemm by wgmma with operands in shared memory and in fragments: types, shapes, transposes,
policies; each on the emulator and, with the same code, on a GPU."""

from __future__ import annotations

import itertools
import random

import pytest
import torch
from sm90.gemm_kernels import CLEARS, HALF_TYPES, OTHER_TYPES, Case, check, gemm
from sm100_kernels import check_product, poisoned, random_values

import tilelang
import tilelang.language as T

FULL_ROW, FULL_COL = T.GemmWarpPolicy.FullRow, T.GemmWarpPolicy.FullCol
SHAPES = [
    ((64, 64, 64), 128),
    ((128, 32, 96), 128),
    ((128, 128, 32), 256),
    ((64, 128, 64), 256),
    ((192, 48, 64), 384),
]


def all_cases() -> list[Case]:
    """Every type, and of 16 bits every transpose, over shapes that warpgroups share differently."""
    cases = []
    for (shape, threads), policy, fragment in itertools.product(
        SHAPES, (FULL_ROW, FULL_COL), (False, True)
    ):
        for types, ta, tb in itertools.product(HALF_TYPES, (False, True), (False, True)):
            if not (fragment and ta):
                cases.append(
                    Case(
                        types,
                        shape,
                        threads,
                        policy,
                        transpose_a=ta,
                        transpose_b=tb,
                        a_in_fragment=fragment,
                    )
                )
        cases += [
            Case(types, shape, threads, policy, a_in_fragment=fragment) for types in OTHER_TYPES
        ]
    random.Random(0).shuffle(cases)
    clears = itertools.cycle(CLEARS)
    return [case._replace(clear=clear) for case, clear in zip(cases, clears, strict=False)]


CASES = all_cases()


@pytest.mark.parametrize("case", CASES[:60], ids=str)
def test_exact_sums(case):
    check(case)


@pytest.mark.requires_cuda
@pytest.mark.parametrize("case", CASES, ids=str)
def test_exact_sums_on_a_gpu(case):
    check(case, "cuda")


@pytest.mark.parametrize("n", [8, 24, 40, 88, 104, 200, 248, 256, 264, 320, 384])
@pytest.mark.parametrize("types", [HALF_TYPES[2], OTHER_TYPES[5]], ids="-".join)
def test_widths(types, n):
    check(Case(types, (64, n, 32)))


@pytest.mark.parametrize("n", [8, 16, 24, 32, 48, 80, 176, 208, 240, 272, 288])
def test_widths_of_integers(n):
    """int8 has no instruction of 40 columns, or of other odd multiples of 8 from 40 on."""
    check(Case(OTHER_TYPES[1], (64, n, 64)))


@pytest.mark.parametrize("n", [16, 32, 64, 96, 192, 320, 384])
@pytest.mark.parametrize("transpose_a", [False, True])
def test_swizzles_of_contiguous_columns(transpose_a, n):
    """B (K, N): its rows decide the swizzle, and where a second instruction may begin."""
    check(Case(HALF_TYPES[0], (64, n, 32), transpose_a=transpose_a, transpose_b=False))


@pytest.mark.parametrize("k", [16, 32, 48, 64, 80, 128, 192])
@pytest.mark.parametrize("types", [HALF_TYPES[2], OTHER_TYPES[0]], ids="-".join)
def test_swizzles_of_contiguous_k(types, k):
    """Swizzles of 128, 64 and 32 bytes and none, and several atoms of them."""
    check(Case(types, (64, 32, k)))


@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("clear", CLEARS)
def test_large_tile(clear, transpose_b):
    check(Case(HALF_TYPES[2], (128, 256, 64), 256, transpose_b=transpose_b, clear=clear))


@pytest.mark.parametrize(("m", "threads"), [(128, 128), (256, 256), (256, 128), (512, 256)])
@pytest.mark.parametrize("fragment", [False, True])
def test_several_blocks_of_rows(m, threads, fragment):
    """A warpgroup with more than 64 rows."""
    check(Case(HALF_TYPES[0], (m, 32, 32), threads, a_in_fragment=fragment, clear="add"))


@pytest.mark.every_schedule
@pytest.mark.parametrize("types", [HALF_TYPES[2], HALF_TYPES[1], OTHER_TYPES[0]], ids="-".join)
@pytest.mark.parametrize("fragment", [False, True])
def test_random_values(types, fragment):
    m, n, k = 128, 104, 64
    a, b = random_values(m, k, types[0]), random_values(n, k, types[1])
    c = poisoned(m, n, types[2])
    gemm(Case(types, (m, n, k), 256, a_in_fragment=fragment))(a, b, c, 1)
    check_product(c, a, b.T)


@pytest.mark.parametrize("types", OTHER_TYPES[:2] + OTHER_TYPES[5:6], ids="-".join)
@pytest.mark.parametrize(("transpose_a", "transpose_b"), [(False, False), (True, True)])
def test_only_16_bit_operands_are_transposed(types, transpose_a, transpose_b):
    """Others are multiplied by mma.sync, with a remark that says what would do."""
    case = Case(types, (64, 64, 64), transpose_a=transpose_a, transpose_b=transpose_b)
    check(case, wgmma=False)
    texts = [remark.message for remark in gemm(case).remarks if remark.topic == "gemm"]
    assert len(texts) == 1 and "not by wgmma: it reads 16-bit operands transposed" in texts[0]


@pytest.mark.parametrize("narrow", [False, True])
def test_halves_of_96_columns(narrow):
    """A warpgroup's begin at a multiple of 16, where rows are swizzled by 32 bytes; else they are
    by 64 bytes."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), "bfloat16"), B: T.Tensor((64, 96), "bfloat16"),
             C: T.Tensor((64, 96), "float32")):  # fmt: skip
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((64, 64), "bfloat16")
            b = T.alloc_shared((64, 96), "bfloat16")
            c = T.alloc_fragment((64, 96), "float32")
            if narrow:
                T.annotate_layout({b: tilelang.layout.make_quarter_bank_swizzled_layout(b)})
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True, policy=FULL_COL)
            T.copy(c, C)

    keeps = {"tl.disable_block_fitting": True}
    kernel = tilelang.compile(main, target="sm_90a", pass_configs=keeps)
    assert ("wgmma_m64n48k16" in kernel.get_kernel_source()) == narrow
    reasons = [
        str(remark) for remark in kernel.remarks if "columns in multiples of 32" in str(remark)
    ]
    assert len(reasons) == (not narrow)
    a, b = torch.randn(64, 64).bfloat16(), torch.randn(64, 96).bfloat16()
    c = torch.full((64, 96), float("nan"))
    kernel(a, b, c)
    torch.testing.assert_close(c.double(), a.double() @ b.double(), atol=1e-3, rtol=1e-5)


def test_few_rows_and_columns_are_for_mma_sync():
    case = Case(HALF_TYPES[0], (32, 96, 64))
    check(case, wgmma=False)
    assert not [remark for remark in gemm(case).remarks if remark.topic == "gemm"]


def test_threads_that_are_no_warpgroups():
    case = Case(HALF_TYPES[0], (64, 64, 64), threads=192)
    kernel = gemm(case._replace(shape=(192, 64, 64)), **{"tl.disable_block_fitting": True})
    messages = [remark.message for remark in kernel.remarks]
    assert any("executed by warpgroups, but 192 threads" in text for text in messages)


def test_operands_that_arrive_by_tma_need_no_barrier_of_the_block():
    """One fence, one commit, one wait; the block meets only after the mbarrier is initialised."""
    ptx = gemm(Case(HALF_TYPES[2], (128, 256, 64), 256)).get_ptx()
    lines = [line.strip() for line in ptx.splitlines()]
    assert sum(line.startswith("wgmma.fence") for line in lines) == 1
    assert sum(line.startswith("wgmma.commit_group") for line in lines) == 1
    assert sum(line.startswith("wgmma.wait_group") for line in lines) == 1
    assert sum(line.startswith(("bar.", "barrier.")) for line in lines) == 1


@pytest.mark.parametrize(("m", "n", "k", "threads"), [(64, 32, 8, 256), (128, 16, 24, 128)])
def test_float32_of_a_from_memory_are_held_before_the_fence(m, n, k, threads):
    """The instruction names them as 32 bits, which they become before ``wgmma.fence``."""

    @T.prim_func
    def main(
        A: T.Tensor((m, k), "float32"), B: T.Tensor((n, k), "float32"),
        C: T.Tensor((m, n), "float32"),
    ):  # fmt: skip
        with T.Kernel(1, threads=threads):
            a, b = T.alloc_fragment((m, k), "float32"), T.alloc_shared((n, k), "float32")
            c = T.alloc_fragment((m, n), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, transpose_B=True, clear_accum=True)
            T.copy(c, C)

    kernel = tilelang.compile(main, target="sm_90a")
    x, y = torch.randint(-4, 5, (m, k)).float(), torch.randint(-4, 5, (n, k)).float()
    got = torch.full((m, n), torch.nan)
    kernel(x, y, got)
    assert torch.equal(got, x @ y.T)
    between = kernel.get_ptx().split("wgmma.fence.sync")[1].split("wgmma.mma_async")[0]
    assert "mov.b32" not in between
