"""Gemms of an iteration that move together, and those of the next one that are issued before."""

from __future__ import annotations

import pytest
import torch
from schedule.test_attention_backward import check, example
from schedule.test_gemm_turns import exact, mma_warp, poisoned, steps_of

import tilelang
import tilelang.language as T

every_schedule = pytest.mark.every_schedule


def two_chains(rows=64, columns=64, stages=3, halves=False, reads=False, tiles=1):
    """Out = sum of relu(A B_j^T) B_j, Out2 = sum of min(A B_j^T, 1) D_j, each gemm right behind its
    operand as one writes it. ``halves``: threads halve the first sum between gemms; ``reads``: they
    add up the terms of the second."""

    @T.prim_func
    def main(
        A: T.Tensor((tiles * 128, columns), "float16"),
        B: T.Tensor((5 * rows, columns), "float16"),
        D: T.Tensor((5 * rows, columns), "float16"),
        Out: T.Tensor((tiles * 128, columns), "float32"),
        Out2: T.Tensor((tiles * 128, columns), "float32"),
        count: T.int32,
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, columns), "float16")
            b, d = (T.alloc_shared((rows, columns), "float16") for _ in range(2))
            s = T.alloc_fragment((128, rows), "float32")
            p, q = (T.alloc_fragment((128, rows), "float16") for _ in range(2))
            first, second, total = (T.alloc_fragment((128, columns), "float32") for _ in range(3))
            for t in T.serial(tiles):
                T.copy(A[t * 128, 0], a)
                T.clear(first)
                T.clear(second)
                T.clear(total)
                for j in T.Pipelined(T.max(count - t, 0), num_stages=stages):
                    T.copy(B[j * rows, 0], b)
                    T.gemm(a, b, s, transpose_B=True, clear_accum=True)
                    for i, k in T.Parallel(128, rows):
                        p[i, k] = T.max(s[i, k], 0)
                    T.gemm(p, b, first)
                    if halves:
                        for i, k in T.Parallel(128, columns):
                            first[i, k] *= 0.5
                    T.copy(D[j * rows, 0], d)
                    for i, k in T.Parallel(128, rows):
                        q[i, k] = T.min(s[i, k], 1)
                    T.gemm(q, d, second, clear_accum=reads)
                    if reads:
                        for i, k in T.Parallel(128, columns):
                            total[i, k] += second[i, k]
                T.copy(first, Out[t * 128, 0])
                T.copy(total if reads else second, Out2[t * 128, 0])

    return main


def compiled(*args, fit_stages=True, **settings):
    configs = {"tl.disable_stage_fitting": not fit_stages}
    return tilelang.compile(two_chains(*args, **settings), target="sm_100a", pass_configs=configs)


def run(kernel, rows, count, tiles=1, halves=False) -> None:
    """Against float64; all numbers are exact."""
    a, b, d = exact(tiles * 128, 64), exact(5 * rows, 64), exact(5 * rows, 64)
    a = a.sign()
    out, out2 = poisoned(tiles * 128, 64), poisoned(tiles * 128, 64)
    kernel(a, b, d, out, out2, count)
    for t in range(tiles):
        at = slice(t * 128, (t + 1) * 128)
        want, want2 = (torch.zeros(128, 64).double() for _ in range(2))
        for j in range(max(count - t, 0)):
            here = slice(j * rows, (j + 1) * rows)
            s = a[at].double() @ b[here].double().T
            want = (want + s.relu() @ b[here].double()) * (0.5 if halves else 1)
            want2 += s.clamp(max=1) @ d[here].double()
        assert torch.equal(out[at].double(), want)
        assert torch.equal(out2[at].double(), want2)


@every_schedule
@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_loops_of_any_length(count: int, stages: int) -> None:
    run(compiled(stages=stages), 64, count)


@every_schedule
@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("count", [0, 1, 4])
def test_results_that_threads_read(count: int, stages: int) -> None:
    run(compiled(stages=stages, reads=True), 64, count)


@every_schedule
@pytest.mark.parametrize("count", [1, 4])
def test_tiles_that_two_streams_use_in_a_loop_that_is_run_again(count: int) -> None:
    """Each time with fewer iterations, the last time with none."""
    run(compiled(rows=32, tiles=4), 32, count, tiles=4)


@every_schedule
def test_work_on_a_sum_between_gemms() -> None:
    run(compiled(halves=True), 64, 5, halves=True)


AHEAD = ["wait gemm_ahead_ready 0", "wait b_full", "ss", "commit gemm_ahead_done 0"]
TURN = ["wait gemm_ready 0", "ts", "commit b_empty", "wait d_full", "ts", "commit d_empty"]


def test_what_moves() -> None:
    """One handover of both operands; with three slots the next first gemm is issued before it."""
    kernel = compiled()
    steps = steps_of(mma_warp(kernel))
    assert steps[-11:] == [*AHEAD, *TURN, "commit gemm_done 0"]
    assert any("2 batches, not in 3" in remark.message for remark in kernel.remarks)
    two = steps_of(mma_warp(compiled(stages=2, fit_stages=False)))
    assert two[-9:] == [*TURN, "wait b_full", "ss", "commit gemm_done 0"]


def test_results_are_read_beside_the_next_gemm() -> None:
    """Two slots: the gemm ahead follows the others, and nobody waits for it who reads theirs."""
    steps = steps_of(mma_warp(compiled(stages=2, reads=True, fit_stages=False)))
    assert steps[-11:] == [*TURN, "commit gemm_done 0", *AHEAD]


def test_an_operand_that_is_written_twice_keeps_its_gemms_apart() -> None:
    """Dependence decides: the tile in shared memory is read before it is written again."""

    @T.prim_func
    def main(
        A: T.Tensor((128, 64), "float16"),
        B: T.Tensor((3 * 64, 64), "float16"),
        Out: T.Tensor((64, 128), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            s = T.alloc_fragment((128, 64), "float32")
            x = T.alloc_shared((128, 64), "float16")
            total = T.alloc_fragment((128, 64), "float32")
            T.copy(A, a)
            T.clear(total)
            for j in T.Pipelined(3, num_stages=3):
                T.copy(B[j * 64, 0], b)
                T.gemm(a, b, s, transpose_B=True, clear_accum=True)
                for i, k in T.Parallel(128, 64):
                    x[i, k] = T.max(s[i, k], 0)
                T.gemm(x, b, total)
                for i, k in T.Parallel(128, 64):
                    x[i, k] = T.min(s[i, k], 1)
                T.gemm(x, b, total)
            for i, k in T.Parallel(128, 64):
                Out[k, i] = total[i, k]

    kernel = tilelang.compile(main, target="sm_100a")
    assert not any("batches" in remark.message for remark in kernel.remarks)
    a, b = exact(128, 64).sign(), exact(192, 64)
    out = poisoned(64, 128)
    kernel(a, b, out)
    want = torch.zeros(128, 64).double()
    for block in b.double().split(64):
        s = a.double() @ block.T
        want += s.relu() @ block + s.clamp(max=1) @ block
    assert torch.equal(out.double(), want.T)


SCRIPTS = ["attention_backward", "attention_backward_added"]


@every_schedule
@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("script", SCRIPTS)
def test_gradients_of_attention(script: str, stages: int) -> None:
    tiles = example()["Tiles"](128, 64, 256, stages)
    tiles = (tiles, tiles) if script == "attention_backward" else tiles
    shape = (1, 136, 200, 2, 1, 64, 64)
    check(shape, True, tiles=tiles, target="sm_100a", script=script)


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("shape", [(1, 130, 261, 2, 1, 64, 64), (2, 100, 168, 4, 2, 128, 128)])
def test_gradients_with_default_tiles(shape, script: str) -> None:
    check(shape, script == "attention_backward", target="sm_100a", script=script)


@pytest.mark.parametrize("kernels", [1, 2])
def test_gradients_have_one_handover_an_iteration(kernels: int) -> None:
    """Of dK and dV, or dQ, beside the products that the next iteration begins with."""
    shape = example()["Shape"](1, 512, 512, 1, 1, 128, 128)
    kernel = example()["Backward"](shape, target="sm_100a").kernels[kernels]
    steps = steps_of(mma_warp(kernel))
    for barrier in ("gemm_ahead_ready", "gemm_ready"):  # before the loop, and in it
        assert steps.count(f"wait {barrier} 0") == 2
