"""``bench``, ``autotune`` and ``emulate``."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.documents import command, document

PROGRAM = """
import tilelang
import tilelang.language as T


@tilelang.jit
def scale(X, threads: int = 32):
    N = T.const("N")
    X: T.Tensor[[N], T.float32]
    Y = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, threads), threads=threads) as block:
        for i in T.Parallel(threads):
            Y[block * threads + i] = X[block * threads + i] * 2.0
    return Y


tuned = tilelang.autotune(scale, configs=[{"threads": 32}, {"threads": 128}])
"""
SHIFT = """
extern "C" __global__ void shift(const float* x, float* y) {
  __shared__ float tile[64];
  tile[threadIdx.x] = x[threadIdx.x];
  %s
  y[threadIdx.x] = tile[(threadIdx.x + 33) %% 64];
}
"""
LAUNCH = "--arch sm_90a --block 64 --arg f32[64]:arange --arg f32[64]"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch, private_cache) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "sm_90a")
    Path("k.py").write_text(PROGRAM)
    Path("good.cu").write_text(SHIFT % "__syncthreads();")
    Path("bad.cu").write_text(SHIFT % "")


def test_bench_without_a_gpu_predicts() -> None:
    found = document("bench k.py::scale --shapes N=100000 --target sm_100a")
    (row,) = found["kernels"]
    (profile,) = document("profile k.py::scale --shapes N=100000 --target sm_100a")["kernels"]
    assert row["how"] == "predicted" and row["us"] == pytest.approx(profile["grid_us"])
    assert "us predicted" in command("bench k.py::scale --shapes N=1000").output


@pytest.mark.requires_cuda
def test_bench_on_a_gpu_measures() -> None:
    found = document("bench k.py::scale --shapes N=100000 --rep 20")
    assert found["kernels"][0]["how"] == "measured" and found["kernels"][0]["us"] > 0


def test_autotune_tries_every_combination() -> None:
    found = document("autotune k.py::scale --shapes N=65536 --try threads=32,128,256")
    times = {each["config"]["threads"]: each["us"] for each in found["trials"]}
    assert set(times) == {32, 128, 256}
    assert found["us"] == min(times.values()) == times[found["config"]["threads"]]
    assert (
        "best of 2" in command("autotune k.py::scale --shapes N=65536 --try threads=32,128").output
    )


def test_autotune_takes_the_configurations_of_the_program() -> None:
    found = document("autotune k.py::tuned --shapes N=65536")
    assert {each["config"]["threads"] for each in found["trials"]} == {32, 128}
    found = document("autotune k.py::tuned --shapes N=65536 --try threads=64,96")
    assert {each["config"]["threads"] for each in found["trials"]} == {64, 96}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("k.py::scale --shapes N=64", "--try"),
        ("k.py::T --try threads=1", "@tilelang.jit"),
        ("k.py::scale --shapes N=64 --try warps=1,2", "warps"),
    ],
)
def test_what_cannot_be_tuned(line: str, says: str) -> None:
    assert says in document(f"autotune {line}", 2)["error"]


def test_emulate_runs_cuda() -> None:
    found = document(f"emulate good.cu {LAUNCH}")
    first, second = found["arguments"]
    assert (first["max"], second["mean"], second["shape"]) == (63.0, 31.5, [64])
    assert found["instructions"] > 0 and not found["findings"]
    assert "float32[64]" in command(f"emulate good.cu {LAUNCH}").output


def test_emulate_stops_at_a_race_reports_it_or_is_told_not_to() -> None:
    found = document(f"emulate bad.cu {LAUNCH}", 1)
    assert found["findings"][0]["kind"] == "race" and found["message"]
    found = document(f"emulate bad.cu {LAUNCH} --sanitize report", 1)
    assert found["findings"][0]["count"] >= 1 and found["arguments"][1]["finite"] == 64
    assert command(f"emulate bad.cu {LAUNCH} --sanitize report").exit_code == 1
    assert document(f"emulate bad.cu {LAUNCH} --sanitize off")["ok"]
    assert document(f"emulate bad.cu {LAUNCH} --suppress race:shift")["ok"]
    assert command(f"emulate bad.cu {LAUNCH} --suppress race").exit_code == 2
    assert "no kind" in document(f"emulate bad.cu {LAUNCH} --suppress rage:shift", 2)["error"]


def test_emulate_refuses_what_is_no_cuda() -> None:
    Path("no.cu").write_text("__global__ void f(")
    assert "does not compile" in document(f"emulate no.cu {LAUNCH}", 2)["error"]
    assert "timing" in document(f"emulate good.cu {LAUNCH} --timing", 2)["error"]
