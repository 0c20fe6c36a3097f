"""Threads and stages of plain gemms, as many as fit a multiprocessor."""

from __future__ import annotations

import pytest
import torch
from sm90.gemm_kernels import poisoned

import tilelang
import tilelang.language as T
from tilelang.schedule.description import from_core
from tilelang.transform import remarks_of

#: blocks and tiles are those of the program
NARROW = {
    tilelang.PassConfigKey.TL_DISABLE_TILE_CHOICE: True,
    tilelang.PassConfigKey.TL_DISABLE_TILE_WIDENING: True,
    tilelang.PassConfigKey.TL_DISABLE_PERSISTENT_BLOCKS: True,
}
OFF = NARROW | {tilelang.PassConfigKey.TL_DISABLE_BLOCK_FITTING: True}


def tiled(
    rows=4096, columns=4096, depth=4096, m=128, n=128, k=64, threads=256, stages=3, relu=False,
    spelled=None,
):  # fmt: skip
    """A gemm of one tile a block; ``spelled``: what keeps the program as it is."""

    @T.prim_func
    def main(
        A: T.Tensor((rows, depth), "float16"),
        B: T.Tensor((depth, columns), "float16"),
        C: T.Tensor((rows, columns), "float16"),
        S: T.Tensor((rows, columns), "float32"),
    ):
        with T.Kernel(T.ceildiv(columns, n), T.ceildiv(rows, m), threads=threads) as (bx, by):
            a = T.alloc_shared((m, k), "float16")
            b = T.alloc_shared((k, n), "float16")
            c = T.alloc_fragment((m, n), "float32")
            if spelled == "registers":
                T.set_max_nreg(232, 1)
            if spelled == "blocks":
                T.annotate_min_blocks_per_sm(1)
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(depth, k), num_stages=stages):
                T.copy(A[by * m, step * k], a)
                T.copy(B[step * k, bx * n], b)
                if spelled == "work":
                    for i, j in T.Parallel(m, k):
                        a[i, j] = a[i, j] * 2
                T.gemm(a, b, c)
            if spelled == "thread":
                c[0, 0] = c[0, 0] + T.get_thread_binding()
            if spelled == "sync":
                T.sync_threads()
            if spelled == "added":
                T.atomic_add(S[by * m, bx * n], c)
            if relu:
                for i, j in T.Parallel(m, n):
                    c[i, j] = T.max(c[i, j] + 1.0, 0.0)
            T.copy(c, C[by * m, bx * n])

    return main


def fitted(target="sm_90a", configs=NARROW, **options) -> tuple[int, int]:
    """Threads that compute a block, and slots of its tiles."""
    lowered = tilelang.lower(tiled(**options), target=target, pass_configs=configs)
    (launch,) = from_core("main", target, lowered.schedule, []).launches
    (threads,) = [role.threads for role in launch.roles if role.name == "threads"]
    (slots,) = {channel.slots for channel in launch.channels}
    return threads, slots


def check(kernel, rows, columns, depth, relu):
    torch.manual_seed(0)
    a, b = torch.randn(rows, depth).half(), torch.randn(depth, columns).half()
    c = poisoned((rows, columns), "float16", "cpu")
    kernel(a, b, c, torch.zeros(rows, columns))
    want = a.double() @ b.double()
    want = (want + 1.0).clamp(min=0.0) if relu else want
    torch.testing.assert_close(c.double(), want, rtol=2e-3, atol=1e-3)


def test_one_warpgroup_computes_where_two_such_blocks_fit():
    assert fitted() == (128, 3)
    assert fitted(configs=OFF) == (256, 3)
    assert fitted(m=64) == (128, 3)  # three blocks
    assert fitted(m=88)[0] == 128  # each with all columns
    one = {tilelang.PassConfigKey.TL_DISABLE_LAUNCH_VERSIONS: True}
    assert fitted(configs=NARROW | one, rows=T.dynamic("rows")) == (128, 3)  # as if many


@pytest.mark.parametrize(
    "options",
    [
        {"rows": 1536, "columns": 1408},  # as many blocks as multiprocessors
        {"n": 256},  # fragments that a warpgroup cannot hold
        {"m": 96, "n": 96},  # that it cannot multiply
        {"k": 128, "stages": 3},  # tiles of which two blocks have no room
        {"threads": 384, "m": 192},
    ],
    ids=str,
)
def test_other_blocks_keep_their_threads(options):
    threads, _ = fitted(**options)
    assert threads == options.get("threads", 256)


@pytest.mark.parametrize("spelled", ["registers", "blocks", "work", "thread", "sync"])
def test_programs_that_say_more_stay_as_they_are(spelled):
    assert not remarks_of("fit_blocks", tiled(spelled=spelled), "sm_90a")


@pytest.mark.parametrize("target", ["sm_80", "sm_100a"])
def test_targets_without_wgmma_stay_as_they_are(target):
    assert not remarks_of("fit_blocks", tiled(), target)


def test_two_warpgroups_compute_where_threads_load():
    odd = {"depth": 4095, "columns": 4095}
    (remark,) = remarks_of("fit_threads", tiled(**odd, threads=128), "sm_90a")
    assert "256 threads instead of 128" in remark.message
    assert "tl.disable_block_fitting" in remark.message
    for other in ({"threads": 256}, {"threads": 128, "m": 64}, {"threads": 128, "n": 64}):
        assert not remarks_of("fit_threads", tiled(**odd | other), "sm_90a")


def test_two_warpgroups_compute_the_only_block_of_a_multiprocessor():
    wave = {"rows": 384, "threads": 128}  # 96 blocks
    (remark, *_) = remarks_of("fit_blocks", tiled(**wave), "sm_90a")
    assert "256 threads instead of 128" in remark.message
    assert "tl.disable_block_fitting" in remark.message
    assert fitted(**wave)[0] == 256
    assert fitted(**wave, configs=OFF)[0] == 128
    for other in ({"rows": 1300}, {"m": 64}):  # more blocks; rows of one warpgroup
        assert fitted(**wave | other)[0] == 128
    small = {"rows": 130, "columns": 136, "depth": 72, "k": 32, "stages": 2}
    kernel = tilelang.compile(tiled(**small, threads=128), target="sm_90a")
    check(kernel, 130, 136, 72, relu=False)


def test_rows_of_any_length():
    sizes = {"rows": 65, "columns": 67, "depth": 33, "k": 32, "threads": 128, "stages": 2}
    kernel = tilelang.compile(tiled(**sizes), target="sm_90a")
    assert "256 threads instead of 128" in " ".join(r.message for r in kernel.remarks)
    check(kernel, 65, 67, 33, relu=False)


def test_stages_fill_the_shared_memory_that_is_left():
    few = {"rows": 16, "m": 64, "n": 64, "threads": 128}
    assert fitted(**few) == (128, 12)  # 64 blocks
    assert fitted(**few, configs=OFF) == (128, 3)
    assert fitted(**few, depth=320) == (128, 5)  # iterations
    assert fitted(**few | {"columns": 14336}) == (128, 7)  # 224 blocks, two a multiprocessor
    assert fitted(n=256) == (256, 4)
    assert fitted(**few, spelled="added") == (128, 12)


def test_fewer_stages_where_two_blocks_then_fit():
    assert fitted(stages=4) == fitted(stages=6, threads=128) == (128, 3)


def test_remarks_say_what_was_done_and_how_to_decide_otherwise():
    threads, stages = remarks_of("fit_blocks", tiled(stages=4), "sm_90a")
    assert (threads.topic, stages.topic) == ("threads", "pipeline")
    assert "128 threads instead of 256" in threads.message
    assert "3 stages instead of 4" in stages.message
    for remark in (threads, stages):
        assert "tl.disable_block_fitting" in remark.message


@pytest.mark.every_schedule
@pytest.mark.parametrize("steps", [1, 3])
def test_results_are_those_of_a_float64_product(steps):
    sizes = {"rows": 840, "columns": 664, "depth": 40 * steps}  # 154 blocks, ragged
    tiles = {"m": 64, "n": 64, "k": 32, "stages": 2, "relu": True}
    kernel = tilelang.compile(tiled(**sizes, **tiles), target="sm_90a", pass_configs=NARROW)
    said = " ".join(remark.message for remark in kernel.remarks)
    assert "128 threads instead of 256" in said
    check(kernel, 840, 664, 40 * steps, relu=True)


def test_blocks_of_sm_120a_are_fitted_as_well():
    """Two warpgroups compute the only block of a multiprocessor. sm_80 keeps the program's."""
    wave = {"rows": 384, "columns": 2048, "threads": 128, "stages": 2}  # 48 blocks
    said = [r.message for r in remarks_of("fit_blocks", tiled(**wave), "sm_120a")]
    assert any("256 threads instead of 128" in text for text in said)
    assert not remarks_of("fit_blocks", tiled(**wave), "sm_80")
    small = {"rows": 130, "columns": 136, "depth": 72, "k": 32, "stages": 2}
    kernel = tilelang.compile(tiled(**small, threads=128), target="sm_120a")
    check(kernel, 130, 136, 72, relu=False)
