"""Configurations that the kernel itself suggests, by name and template."""

from __future__ import annotations

import pytest
import torch
from tuned_gemm import gemm, product_of

import tilelang
import tilelang.language as T
from tilelang.autotuner import suggest
from tilelang.errors import ConfigError


@pytest.fixture(autouse=True)
def _own_records(monkeypatch, tmp_path):
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def test_a_gemm_finds_better_tiles_than_its_defaults():
    result = gemm.tune(1024, 1024, 256)
    default = {"block_M": 64, "BN": 64, "tile_k": 32, "num_stages": 2, "threads": 128}
    (first,) = [trial for trial in result.trials if trial.config == default]
    assert len(result.trials) <= suggest.TOPK + 1
    assert result.latency <= 0.9 * first.latency
    a, b = torch.randn(1024, 256).half(), torch.randn(256, 1024).half()
    c = torch.full((1024, 1024), float("nan")).half()
    result.kernel(a, b, c)
    torch.testing.assert_close(c.double(), a.double() @ b.double(), rtol=2e-3, atol=1e-3)


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
    assert result.config["block"] > 64
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
