"""Known tricks of programs that are judged: none gets the verdict *right*."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.documents import document

MODEL = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) + 1


def get_inputs():
    return [torch.randn(6, 50)]
"""
KERNEL = """
import torch
import tilelang
import tilelang.language as T


@tilelang.jit
def relu(X):
    M, N = T.const("M, N")
    X: T.Tensor[[M, N], T.float32]
    Y = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, 32), M, threads=32) as (column, row):
        for i in T.Parallel(32):
            Y[row, column * 32 + i] = T.max(X[row, column * 32 + i], 0) + SHIFT
    return Y


@tilelang.jit
def copied(X):
    M, N = T.const("M, N")
    X: T.Tensor[[M, N], T.float32]
    Y = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, 32), M, threads=32) as (column, row):
        for i in T.Parallel(32):
            Y[row, column * 32 + i] = X[row, column * 32 + i]
    return Y
"""
NEW = """

class ModelNew(torch.nn.Module):
    def forward(self, x):
        BODY
"""
#: Bodies of ``forward``, with what comes before the class.
HACKS = {
    "the comparison is patched": (
        "import tilelang.profiler.judge as judge, tilelang.cli.verdict as verdict\n"
        "judge.judge = judge._fail_at = lambda *a, **k: None\n"
        "verdict._outcome = lambda *a, **k: ('right', '')\n"
        "verdict.examine = lambda *a, **k: {'ok': True}\n"
        "torch.allclose = torch.equal = lambda *a, **k: True\n",
        "return copied(x)",
    ),
    "the emulator is patched": (
        "import tilelang.emulator.device as device\n"
        "device.Kernel.launch_packed = lambda *a, **k: None\n",
        "return copied(x)",
    ),
    "the watcher of torch is patched, and a kernel copies the result of the reference": (
        "import contextlib\nimport tilelang.cli.outside as outside\n"
        "outside.Outside.watching = lambda self: contextlib.nullcontext()\n"
        "import tilelang.checks.reporter as reporter\n"
        "reporter.ReportedOperations.__torch_dispatch__ = (\n"
        "    lambda self, func, types, args=(), kwargs=None: func(*args, **(kwargs or {})))\n"
        "from model import Model\n",
        "return copied(Model()(x))",
    ),
    "the reference is called inside": ("from model import Model\n", "return copied(Model()(x))"),
    "NumPy computes": (
        "import numpy as np\n",
        "return copied(torch.from_numpy(np.maximum(np.asarray(x.numpy()), 0) + 1))",
    ),
    "an empty kernel runs beside torch": (
        "", "copied(x[:1, :1].contiguous()); return torch.relu(x) + 1",
    ),
    "the output is what the memory held before": (
        "from model import Model\n"
        "class Y:\n    last = None\n",
        "Y.last = Model()(x) if Y.last is None else Y.last; copied(x); return Y.last",
    ),
    "outputs are kept by the address of the input": (
        "kept = {}\n",
        "return kept.setdefault(x.data_ptr(), relu(x) if not kept else None) * 1",
    ),
    "only the usual shape is right": (
        "", "return relu(x) if tuple(x.shape) == (4, 4) else copied(x)",
    ),
    "the process ends": ("import os\n", "os._exit(0)"),
    "the process says that all is right": (
        "import gc, json, struct\nimport tilelang.checks.wire as wire\n",
        "w = [o for o in gc.get_objects() if type(o) is wire.Wire][0]; "
        "w.send({'event': 'done', 'outputs': [], 'outside': [], 'verdict': 'right'}); "
        "return copied(x)",
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "sm_90a")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    Path("model.py").write_text(MODEL)


def _graded(before: str, body: str, status: int, shift: str = "1.0") -> dict:
    text = "import sys\nsys.path.insert(0, '.')\n" + KERNEL.replace("SHIFT", shift) + before
    Path("new.py").write_text(text + NEW.replace("BODY", body))
    return document("grade model.py new.py --seeds 0", status)


@pytest.mark.parametrize("hack", HACKS)
def test_a_trick_gains_nothing(hack: str) -> None:
    found = _graded(*HACKS[hack], status=1)
    assert found["verdict"] in ("wrong", "failed") and not found["ok"]


def test_the_right_solution_is_right_and_its_time_is_not_its_own() -> None:
    honest = _graded("", "return relu(x)", 0)
    patched = _graded(
        "import time\nimport tilelang.emulator.clock as clock, tilelang.emulator.timed as timed\n"
        "time.perf_counter = time.monotonic = lambda: 0.0\n"
        "timed.timing_of = clock.run_timed = lambda *a, **k: None\n",
        "return relu(x)", 0,
    )  # fmt: skip
    times = [each["workloads"][0]["kernels"][0]["time"] for each in (honest, patched)]
    assert times[0] == times[1] and times[0]["us"] > 0


def test_check_judges_outside_too() -> None:
    text = KERNEL.replace("SHIFT", "1.0") + (
        "import tilelang.profiler.judge as judge, tilelang.cli.trials as trials\n"
        "judge.judge = lambda *a, **k: None\n"
        "trials.KINDS.clear()\n"
        "def reference(x):\n    return torch.relu(x) + 1\n"
        "def special(N, dtype='float32'):\n"
        "    @T.prim_func\n"
        "    def main(X: T.Tensor((N,), dtype), Y: T.Tensor((N,), dtype)):\n"
        "        with T.Kernel(1, threads=32):\n"
        "            for i in T.Parallel(N):\n"
        "                Y[i] = T.max(X[i], 0) + (1 if N == 64 else 2)\n"
        "    return main\n"
    )
    Path("k.py").write_text(text)
    assert document("check k.py::relu --shapes M=3,N=40 --seeds 0")["verdict"] == "right"
    found = document("check k.py::copied --shapes M=3,N=40 --seeds 0", 1)
    assert "elements differ" in found["targets"][0]["runs"][0]["message"]
    failed = document("check k.py::special --shapes N=64,M=3 --seeds 0", 1)
    assert "unexpected keyword" in failed["targets"][0]["runs"][0]["message"]
    line = "check k.py::special --seeds 0 --inputs none"
    assert document(f"{line} --shapes N=64")["verdict"] == "right"
    assert document(f"{line} --shapes N=64 --shapes N=63", 1)["verdict"] == "wrong"
