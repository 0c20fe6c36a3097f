"""Dimensions that only calls know: classes of sizes, each with a configuration of its own."""

from __future__ import annotations

import pytest
import torch
from tuned_gemm import gemm, product_of

import tilelang
import tilelang.language as T
from tilelang.autotuner import TunedKernel
from tilelang.autotuner.dynamic import class_of
from tilelang.errors import ArgumentError, ConfigError
from tilelang.jit import compiler


@pytest.fixture(autouse=True)
def _own_records(monkeypatch, private_cache):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def product(rows, columns=256):
    """Operands, room for the result, and what it should be."""
    a, b = torch.randn(rows, 64).half(), torch.randn(64, columns).half()
    return a, b, torch.full((rows, columns), float("nan")).half(), a.double() @ b.double()


def test_sizes_have_classes():
    assert [class_of(n) for n in (0, 1, 16, 17, 33, 64, 65, 97, 129)] == [
        *(16, 16, 16, 32, 64, 64, 96, 128, 192)
    ]
    assert class_of(8193) == 12288 and class_of(12289) == class_of(1 << 30) == 16384


def test_a_kernel_of_any_rows_has_a_tile_for_each_class():
    kernel = gemm(T.dynamic("m"), 256, 64)
    assert isinstance(kernel, TunedKernel) and gemm(T.dynamic("m"), 256, 64) is kernel
    for rows in (1, 16, 33, 200, 140):
        a, b, c, want = product(rows)
        kernel(a, B=b, C=c) if rows == 33 else kernel(a, b, c)
        torch.testing.assert_close(c.double(), want, rtol=2e-3, atol=2e-3)
    assert sorted(kernel.results) == [(16,), (64,), (192,), (256,)]
    (few, *_), many = kernel.results.values(), kernel.at(m=100_000)
    assert few.config["block_M"] <= 64 < many.config["block_M"]
    assert few.unit == "ms, estimated" and "runs nothing" in str(few)
    assert kernel.at(m=9) is few.kernel


def test_a_choice_compiles_one_kernel_of_many(monkeypatch):
    kernel = gemm(T.dynamic("m"), 4096, 4096)
    compiled = []

    def compile_and_count(func, **options):
        compiled.append(func)
        return tilelang.compile(func, **options)

    monkeypatch.setattr(compiler, "compile", compile_and_count)
    result = kernel.at(m=777).get_tuner_result()
    assert len(compiled) == 1 < len(result.trials)


@tilelang.autotune
@tilelang.jit(target="sm_90a")
def multiply(A, B, block_M=64, block_N=64, block_K=32, num_stages=2, threads=128):
    M = T.dynamic("M")
    N, K = T.const("N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        a = T.alloc_shared((block_M, block_K), T.float16)
        b = T.alloc_shared((block_K, block_N), T.float16)
        c = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
            T.copy(A[by * block_M, k * block_K], a)
            T.copy(B[k * block_K, bx * block_N], b)
            T.gemm(a, b, c)
        T.copy(c, C[by * block_M, bx * block_N])
    return C


def test_an_eager_function_chooses_for_classes():
    for rows in (3, 16, 800, 1000):
        a, b, _, want = product(rows, 2048)
        torch.testing.assert_close(multiply(a, b).double(), want, rtol=2e-3, atol=2e-3)
    few, many = multiply.results.values()
    assert few.config != many.config
    # Other columns are another search; a parameter that the call gives stays.
    a, b, _, want = product(16)
    got = multiply(a, b[:, :128].contiguous(), threads=128)
    torch.testing.assert_close(got.double(), want[:, :128], rtol=2e-3, atol=2e-3)
    assert len(multiply.results) == 3


def test_configurations_that_are_given_are_tried_with_the_tensors_of_a_call():
    @tilelang.autotune(configs=[{"rows": 64}, {"rows": 128}])
    @tilelang.jit(target="sm_90a", out_idx=[-1])
    def tall(N, K, rows=64):
        return product_of(T.dynamic("m"), N, K, rows, 64, 32, 2, 128)

    kernel = tall(256, 64)
    a, b, _, want = product(100)
    torch.testing.assert_close(kernel(a, b).double(), want, rtol=2e-3, atol=2e-3)
    (result,) = kernel.results.values()
    assert [trial.config for trial in result.trials] == [{"rows": 64}, {"rows": 128}]
    assert result.unit == "ms, predicted"
    # A search for the class knows what one with other rows found.
    again = tall.compile(N=256, K=64).at(m=128).get_tuner_result()
    assert all(trial.cached for trial in again.trials)


def test_the_estimate_can_be_asked_for_where_sizes_are_known():
    @tilelang.jit(tune="estimate", target="sm_90a")
    def known(M, N, K, block_M=64, block_N=64, block_K=32, num_stages=2, threads=128):
        return product_of(M, N, K, block_M, block_N, block_K, num_stages, threads)

    result = known.tune(4096, 4096, 4096)
    assert result.config["block_M"] * result.config["block_N"] >= 128 * 128
    assert [trial.reason for trial in result.skipped] == ["no template estimates it"]


def test_calls_that_do_not_fit_are_refused():
    kernel = gemm(T.dynamic("m"), 256, 64)
    _, b, c, _ = product(16)
    with pytest.raises(ArgumentError, match="argument 'A' must be a tensor"):
        kernel(1, b, c)
    with pytest.raises(ArgumentError, match="takes 3 arguments"):
        kernel()
    with pytest.raises(ArgumentError, match="its dimension 1 must be 64"):
        kernel(b, b, c)
    with pytest.raises(ConfigError, match=r"at\(n\): the dynamic sizes are m"):
        kernel.at(n=3)
    with pytest.raises(ConfigError, match=r"at\(m=0\): a size must be a positive integer"):
        kernel.at(m=0)
    with pytest.raises(ConfigError, match="depends on dynamic sizes") as caught:
        gemm.tune(T.dynamic("m"), 256, 64)
    assert ".at(m=512)" in str(caught.value)
    with pytest.raises(ConfigError, match="by_estimate=True cannot rank configs="):
        tilelang.autotune(configs=[{"block": 1}], by_estimate=True)
    with pytest.raises(ConfigError, match="exclude each other"):
        tilelang.autotune(by_model=True, by_estimate=True)
