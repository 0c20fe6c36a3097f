"""Choosing configurations: by the emulator's counts here, by time where there is a GPU."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import re
import threading
import time

import pytest
import torch
from autotuner.tuned_kernels import copies, copy_of, scaled

import tilelang
import tilelang.language as T
from tilelang.autotuner import AutoTuner, autotune, set_autotune_inputs
from tilelang.autotuner.settings import ProfileArgs
from tilelang.errors import ConfigError

REPEATS = [{"repeat": 4}, {"repeat": 1}, {"repeat": 2}]


@pytest.fixture(autouse=True)
def _own_records(monkeypatch, request, private_cache):
    """Outcomes of other runs are unknown; without the mark, a GPU that is there is not used."""
    if request.node.get_closest_marker("requires_cuda") is None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def test_the_best_is_chosen():
    tuned = autotune(configs=REPEATS)(copies)
    kernel = tuned(200)
    result = kernel.get_tuner_result()
    assert result.config == {"repeat": 1} == kernel.config
    assert [trial.config for trial in result.trials] == REPEATS
    by_repeat = {trial.config["repeat"]: trial.latency for trial in result.trials}
    assert by_repeat[1] < by_repeat[2] < by_repeat[4] and kernel.latency == by_repeat[1]
    a = torch.randn(200)
    assert torch.equal(kernel(a), a)
    assert tuned(200) is kernel
    assert tuned(96) is not kernel
    lines = str(result).splitlines()
    assert re.fullmatch(r"best of 3 candidates: \d+\.\d\d us, predicted", lines[0])
    assert eval(f"dict({lines[1]})") == {"repeat": 1}  # ready to paste


def test_without_a_gpu_it_says_how_it_ranked():
    result = autotune(copies, configs=REPEATS).tune(64)
    assert result.unit == "ms, predicted" and "predicts" in result.remark
    assert result.ref_latency is None and 0 < result.latency < 1


def test_eager_functions_run_with_the_best():
    tuned = autotune(configs=[{"block": 32, "repeat": 3}, {"block": 64, "repeat": 1}])(scaled)
    a = torch.randn(300)
    for factor in (2.0, 3.0):
        torch.testing.assert_close(tuned(a, factor), a * factor)
        torch.testing.assert_close(tuned(a, factor=factor), a * factor)
    assert [result.config["block"] for result in tuned.results.values()] == [64] * 4
    torch.testing.assert_close(tuned(a, 5.0, 32), a * 5)  # a tuned parameter by position
    torch.testing.assert_close(tuned(a, 5.0, 32), a * 5)
    assert list(tuned.results.values())[-1].config == {"block": 32, "repeat": 1}
    kernel = tuned.compile(a)
    assert kernel.config == {"block": 64, "repeat": 1}
    assert tuned.compile(A=T.Tensor((300,), T.float32)).config == kernel.config
    without = tuned.compile(N=300, factor=4.0)
    torch.testing.assert_close(without(a), a * 4)


def test_a_tensor_that_is_updated_is_left_alone_by_the_search():
    @tilelang.jit
    def increment(A, block=32):
        N = T.const("N")
        A: T.Tensor((N,), T.float32)
        with T.Kernel(T.ceildiv(N, block), threads=32) as bx:
            for i in T.Parallel(block):
                A[bx * block + i] += 1

    a = torch.zeros(100)
    autotune(configs=[{"block": 32}, {"block": 64}])(increment)(a)
    assert torch.equal(a, torch.ones(100))


def test_arguments_that_only_some_candidates_take():
    @tilelang.jit
    def shifted(A, Shift=None, n: T.int32 = 3, use_shift=False, block=32):
        N = T.const("N")
        A: T.Tensor((N,), T.float32)
        if use_shift:
            Shift: T.Tensor((N,), T.float32)
        B = T.empty((N,), T.float32)
        with T.Kernel(T.ceildiv(N, block), threads=32) as bx:
            for i in T.Parallel(block):
                k = bx * block + i
                B[k] = A[k] * n + (Shift[k] if use_shift else 0.0)
        return B

    a, shift = torch.randn(64), torch.zeros(64)
    tuned = autotune(configs=[{"use_shift": flag} for flag in (True, False)])(shifted)
    torch.testing.assert_close(tuned(a, shift), a * 3)
    assert tuned.tune(a, shift).skipped == []
    torch.testing.assert_close(tuned(a, shift, 5), a * 5)


def test_values_of_the_caller_stay():
    tuned = autotune(configs=[{"block": 32, "repeat": 1}, {"block": 64, "repeat": 2}])(copies)
    result = tuned.tune(128, repeat=3)
    assert [trial.config["repeat"] for trial in result.trials] == [3, 3]
    kernel = tuned(128, 64, 3)  # nothing to choose
    assert kernel.tuner_result is None
    with pytest.raises(ConfigError, match="give every parameter"):
        tuned.tune(128, 64, 3)


def test_configurations_from_a_function():
    seen = []

    def configs(N, repeat):
        seen.append((N, repeat))
        return [{"block": block} for block in (32, 64, 4096) if block <= N]

    assert len(autotune(configs=configs)(copies).tune(200).trials) == 2
    assert seen == [(200, 1)]
    result = autotune(configs=lambda N: [{"block": N}, {"block": 32}])(scaled).tune(torch.zeros(64))
    assert [trial.config["block"] for trial in result.trials] == [64, 32]
    assert len(autotune(configs=lambda: REPEATS)(copies).tune(32).trials) == 3
    with pytest.raises(
        ConfigError, match="is a function of 'M', but the call has no such argument"
    ):
        autotune(configs=lambda M: [])(copies).tune(200)


def test_failing_candidates_are_skipped_with_their_reason():
    result = autotune(configs=[{"block": 0}, {"block": 33}, {"repeat": -1.5}])(copies).tune(66)
    assert result.config == {"block": 33}
    reasons = [trial.reason for trial in result.skipped]
    assert "division by zero" in reasons[0] or "zero" in reasons[0].lower()
    assert len(reasons) == 2 and all(reasons)
    with pytest.raises(ConfigError) as caught:
        autotune(configs=[{"block": 0}, {"block": -1}])(copies).tune(64)
    assert "none of 2 configurations" in caught.value.message
    assert "block=0: " in str(caught.value) and "block=-1: " in str(caught.value)


def test_wrong_results_are_skipped():
    def configs():
        return [{"factor": 3.0}, {"factor": 2.0}]

    result = autotune(configs=configs, ref_prog=lambda a: a * 2)(scaled).tune(torch.ones(64))
    assert result.config == {"factor": 2.0}
    assert "wrong result: output 0: 64 of 64 elements differ" in result.trials[0].reason
    unchecked = autotune(configs=configs, ref_prog=lambda a: a * 2, skip_check=True)(scaled)
    assert unchecked.tune(torch.randn(64)).skipped == []

    def refuse(actual, expected):
        assert float(actual[0].sum()) == float(expected[0].sum()), "another sum"

    manual = autotune(configs=configs, ref_prog=lambda a: a * 2, manual_check_prog=refuse)(scaled)
    assert [t.reason for t in manual.tune(torch.ones(64)).skipped] == ["wrong result: another sum"]


def test_a_kernel_that_writes_to_its_arguments_is_compared():
    def twice(A, B):
        B.copy_(A)

    tuner = AutoTuner.from_kernel(lambda block: copy_of(64, block), [{"block": 32}])
    assert tuner.set_profile_args(ref_prog=twice).run().skipped == []
    with pytest.raises(ConfigError, match="none of 1"):
        tuner.set_profile_args(ref_prog=lambda A, B: B.copy_(A * 2)).run()


def test_auto_tuner():
    def kernel(block, repeat):
        return copy_of(128, block, repeat)

    result = (
        AutoTuner.from_kernel(kernel=kernel, configs=[{"block": 32, "repeat": n} for n in (2, 1)])
        .set_compile_args(out_idx=[-1], target="sm_90a", verbose=False)
        .set_profile_args(
            supply_type=tilelang.TensorSupplyType.Integer, ref_prog=lambda a: a, skip_check=False
        )
        .run(warmup=3, rep=20)
    )
    assert result.config == {"block": 32, "repeat": 1} and str(result.kernel.target) == "sm_90a"
    assert "__global__" in result.libcode and result.func is not None
    a = torch.randn(128)
    assert torch.equal(result.kernel(a), a)
    jitted = AutoTuner.from_kernel(copies, [{"N": 64, "repeat": 2}, {"N": 64}]).run()
    assert jitted.config == {"N": 64}


def test_inputs_that_the_user_gives():
    given = []

    def reference(a):
        given.append(a)
        return a

    a = torch.arange(64.0)
    with set_autotune_inputs(a):
        autotune(configs=REPEATS, ref_prog=reference)(copies).tune(64)
    with set_autotune_inputs([a]):
        autotune(configs=REPEATS, ref_prog=reference)(copies).tune(64)
    assert all(each is a for each in given) and given

    def supply(params):
        assert [(str(p.name), p.shape) for p in params] == [("A", (64,))]
        return [a + 1]

    given.clear()
    tuned = autotune(configs=[{"repeat": 7}], ref_prog=reference, supply_prog=supply)(copies)
    tuned.tune(64)
    assert torch.equal(given[0], a + 1)


def test_searches_know_earlier_ones(monkeypatch):
    first = autotune(configs=REPEATS[:2])(copies).tune(64)
    assert not any(trial.cached for trial in first.trials)
    again = autotune(configs=REPEATS)(copies).tune(64)
    assert [trial.cached for trial in again.trials] == [True, True, False]
    assert again.latency == first.latency and again.config == first.config
    a = torch.randn(64)
    assert torch.equal(again.kernel(a), a)
    assert not any(trial.cached for trial in autotune(configs=REPEATS)(copies).tune(65).trials)
    failing = [{"block": -1}, {"block": 32}]
    for cached in (False, True):
        result = autotune(configs=failing)(copies).tune(64)
        assert result.trials[1].cached == cached and result.trials[0].reason
    monkeypatch.setenv("TILELANG_AUTO_TUNING_DISABLE_CACHE", "1")
    assert not any(trial.cached for trial in autotune(configs=REPEATS)(copies).tune(64).trials)


def test_an_interrupted_search_goes_on_where_it_was():
    class Interrupted(BaseException):
        pass

    calls = []

    def stop_at_the_third(actual, expected):
        calls.append(actual)
        if len(calls) == 3:
            raise Interrupted

    configs = [{"repeat": n} for n in (5, 3, 2, 1)]
    tuned = autotune(configs=configs, ref_prog=lambda a: a, manual_check_prog=stop_at_the_third)(
        copies
    )
    with pytest.raises(Interrupted):
        tuned.tune(64)
    result = tuned.tune(64)
    assert [trial.cached for trial in result.trials] == [True, True, False, False]
    assert result.config == {"repeat": 1}


def test_damaged_records_are_unknown(private_cache):
    autotune(configs=REPEATS)(copies).tune(64)
    files = list((private_cache / "autotune").rglob("*.json"))
    assert len(files) == 3
    for file, text in zip(files, ("", "[1]", '{"latency": "x", "reason": ""}'), strict=True):
        file.write_text(text)
    assert not any(trial.cached for trial in autotune(configs=REPEATS)(copies).tune(64).trials)


def test_a_budget_ends_the_search():
    def slow(actual, expected):
        time.sleep(0.3)

    configs = [{"repeat": n} for n in range(1, 9)]
    tuned = autotune(configs=configs, ref_prog=lambda a: a, manual_check_prog=slow, budget=0.5)
    result = tuned(copies).tune(64)
    reasons = {trial.reason for trial in result.skipped}
    assert reasons == {"the budget of 0.5 s was spent"} and len(result.skipped) < 8


def test_a_candidate_that_takes_too_long_is_skipped():
    def hang(actual, expected):
        if threading.current_thread() is not threading.main_thread() and not done:
            done.append(1)
            for _ in range(80):
                time.sleep(0.1)

    done: list[int] = []
    autotune(configs=REPEATS)(copies).tune(64)  # so that compiling takes no time
    tuned = autotune(configs=REPEATS, ref_prog=lambda a: a, manual_check_prog=hang, timeout=4)
    result = tuned(copies).tune(64)
    assert [trial.reason for trial in result.skipped] == ["running it took longer than 4 s"]
    again = tuned(copies).tune(64)  # it may do better
    assert [trial.cached for trial in again.trials] == [False, True, True]


def test_a_launch_that_takes_too_long_ends():
    def kernel(turns):
        @T.prim_func
        def main(A: T.Tensor((1,), T.float32)):
            with T.Kernel(1, threads=32):
                for _ in T.serial(turns):
                    T.sync_threads()
                A[0] = 1

        return main

    configs = [{"turns": 1 << 30}, {"turns": 1}]
    result = AutoTuner.from_kernel(kernel, configs).set_profile_args(timeout=3).run()
    assert [trial.config for trial in result.skipped] == configs[:1]
    end = time.monotonic() + 20
    while any(thread.name == "tilelang-autotune" for thread in threading.enumerate()):
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.slow
def test_other_processes_compile():
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as executor:
        result = autotune(configs=REPEATS, executor=executor)(copies).tune(64)
        assert result.config == {"repeat": 1}
        wrong = [{"block": 32}, {"block": 1 << 20}]
        result = autotune(configs=wrong, executor=executor)(copies).tune(64)
        assert result.config == {"block": 32} and "shared memory" in result.skipped[0].reason


def test_what_an_executor_cannot_carry_is_compiled_here():
    class Refusing(concurrent.futures.Executor):
        def submit(self, function, /, *args, **kwargs):
            future = concurrent.futures.Future()
            future.set_exception(TypeError("cannot pickle"))
            return future

    result = autotune(configs=REPEATS, executor=Refusing())(copies).tune(64)
    assert result.config == {"repeat": 1} and not result.skipped


@pytest.mark.slow
def test_a_cluster_of_dask_compiles():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=None
        ) as hosts,
        distributed.Client(hosts) as client,
    ):
        executor = client.get_executor()
        a = torch.randn(64)
        tuned = autotune(configs=REPEATS, executor=executor)(scaled)
        torch.testing.assert_close(tuned(a), a * 2)
        assert tuned.tune(a).config == {"repeat": 1}


def test_progress_is_shown(capsys):
    autotune(configs=REPEATS, progress=True)(copies).tune(64)
    shown = capsys.readouterr().err
    assert "3/3 0 s left" in shown and "1/3 " in shown
    line = shown.splitlines()[-1]
    assert re.fullmatch(r"best \d+\.\d\d us, predicted: repeat=1", line), line
    autotune(configs=REPEATS)(copies).tune(32)
    assert capsys.readouterr().err == ""  # no terminal


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"configs": [], "budgett": 3}, "no setting 'budgett'"),
        ({"configs": [], "rep": 0}, "rep= must be positive.*, got 0"),
        ({"configs": [], "budget": -1}, "budget= must be positive.*, got -1"),
        ({"budget": "x"}, "budget= must be positive: seconds, or None.*, got 'x'"),
        ({"budget": float("nan")}, "budget= must be positive.*, got nan"),
        ({"warmup": "x"}, "warmup= must be positive.*, got 'x'"),
        ({"topk": 0}, "topk= must be a whole number of at least 1, or None.*, got 0"),
        ({"workers": 0.5}, "workers= must be a whole number.*, got 0.5"),
        ({"by_model": "yes"}, "by_model= must be True or False.*, got 'yes'"),
        ({"progress": "x"}, "progress= must be True, False or None.*, got 'x'"),
        ({"executor": 3}, "executor= must be an executor of concurrent.futures.*, got 3"),
        ({"supply_type": "Auto"}, "supply_type= must be a TensorSupplyType: Int.*, got 'Auto'"),
        ({"ref_prog": 3}, "ref_prog= must be a function, or None.*, got 3"),
        ({"rtol": -1}, "rtol= must be a number of at least 0.*, got -1"),
        ({"max_mismatched_ratio": 2}, "max_mismatched_ratio= must be a number from 0.*, got 2"),
        ({"configs": 5}, r"configs=5 is not a list of configurations\n.*give a list of dicts"),
        ({"configs": {"block": 64}}, "configs={'block': 64} is not a list of configurations"),
        ({"configs": "ab"}, "configs='ab' is not a list of configurations"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(ConfigError, match=message):
        autotune(**settings)


@pytest.mark.parametrize(
    ("changes", "factor"),
    [
        ({"early_stop": True}, 1.5),
        ({"early_stop": True, "early_stop_factor": 2.0}, 2.0),
        ({"early_stop": False, "early_stop_factor": 2.0}, float("inf")),
        ({"early_stop_factor": 3}, 3),
        ({"early_stop": 4}, 4),
    ],
)
def test_an_early_stop_may_be_a_truth_value(changes, factor):
    assert ProfileArgs().but(**changes).early_stop == factor


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ([], r"configs= is empty.*\n.*give at least one configuration"),
        (lambda: 5, "configs=5 is not a list of configurations"),
        ([(64, 1)], r"a configuration must be a dict .*, got \(64, 1\)"),
        ([{"blocks": 64}], "sets 'blocks', but copies has no such parameter"),
    ],
)
def test_wrong_configurations(configs, message):
    with pytest.raises(ConfigError, match=message):
        autotune(configs=configs)(copies).tune(64)
    with pytest.raises(ConfigError, match=message):
        AutoTuner.from_kernel(copies, configs).run()


def test_only_above_jit():
    with pytest.raises(
        ConfigError, match=r"must be above @tilelang.jit, but here it is above 'copy_of'"
    ):
        autotune(configs=REPEATS)(copy_of)
    with pytest.raises(ConfigError, match=r"was not chosen by tilelang.autotune"):
        _ = copies(64).config


@pytest.mark.requires_cuda
def test_measured_on_a_gpu():
    configs = [{"block": 1024, "repeat": n} for n in (256, 1, 128)]
    tuned = autotune(configs=configs, ref_prog=lambda a: a * 2, warmup=1, rep=5)(scaled)
    a = torch.randn(1 << 20, device="cuda")
    torch.testing.assert_close(tuned(a), a * 2)
    (result,) = tuned.results.values()
    assert result.unit == "ms" and result.config["repeat"] == 1 and not result.remark
    assert 0 < result.latency < 1 and result.ref_latency > 0
    assert result.trials[2].rough  # 128 times the work: a few runs tell


def test_pass_options_of_configurations() -> None:
    """A configuration may set options of passes; they win over those of @tilelang.jit."""
    given = {"tl.disable_tma_lower": True}
    configs = [{"block": 64, "pass_configs": given}]

    @tilelang.autotune(configs=configs)
    @tilelang.jit(target="sm_90a", pass_configs={"tl.disable_tma_lower": False})
    def loaded(n, block=32):
        @T.prim_func
        def main(A: T.Tensor((n, 64), "float16"), B: T.Tensor((n, 64), "float16")):
            with T.Kernel(n // block, threads=128) as b:
                tile = T.alloc_shared((block, 64), "float16")
                T.copy(A[b * block, 0], tile)
                T.copy(tile, B[b * block, 0])

        return main

    assert "tma_load" not in loaded(128).get_kernel_source()


def test_pass_options_of_eager_configurations_are_refused() -> None:
    @tilelang.autotune(configs=[{"block": 32, "pass_configs": {}}])
    @tilelang.jit
    def doubled(A, block):
        M = T.const("M")
        A: T.Tensor((M,), T.float32)
        with T.Kernel(M // block, threads=block) as b:
            for i in T.Parallel(block):
                A[b * block + i] *= 2

    with pytest.raises(ConfigError, match="its body is the kernel"):
        doubled(torch.zeros(64))


def test_defaults_of_types() -> None:
    """Parameters that are not tuned keep their defaults while sizes are found."""

    @tilelang.autotune(configs=[{"block": 32}, {"block": 64}])
    @tilelang.jit
    def doubled(A, block, dtype=T.float16):
        M = T.const("M")
        A: T.Tensor((M,), dtype)
        B = T.empty((M,), dtype)
        with T.Kernel(M // block, threads=block) as b:
            for i in T.Parallel(block):
                B[b * block + i] = A[b * block + i] * 2
        return B

    a = torch.randn(128).half()
    assert torch.equal(doubled.compile(M=128, block=32)(a), a * 2)


def test_a_search_says_where_it_takes_scalars_from() -> None:
    @tilelang.autotune(configs=[{"threads": 32}, {"threads": 64}])
    @tilelang.jit
    def added(n: int = 64, threads: int = 32):
        @T.prim_func
        def main(A: T.Tensor((n,), "float32"), s: T.float32):
            with T.Kernel(1, threads=threads):
                for i in T.Parallel(n):
                    A[i] += s

        return main

    with pytest.raises(ConfigError, match=r"'s' is not known.*set_autotune_inputs\(\.\.\.\)"):
        added()
