"""What parameters of a kernel stand for, whatever their names are."""

from __future__ import annotations

import pytest
import torch
from tuned_gemm import product_of

import tilelang
import tilelang.language as T
from tilelang.autotuner import suggest
from tilelang.autotuner.roles import Roles
from tilelang.errors import ConfigError


@pytest.fixture(autouse=True)
def _own_records(monkeypatch, private_cache):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def _roles(function, defaults, **given):
    return Roles(lambda config: function(**{**defaults, **given, **config}), defaults, given)


def test_a_gemm_tells_its_tiles_stages_and_threads():
    def function(rows, wide, deep, ahead, lanes):
        return product_of(1000, 520, 136, rows, wide, deep, ahead, lanes)

    # m and n are as large as each other, so only what follows a parameter tells them apart.
    roles = _roles(function, {"rows": 64, "wide": 64, "deep": 32, "ahead": 2, "lanes": 128})
    wanted = {"m": "rows", "n": "wide", "k": "deep", "stages": "ahead", "threads": "lanes"}
    assert roles.names == wanted
    assert _roles(function, roles.defaults, rows=128).names.get("m") is None


def test_a_square_tile_gets_hints_for_squares():
    def trace(config):
        side = config.get("side", 64)
        return product_of(2048, 2048, 512, side, side, 64, 2, 128)

    found = suggest.configurations(trace, {"side": 64}, {}, "sm_90a", "f")
    assert [each.config for each in found] == [{"side": 64}, {"side": 128}]


def test_sizes_of_tensors_are_no_tiles():
    roles = _roles(
        lambda size, m: product_of(size, 256, 256, m, 64, 64, 2, 128), {"size": 256, "m": 64}
    )
    assert roles.names == {"m": "m"}


def test_a_loop_that_counts_by_floor_division_gets_tiles_that_divide():
    def function(depth):
        @T.prim_func
        def main(
            A: T.Tensor((128, 160), "float16"),
            B: T.Tensor((160, 64), "float16"),
            C: T.Tensor((128, 64), "float16"),
        ):
            with T.Kernel(1, threads=128):
                a = T.alloc_shared((128, depth), "float16")
                b = T.alloc_shared((depth, 64), "float16")
                c = T.alloc_fragment((128, 64), "float32")
                T.clear(c)
                for i in T.Pipelined(160 // depth, num_stages=2):
                    T.copy(A[0, i * depth], a)
                    T.copy(B[i * depth, 0], b)
                    T.gemm(a, b, c)
                T.copy(c, C)

        return main

    roles = _roles(function, {"depth": 32})
    assert roles.names == {"k": "depth"}
    assert roles.covers({"depth": 16}) and not roles.covers({"depth": 64})
    rounded = _roles(lambda depth: product_of(128, 64, 160, 128, 64, depth, 2, 128), {"depth": 32})
    assert rounded.covers({"depth": 64}) and rounded.covers({"depth": 128})


@pytest.mark.parametrize("rounds", [True, False])
def test_dimensions_of_the_call_are_covered_too(rounds):
    M = T.dynamic("M")

    def function(block):
        @T.prim_func
        def main(A: T.Tensor((M,), "float32"), B: T.Tensor((M,), "float32")):
            with T.Kernel(T.ceildiv(M, block) if rounds else M // block, threads=32) as b:
                for i in T.Parallel(block):
                    B[b * block + i] = A[b * block + i] * 2

        return main

    roles = _roles(function, {"block": 64})
    assert roles.names == {"n": "block"}
    assert roles.covers({"block": 32}) and roles.covers({"block": 128}) == rounds


@tilelang.autotune
@tilelang.jit(target="sm_90a")
def histogram(X, block=512, threads=64):
    N = T.const("N")
    X: T.Tensor((N,), "int32")
    Y = T.empty((16,), "int32")
    with T.Kernel(1, threads=threads):
        counts = T.alloc_shared((16,), "int32")
        T.clear(counts)
        for i in T.Parallel(block):
            if i < N:
                T.atomic_add(counts[X[i] & 15], 1)
        T.copy(counts, Y)
    return Y


def test_what_is_computed_does_not_change():
    x = torch.randint(0, 1 << 20, (500,)).int()
    torch.testing.assert_close(histogram(x).long(), torch.bincount(x & 15, minlength=16))
    tried = histogram.tune(x).trials
    assert len(tried) > 1 and {trial.config["block"] for trial in tried} == {512}


@pytest.mark.parametrize(("rows", "default"), [(16, 64), (1, 64), (1, 16)])
def test_few_rows_get_the_tiles_that_have_them(rows, default):
    roles = _roles(lambda m: product_of(rows, 256, 256, m, 64, 64, 2, 128), {"m": default})
    assert roles.names == {"m": "m"} and roles.covers({"m": 16})
    assert roles.covers({"m": 128}) == (
        rows > 1
    )  # more than all of one row, too, but nothing tells


def test_threads_that_the_program_counts_stay():
    def function(lanes):
        @T.prim_func
        def main(A: T.Tensor((4096,), "float32"), B: T.Tensor((4096,), "float32")):
            with T.Kernel(32, threads=lanes) as b:
                tid = T.get_thread_binding()
                B[b * 128 + tid] = A[b * 128 + tid] * 2

        return main

    with pytest.raises(ConfigError, match="no parameter of f that it can choose"):
        suggest.configurations(
            lambda config: function(config.get("lanes", 128)), {"lanes": 128}, {}, "sm_90a", "f"
        )


def test_a_reduction_chooses_rows_and_threads():
    @tilelang.autotune
    @tilelang.jit(target="sm_90a")
    def sums(X, rows=16, lanes=64):
        M, N = T.const("M N")
        X: T.Tensor((M, N), "float32")
        Y = T.empty((M,), "float32")
        with T.Kernel(T.ceildiv(M, rows), threads=lanes) as b:
            x = T.alloc_fragment((rows, N), "float32")
            s = T.alloc_fragment((rows,), "float32")
            T.copy(X[b * rows, 0], x)
            T.reduce_sum(x, s, dim=1)
            T.copy(s, Y[b * rows])
        return Y

    x = torch.randn(1001, 130)
    torch.testing.assert_close(sums(x), x.sum(1), rtol=1e-4, atol=1e-4)
    tried = [trial.config for trial in sums.tune(x).trials]
    assert len({config["rows"] for config in tried}) > 1
    assert len({config["lanes"] for config in tried}) > 1


def test_products_of_a_batch_are_one_below_the_other():
    def function(m, n):
        @T.prim_func
        def main(
            A: T.Tensor((32, 256, 512), "float16"),
            B: T.Tensor((32, 512, 256), "float16"),
            C: T.Tensor((32, 256, 256), "float16"),
        ):
            with T.Kernel(256 // n, 256 // m, 32, threads=128) as (bx, by, bz):
                a = T.alloc_shared((m, 64), "float16")
                b = T.alloc_shared((64, n), "float16")
                c = T.alloc_fragment((m, n), "float32")
                T.clear(c)
                for k in T.Pipelined(8, num_stages=2):
                    T.copy(A[bz, by * m, k * 64], a)
                    T.copy(B[bz, k * 64, bx * n], b)
                    T.gemm(a, b, c)
                T.copy(c, C[bz, by * m, bx * n])

        return main

    defaults = {"m": 64, "n": 64}
    found = suggest.configurations(
        lambda config: function(**{**defaults, **config}), defaults, {}, "sm_90a", "f"
    )
    # Of 256 rows alone the best tiles are 64 x 32, which fill the GPU; 8192 rows fill it anyway.
    assert found[1].config["m"] * found[1].config["n"] >= 128 * 128
