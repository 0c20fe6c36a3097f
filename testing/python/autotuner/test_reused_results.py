"""do_not_specialize: parameters by whose values a search does not go."""

from __future__ import annotations

import pytest
import torch
from autotuner.tuned_kernels import copies, scaled

import tilelang
import tilelang.language as T
from tilelang.autotuner import autotune
from tilelang.errors import ConfigError

REPEATS = [{"repeat": 4}, {"repeat": 1}]


@pytest.fixture(autouse=True)
def _without_gpu(monkeypatch, private_cache):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def test_other_values_take_the_configuration_but_a_kernel_of_their_own() -> None:
    tuned = autotune(configs=REPEATS, do_not_specialize=["N"])(copies)
    for n in (200, 96, 96):
        a = torch.randn(n)
        assert torch.equal(tuned(n)(a), a)
    assert torch.equal(tuned.compile(N=64)(a := torch.randn(64)), a)
    assert [result.config for result in tuned.results.values()] == [{"repeat": 1}]


def test_a_search_without_a_call_serves_other_values() -> None:
    tuned = autotune(configs=REPEATS, do_not_specialize=["N"])(copies)
    tuned.tune(200)
    a = torch.randn(96)
    assert torch.equal(tuned(96)(a), a)


def test_values_of_tuned_parameters_stand_in() -> None:
    tuned = autotune(configs=REPEATS, do_not_specialize=("repeat",))(copies)
    assert tuned(200, 64, 4).config == tuned(200, repeat=2, block=64).config == {"repeat": 1}
    assert len(tuned.results) == 1


def test_of_eager_functions() -> None:
    configs = [{"block": 32, "repeat": 3}, {"block": 64, "repeat": 1}]
    tuned = autotune(configs=configs, do_not_specialize=["block"])(scaled)
    a = torch.randn(300)
    torch.testing.assert_close(tuned(a, 2.0, 32), a * 2)
    torch.testing.assert_close(tuned(a, factor=3.0, block=32), a * 3)
    assert {result.config["block"] for result in tuned.results.values()} == {64}


def test_dynamic_sizes_are_those_of_the_call() -> None:
    @tilelang.jit(out_idx=-1)
    def added(amount, threads=32):
        n = T.dynamic("n")

        @T.prim_func
        def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
            with T.Kernel(T.ceildiv(n, threads), threads=threads) as bx:
                for i in T.Parallel(threads):
                    if bx * threads + i < n:
                        B[bx * threads + i] = A[bx * threads + i] + amount

        return main

    configs = [{"threads": 32}, {"threads": 64}]
    tuned = autotune(configs=configs, do_not_specialize=["amount"])(added)
    a = torch.randn(100)
    for amount in (1, 5):
        torch.testing.assert_close(tuned(amount)(a), a + amount)


def test_signatures() -> None:
    assert next(iter(copies.signature.parameters)) == "N"
    assert "factor" in scaled.signature.parameters


def test_wrong_names() -> None:
    with pytest.raises(ConfigError, match="do_not_specialize"):
        autotune(configs=REPEATS, do_not_specialize="N")(copies)
    with pytest.raises(ConfigError, match="copies has no parameter 'M'"):
        autotune(configs=REPEATS, do_not_specialize=["M"])(copies)
