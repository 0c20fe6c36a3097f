"""Several gemms an iteration, and tiles that tcgen05.mma has no instruction for."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T

#: the tiles of A and B that a gemm multiplies, and the tile that it adds to
GATED = ((0, 0, 0), (0, 1, 1))
COMPLEX = ((0, 0, 0), (1, 1, 1), (0, 1, 2), (1, 0, 2))
ADDED = ((0, 0, 0), (1, 1, 0))


def several(m, n, k, gemms, tile=(128, 128, 64), threads=128, b_along_k=True, combine=True):
    """C[c] = the sum of A[a] B[b] of all ``gemms`` (a, b, c); C[0] has twice itself and C[-1]."""
    rows, columns, depth = tile
    count_a, count_b, count_c = (max(g[i] for g in gemms) + 1 for i in range(3))
    shape_b = (count_b, n, k) if b_along_k else (count_b, k, n)

    @T.prim_func
    def main(
        A: T.Tensor((count_a, m, k), "bfloat16"),
        B: T.Tensor(shape_b, "bfloat16"),
        C: T.Tensor((count_c, m, n), "float32"),
    ):
        with T.Kernel(T.ceildiv(n, columns), T.ceildiv(m, rows), threads=threads) as (bx, by):
            a = [T.alloc_shared((rows, depth), "bfloat16") for _ in range(count_a)]
            b = [
                T.alloc_shared((columns, depth) if b_along_k else (depth, columns), "bfloat16")
                for _ in range(count_b)
            ]
            c = [T.alloc_fragment((rows, columns), "float32") for _ in range(count_c)]
            for tile_of_c in c:
                T.clear(tile_of_c)
            for step in T.Pipelined(T.ceildiv(k, depth), num_stages=3):
                for number, part in enumerate(a):
                    T.copy(A[number, by * rows, step * depth], part)
                for number, part in enumerate(b):
                    if b_along_k:
                        T.copy(B[number, bx * columns, step * depth], part)
                    else:
                        T.copy(B[number, step * depth, bx * columns], part)
                for of_a, of_b, of_c in gemms:
                    T.gemm(a[of_a], b[of_b], c[of_c], transpose_B=b_along_k)
            if combine:
                for i, j in T.Parallel(rows, columns):
                    c[0][i, j] = c[0][i, j] * 2 + c[-1][i, j]
            for number, part in enumerate(c):
                T.copy(part, C[number, by * rows, bx * columns])

    return main


def check(kernel, m, n, k, gemms, b_along_k=True, combine=True):
    count_a, count_b, count_c = (max(g[i] for g in gemms) + 1 for i in range(3))
    a = torch.randn(count_a, m, k).bfloat16()
    b = torch.randn(count_b, n, k).bfloat16()
    c = torch.full((count_c, m, n), float("nan"))
    kernel(a, b if b_along_k else b.mT.contiguous(), c)
    expected = torch.zeros(count_c, m, n, dtype=torch.float64)
    for of_a, of_b, of_c in gemms:
        expected[of_c] += a[of_a].double() @ b[of_b].double().T
    if combine:
        expected[0] = expected[0] * 2 + expected[-1]
    torch.testing.assert_close(c.double(), expected, rtol=1e-4, atol=1e-3 * k**0.5)


def tiles(kernel) -> str:
    return " ".join(r.message for r in kernel.remarks if r.topic == "tiles")


def instruction(kernel) -> str:
    return "tcgen05" if "tcgen05_mma" in kernel.get_kernel_source() else "mma.sync"


@pytest.mark.parametrize("b_along_k", [True, False])
@pytest.mark.parametrize("gemms", [GATED, COMPLEX, ADDED])
@pytest.mark.parametrize("tile", [(128, 128, 64), (32, 32, 32), (96, 80, 64)])
def test_results(tile, gemms, b_along_k):
    kernel = tilelang.compile(
        several(304, 712, 520, gemms, tile, b_along_k=b_along_k), target="sm_100a"
    )
    assert "blocks compute tiles of 128 x" in tiles(kernel)
    assert instruction(kernel) == "tcgen05"
    check(kernel, 304, 712, 520, gemms, b_along_k)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_120a"])
def test_other_targets_keep_the_tiles_of_several_gemms(target):
    kernel = tilelang.compile(several(200, 168, 136, GATED, (64, 64, 32)), target=target)
    assert "blocks compute tiles" not in tiles(kernel)
    check(kernel, 200, 168, 136, GATED)


@pytest.mark.every_schedule
@pytest.mark.parametrize("combine", [True, False])
def test_a_persistent_grid_reads_the_sums_in_any_order(combine):
    """Without the sum the first tile is read first, with it the last one."""
    kernel = tilelang.compile(
        several(2048, 1088, 72, GATED, (128, 64, 64), combine=combine), target="sm_100a"
    )
    assert "T.Kernel: blocks compute tiles" in tiles(kernel)
    check(kernel, 2048, 1088, 72, GATED, combine=combine)


def test_gemms_that_are_not_alike_stay_as_they_are():
    """A tile of half the columns beside a whole one."""

    @T.prim_func
    def main(
        A: T.Tensor((512, 256), "bfloat16"),
        B: T.Tensor((512, 256), "bfloat16"),
        D: T.Tensor((256, 256), "bfloat16"),
        C: T.Tensor((512, 512), "float32"),
        E: T.Tensor((512, 256), "float32"),
    ):
        with T.Kernel(4, 4, threads=128) as (bx, by):
            a = T.alloc_shared((128, 64), "bfloat16")
            b = T.alloc_shared((128, 64), "bfloat16")
            d = T.alloc_shared((64, 64), "bfloat16")
            c = T.alloc_fragment((128, 128), "float32")
            e = T.alloc_fragment((128, 64), "float32")
            T.clear(c)
            T.clear(e)
            for step in T.Pipelined(4, num_stages=2):
                T.copy(A[by * 128, step * 64], a)
                T.copy(B[bx * 128, step * 64], b)
                T.copy(D[bx * 64, step * 64], d)
                T.gemm(a, b, c, transpose_B=True)
                T.gemm(a, d, e, transpose_B=True)
            T.copy(c, C[by * 128, bx * 128])
            T.copy(e, E[by * 128, bx * 64])

    kernel = tilelang.compile(main, target="sm_100a")
    assert "blocks compute tiles" not in tiles(kernel)
    a, b, d = (torch.randn(n, 256).bfloat16() for n in (512, 512, 256))
    c, e = torch.full((512, 512), float("nan")), torch.full((512, 256), float("nan"))
    kernel(a, b, d, c, e)
    torch.testing.assert_close(c, a.float() @ b.float().T, rtol=1e-4, atol=1e-2)
    torch.testing.assert_close(e, a.float() @ d.float().T, rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize("tile", [(16, 64, 64), (32, 32, 32), (96, 96, 64), (48, 128, 32)])
def test_tiles_without_an_instruction_give_way_to_others(tile):
    kernel = tilelang.compile(
        several(400, 200, 264, ((0, 0, 0),), tile, combine=False), target="sm_100a"
    )
    assert f"instead of {tile[0]} x {tile[1]}" in tiles(kernel)
    assert instruction(kernel) == "tcgen05"
    assert "mma.sync" not in " ".join(r.message for r in kernel.remarks)
    check(kernel, 400, 200, 264, ((0, 0, 0),), combine=False)


def test_few_rows_are_computed_by_tcgen05():
    kernel = tilelang.compile(
        several(16, 512, 256, ((0, 0, 0),), (16, 64, 64), combine=False), target="sm_100a"
    )
    assert instruction(kernel) == "tcgen05"
    check(kernel, 16, 512, 256, ((0, 0, 0),), combine=False)


def test_a_gemm_has_no_remark_about_exponentials():
    function = several(16, 512, 256, ((0, 0, 0),), (16, 64, 64), combine=False)
    kernel = tilelang.compile(function, target="sm_100a")
    assert not [r for r in kernel.remarks if r.topic == "exponentials"]


def predicted(kernel) -> float:
    return sum(grid.timing.grid_us for grid in kernel.profile().grids)


def test_gated_units_run_in_pairs():
    function = several(4096, 4096, 1024, GATED, threads=256)
    chosen = tilelang.compile(function, target="sm_100a")
    kept = tilelang.compile(
        function, target="sm_100a", pass_configs={"tl.disable_tile_choice": True}
    )
    assert "pairs of blocks" in tiles(chosen)
    assert predicted(chosen) < 0.75 * predicted(kept)


def test_two_deep_stages_are_not_enough_for_wide_tiles():
    """The tensor core waits for loads where a stage is multiplied as long as the other loads."""
    function = several(4096, 4096, 1024, ((0, 0, 0),), (128, 128, 128), combine=False)
    kernel = tilelang.compile(function, target="sm_100a")
    assert "128 x 256" not in tiles(kernel).split("instead")[0]
    assert predicted(kernel) < 45
