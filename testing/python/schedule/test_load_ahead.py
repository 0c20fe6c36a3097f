"""T.Pipelined over tiles in registers, and pipelines that stream: what is ahead, at which cost."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tilelang
import tilelang.language as T

TARGETS = ("sm_80", "sm_90a", "sm_100a")
ROWS, COLUMNS = 32, 24


def sums(
    m: Any, turns: Any, dtype: str = "float16", stages: int = 2, columns: int = COLUMNS
) -> Any:
    """S[j] = sum of X[i, j]^2 over ``turns`` tiles, Y the last of them."""

    @T.prim_func
    def kernel(
        X: T.Tensor((m, columns), dtype),
        S: T.Tensor((columns,), "float32"),
        Y: T.Tensor((ROWS, columns), "float32"),
    ):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((ROWS, columns), "float32")
            total = T.alloc_fragment((ROWS, columns), "float32")
            s = T.alloc_fragment((columns,), "float32")
            T.clear(x)
            T.clear(total)
            for t in T.Pipelined(turns, num_stages=stages):
                T.copy(X[t * ROWS, 0], x)
                for i, j in T.Parallel(ROWS, columns):
                    total[i, j] += x[i, j] * x[i, j]
            T.reduce_sum(total, s, dim=0)
            T.copy(s, S)
            T.copy(x, Y)

    return kernel


def check(kernel: Any, m: int, dtype: str = "float16", columns: int = COLUMNS) -> None:
    x = torch.randn(m, columns).to(getattr(torch, dtype))
    s = torch.full((columns,), torch.nan)
    y = torch.full((ROWS, columns), torch.nan)
    kernel(x, s, y)
    torch.testing.assert_close(s.double(), x.double().square().sum(0), rtol=1e-5, atol=1e-5)
    turns = -(-m // ROWS)
    last = torch.zeros(ROWS, columns)
    if turns:
        tail = x[(turns - 1) * ROWS :].float()
        last[: len(tail)] = tail
    assert torch.equal(y, last)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("m", [33, 64, 165])
def test_the_next_tile_is_in_registers(m: int, dtype: str, target: str) -> None:
    kernel = tilelang.compile(sums(m, -(-m // ROWS), dtype), target=target)
    assert [r.message for r in kernel.remarks if r.topic == "pipeline"] == [
        "x is loaded into registers one iteration ahead"
    ]
    check(kernel, m, dtype)


@pytest.mark.parametrize("target", TARGETS)
def test_turns_known_at_run_time(target: str) -> None:
    m = T.dynamic("m")
    kernel = tilelang.compile(sums(m, T.ceildiv(m, ROWS), stages=3), target=target)
    for rows in (1, 32, 33, 100):
        check(kernel, rows)


def test_one_turn_has_no_next() -> None:
    kernel = tilelang.compile(sums(20, 1), target="sm_90a")
    assert "x_next" not in kernel.get_kernel_source()
    check(kernel, 20)


def test_the_load_is_not_waited_for_in_its_turn() -> None:
    """Twice the loads in flight: in the timing model, a tenth below the loop in order."""

    def grid(stages: int) -> Any:
        @T.prim_func
        def kernel(
            X: T.Tensor((132 * 40 * 64 - 5, 64), "float16"), S: T.Tensor((132, 64), "float32")
        ):
            with T.Kernel(132, threads=256) as bx:
                x = T.alloc_fragment((64, 64), "float32")
                total = T.alloc_fragment((64, 64), "float32")
                T.clear(total)
                for t in T.Pipelined(40, num_stages=stages):
                    T.copy(X[(t * 132 + bx) * 64, 0], x)
                    for i, j in T.Parallel(64, 64):
                        total[i, j] += x[i, j] * x[i, j]
                s = T.alloc_fragment((64,), "float32")
                T.reduce_sum(total, s, dim=0)
                T.copy(s, S[bx, 0])

        return tilelang.compile(kernel, target="sm_90a").profile().timing.grid_us

    assert grid(2) < 0.9 * grid(1)


def obstacle(kernel: Any) -> str:
    (remark,) = [r.message for r in kernel.remarks if "not loaded ahead" in r.message]
    return remark


def test_why_a_tile_is_not_ahead() -> None:
    many = tilelang.compile(sums(64, 2, "float32", columns=128), target="sm_90a")
    assert obstacle(many) == (
        "x is not loaded ahead: it takes 64 registers of each thread; at most 32 are used for what "
        "comes next"
    )
    check(many, 64, "float32", columns=128)

    @T.prim_func
    def in_place(X: T.Tensor((4, 64), "float32"), P: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=64):
            x, z = T.alloc_fragment((64,), "float32"), T.alloc_fragment((64,), "int32")
            for t in T.Pipelined(4, num_stages=2):
                T.copy(X[t, 0:64], x)
                for i in T.Parallel(64):
                    z[i] = P[P[t]]
                for i in T.Parallel(64):
                    X[t, i] = x[i] + z[i]

    kernel = tilelang.compile(in_place, target="sm_90a")
    reasons = [r.message for r in kernel.remarks if "not loaded ahead" in r.message]
    assert reasons == [
        "x is not loaded ahead: the kernel writes X",
        "z is not loaded ahead: its place is read from memory",
    ]
    x, p = torch.randn(4, 64), torch.tensor([2, 0, 3, 1], dtype=torch.int32)
    want = x + p[p.long()][:, None]
    kernel(x, p)
    assert torch.equal(x, want)


def normalize(stages: int) -> Any:
    m, n, chunk = 4096, 4096, 1024

    @T.prim_func
    def main(
        X: T.Tensor((m, n), "float32"),
        W: T.Tensor((n,), "float32"),
        mean: T.Tensor((m,), "float32"),
        Y: T.Tensor((m, n), "float32"),
    ):
        with T.Kernel(m, threads=256) as bx:
            x, y = T.alloc_shared((1, chunk), "float32"), T.alloc_shared((1, chunk), "float32")
            for c in T.Pipelined(n // chunk, num_stages=stages):
                T.copy(X[bx, c * chunk], x)
                for i, j in T.Parallel(1, chunk):
                    y[i, j] = (x[i, j] - mean[bx]) * W[c * chunk + j]
                T.copy(y, Y[bx, c * chunk])

    return main


def test_a_pipeline_that_streams_keeps_its_occupancy() -> None:
    """A producer warp, and no registers set apart for it: seven blocks an SM, not one."""
    piped = tilelang.compile(normalize(3), target="sm_90a")
    source = piped.get_kernel_source()
    assert "set_max_nreg" not in source and "setmaxnreg" not in source
    assert "__launch_bounds__(288, 1)" in source
    in_order = tilelang.compile(normalize(1), target="sm_90a")
    assert piped.profile().timing.grid_us <= 1.03 * in_order.profile().timing.grid_us
