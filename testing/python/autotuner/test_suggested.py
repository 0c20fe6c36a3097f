"""Configurations that the kernel itself suggests, by name and template."""

from __future__ import annotations

import pytest
import torch
from tuned_gemm import gemm, product_of

import tilelang
import tilelang.language as T
from tilelang.autotuner import few, measure, suggest
from tilelang.errors import ConfigError


@pytest.fixture(autouse=True)
def _own_records(monkeypatch, private_cache):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def test_a_gemm_finds_better_tiles_than_its_defaults():
    result = gemm.tune(1024, 1024, 256)
    default = {"block_M": 64, "BN": 64, "tile_k": 32, "num_stages": 2, "threads": 128}
    (first,) = tilelang.autotune(gemm.function, configs=[default]).tune(1024, 1024, 256).trials
    assert default not in [trial.config for trial in result.trials]  # by its estimate
    assert len(result.trials) == few.FEW
    assert result.latency <= 0.9 * first.latency
    more = tilelang.autotune(gemm.function, topk=3)._candidates((1024, 1024, 256), {}, {}, {})
    assert len(more) == 4 and more[0].config == default and not more[0].spare
    a, b = torch.randn(1024, 256).half(), torch.randn(256, 1024).half()
    c = torch.full((1024, 1024), float("nan")).half()
    result.kernel(a, b, c)
    torch.testing.assert_close(c.double(), a.double() @ b.double(), rtol=2e-3, atol=1e-3)


def test_one_program_of_several_configurations_is_timed_once(monkeypatch):
    timed = []
    predicted = measure._predicted
    monkeypatch.setattr(measure, "_predicted", lambda k, a: timed.append(k) or predicted(k, a))
    # The compiler makes tiles of 128 x 256 of both.
    configs = [{"block_M": 128, "BN": n} for n in (128, 256)]
    tuned = tilelang.autotune(gemm.function, configs=configs)
    result = tuned.tune(4096, 4096, 512, tile_k=64, num_stages=3, threads=256)
    first, second = result.trials
    assert len(timed) == 1 and first.latency == second.latency == result.latency


def test_the_default_is_tried_where_nothing_else_can_be_used():
    @tilelang.jit(tune="model", target="sm_90a")
    def narrow(M, N, K, m=64, n=64, k=32, stages=2):
        if m * n > 64 * 64 and m * n != 128 * 64:  # roles are found by tiles twice as large
            raise ValueError("no such tile")
        return product_of(M, N, K, m, n, k, stages, 128)

    result = narrow.tune(4096, 4096, 64)
    assert (64, 64) in [(trial.config["m"], trial.config["n"]) for trial in result.trials]


def test_what_surrounds_a_search_holds_for_its_candidates():
    def remarks(**config):
        with tilelang.transform.PassContext(config=config):
            kernel = gemm(4096, 4096, 512, 128, 128, 64, 3)
        return " ".join(str(each) for each in kernel.remarks)

    usual = remarks()
    assert remarks(**{"tl.disable_tile_widening": True, "tl.disable_block_fitting": True}) != usual
    assert remarks() == usual


def test_blocks_that_few_fit_are_timed_without_ptxas():
    kernel = gemm.tune(2048, 2048, 512, 128, 256, 64, 3).kernel
    shared = gemm.tune(512, 512, 512, 64, 64, 32, 2).kernel
    assert [each.artifact.assembled for each in (kernel, shared)] == [False, True]
    for each in (kernel, shared):
        usual = each.profile().timing  # with the registers of ptxas
        assert each.latency == pytest.approx(usual.grid_us / 1e3, rel=1e-6)


@pytest.mark.parametrize("tune", ["model", "estimate"])
def test_what_transposes_gets_square_tiles(tune):
    @tilelang.jit(tune=tune, target="sm_90a", out_idx=-1)
    def transposed(M, N, high=16, wide=32, workers=128):
        @T.prim_func
        def main(X: T.Tensor((M, N), "float32"), Y: T.Tensor((N, M), "float32")):
            with T.Kernel(T.ceildiv(N, wide), T.ceildiv(M, high), threads=workers) as (bx, by):
                tile = T.alloc_shared((high, wide), "float32")
                T.copy(X[by * high, bx * wide], tile)
                for j, i in T.Parallel(wide, high):
                    Y[bx * wide + j, by * high + i] = tile[i, j]

        return main

    config = transposed.tune(4096, 4096).config
    assert config["high"] == config["wide"] == 64
    x = torch.randn(100, 131)
    assert torch.equal(transposed(100, 131)(x), x.T)


def test_what_the_call_gives_stays():
    result = gemm.tune(512, 512, 128, threads=128, num_stages=3)
    assert {trial.config.get("BN") for trial in result.trials} > {64}
    assert all(not {"threads", "num_stages"} & set(trial.config) for trial in result.trials)


def test_few_rows_get_tiles_of_their_own():
    chosen = gemm.tune(16, 4096, 256).config
    assert chosen["block_M"] <= 64 and chosen["BN"] <= 64


@pytest.mark.parametrize("tune", ["model", "measure"])
def test_jit_chooses_as_it_is_told(tune):
    @tilelang.jit(tune=tune, target="sm_90a")
    def double(X, block=64, threads=64):
        N = T.const("N")
        X: T.Tensor((N,), T.float32)
        Y = T.empty((N,), T.float32)
        with T.Kernel(T.ceildiv(N, block), threads=threads) as b:
            for i in T.Parallel(block):
                Y[b * block + i] = X[b * block + i] * 2
        return Y

    x = torch.randn(100_003)
    torch.testing.assert_close(double(x), x * 2)
    result = double.tune(x)
    times = [trial.latency for trial in result.trials if trial.latency is not None]
    assert len(times) > 1 and result.latency == min(times) < max(times)
    assert ("as by_model says" in result.remark) == (tune == "model")


def test_attention_has_a_template_of_its_own():
    def attention(block_M, block_N, stages, threads):
        @T.prim_func
        def main(
            Q: T.Tensor((8, 1024, 64), "float16"),
            K: T.Tensor((8, 1024, 64), "float16"),
            V: T.Tensor((8, 1024, 64), "float16"),
            Out: T.Tensor((8, 1024, 64), "float16"),
        ):
            with T.Kernel(T.ceildiv(1024, block_M), 8, threads=threads) as (bx, head):
                q = T.alloc_shared((block_M, 64), "float16")
                k = T.alloc_shared((block_N, 64), "float16")
                v = T.alloc_shared((block_N, 64), "float16")
                s = T.alloc_fragment((block_M, block_N), "float32")
                p = T.alloc_fragment((block_M, block_N), "float16")
                o = T.alloc_fragment((block_M, 64), "float32")
                T.copy(Q[head, bx * block_M, 0], q)
                T.clear(o)
                for j in T.Pipelined(T.ceildiv(1024, block_N), num_stages=stages):
                    T.copy(K[head, j * block_N, 0], k)
                    T.copy(V[head, j * block_N, 0], v)
                    T.gemm(q, k, s, transpose_B=True, clear_accum=True)
                    T.copy(s, p)
                    T.gemm(p, v, o)
                T.copy(o, Out[head, bx * block_M, 0])

        return main

    defaults = {"block_M": 128, "block_N": 64, "stages": 2, "threads": 256}
    suggestions = suggest.configurations(
        lambda config: attention(**{**defaults, **config}), defaults, {}, "sm_90a", "attention"
    )
    found = [each.config for each in suggestions]
    assert found[0] == defaults
    assert {"block_M": 192, "threads": 384}.items() <= max(
        found, key=lambda c: c["block_M"]
    ).items()


@pytest.mark.parametrize("defaults", [{}, {"width": 3}, {"block_M": "large"}, {"block_M": True}])
def test_unknown_parameters_are_refused_with_what_is_known(defaults):
    with pytest.raises(ConfigError, match="finds no parameter of f that it can choose") as caught:
        suggest.configurations(
            lambda config: product_of(64, 64, 64, 64, 64, 32, 2, 128), defaults, {}, "sm_90a", "f"
        )
    assert "extents of a tile" in str(caught.value) and "configs=" in str(caught.value)


def test_a_word_that_nobody_knows_is_refused():
    with pytest.raises(ConfigError, match='"model", "estimate" or "measure"'):
        tilelang.jit(tune="fast")
