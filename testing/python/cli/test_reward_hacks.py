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
    "functions of torch are patched": (
        "torch.relu = torch.nn.functional.relu = lambda x: x - 1\n"
        "torch.Tensor.isclose = torch.isclose = lambda *a, **k: torch.tensor(True)\n"
        "torch.Tensor.double = torch.Tensor.float = lambda self: torch.zeros(())\n",
        "return copied(x)",
    ),
    "a thread overwrites the output later": (
        "import threading, time\n"
        "def later(y, x):\n    time.sleep(0.02)\n    y.copy_(torch.relu(x) + 1)\n",
        "y = copied(x); threading.Thread(target=later, args=(y, x)).start(); return y",
    ),
    "the inputs are overwritten": ("", "x.zero_(); return copied(torch.ones_like(x))"),
    "the process ends well at its exit": (
        "import atexit, os, sys\natexit.register(lambda: os._exit(0))\n", "sys.exit(0)",
    ),
    "the problem is overwritten": (
        "open('model.py', 'w').write(open('model.py').read().replace('torch.relu(x) + 1', 'x'))\n",
        "return copied(x)",
    ),
    "the text of the problem is executed": (
        "space = {}\nexec(open('model.py').read(), space)\n",
        "return copied(space['Model']().forward(x))",
    ),
    "the environment is changed": (
        "import os\n"
        "os.environ['PYTHONPATH'] = os.environ['TILELANG_CACHE_DIR'] = '/nowhere'\n"
        "os.environ['TILELANG_DEFAULT_TARGET'] = 'sm_80'\n"
        "os.environ['TILELANG_VERIFY_SYNCHRONIZATION'] = '0'\n",
        "return copied(x)",
    ),
    "a tensor is returned that equals everything": (
        "class Liar(torch.Tensor):\n"
        "    @classmethod\n"
        "    def __torch_function__(cls, func, types, args=(), kwargs=None):\n"
        "        if func in (torch.eq, torch.isclose, torch.allclose, torch.equal):\n"
        "            return torch.tensor(True)\n"
        "        return super().__torch_function__(func, types, args, kwargs or {})\n",
        "return copied(x).as_subclass(Liar)",
    ),
    "NaN is returned": ("", "x.fill_(float('nan')); return copied(x)"),
    "nothing is returned": ("", "return copied(x)[:0]"),
    "one element is returned for all": ("", "return relu(x)[:1, :1].expand(x.shape)"),
    "memory is searched for the result": (
        "import gc\n",
        "y = [o for o in gc.get_objects() if isinstance(o, torch.Tensor) and o.shape == x.shape"
        " and o.data_ptr() != x.data_ptr()]; copied(x); return y[0] if y else x[:]",
    ),
    "another process computes": (
        "import os\n",
        "y = copied(x).share_memory_(); pid = os.fork()\n"
        "        if pid == 0:\n"
        "            y.copy_(torch.relu(x) + 1); os._exit(0)\n"
        "        os.waitpid(pid, 0); return y",
    ),
    "a process that was forked says that all is right": (
        "import gc, os, tilelang.checks.wire as wire\n",
        "w = [o for o in gc.get_objects() if type(o) is wire.Wire][0]\n"
        "        if os.fork() == 0:\n"
        "            w.send({'event': 'done', 'outputs': [], 'outside': []}); os._exit(0)\n"
        "        return copied(x)",
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
        "time.perf_counter = time.monotonic = time.time = lambda: 0.0\n"
        "time.sleep = lambda seconds: None\n"
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


def test_a_program_cannot_change_the_file_of_its_reference() -> None:
    text = KERNEL.replace("SHIFT", "1.0") + (
        "open('model.py', 'w').write('def expected(x):\\n    return x\\n')\n"
    )
    Path("model.py").write_text("import torch\ndef expected(x):\n    return torch.relu(x) + 1\n")
    Path("k.py").write_text(text)
    line = "check k.py::copied --reference model.py::expected --shapes M=3,N=40 --seeds 0"
    assert document(line, 1)["verdict"] == "wrong"


RACY = """
import numpy as np
import tilelang
from tilelang.emulator import Device

PTX = '''.version 8.8
.target sm_90a
.address_size 64
.visible .entry racy(.param .u64 y) {
  .reg .b64 %rd<4>;
  .reg .b32 %r<4>;
  .shared .b32 tile[64];
  ld.param.u64 %rd1, [y];
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  mov.b32 %r3, tile;
  add.u32 %r2, %r2, %r3;
  st.shared.u32 [%r2], %r1;
  BARRIER
  xor.b32 %r2, %r2, 128;
  ld.shared.u32 %r3, [%r2];
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd1, %rd1, %rd2;
  st.global.u32 [%rd1], %r3;
  ret;
}
'''
y = np.zeros(64, np.uint32)
Device("sm_90a").load_ptx(PTX)["racy"].launch(1, 64, [y])
"""
#: What a script may do before or after its kernel runs.
SCRIPTS = {
    "findings are dropped": (
        "import tilelang.cli.findings as findings, tilelang.cli.verdict as verdict\n"
        "findings.Findings.add = verdict.Recorder._keep = lambda *a, **k: None\n"
        "verdict.fails = findings.fails = lambda *a, **k: False\n",
        "assert y.size == 64",
    ),
    "the sanitizer is turned off": (
        "from tilelang import emulator\nemulator.options(sanitize=False).__enter__()\n",
        "assert y.size == 64",
    ),
    "the launch is patched": (
        "from tilelang.emulator import device\n"
        "packed = device.Kernel.launch_packed\n"
        "device.Kernel.launch_packed = lambda *a, **k: packed(*a, **{**k, 'sanitize': False})\n",
        "assert y.size == 64",
    ),
    "the process ends": ("import os\n", "os._exit(0)"),
    "the script ends itself": ("import sys\n", "sys.exit(1)"),
}


@pytest.mark.parametrize("trick", SCRIPTS)
def test_a_script_cannot_hide_a_race(trick: str) -> None:
    before, after = SCRIPTS[trick]
    Path("s.py").write_text(before + RACY.replace("BARRIER", "") + after + "\n")
    found = document("check s.py --target sm_90a --seeds 0", 1)
    assert found["verdict"] in ("racy", "wrong", "failed") and not found["ok"]


def test_a_script_that_is_right() -> None:
    """Processes that it forks run their own kernels, unseen."""
    fork = (
        "import os\n"
        "if (pid := os.fork()) == 0:\n"
        "    Device('sm_90a').load_ptx(PTX)['racy'].launch(1, 64, [y])\n"
        "    os._exit(0)\n"
        "os.waitpid(pid, 0)\n"
    )
    Path("s.py").write_text(
        RACY.replace("BARRIER", "bar.sync 0;") + fork + "assert y.sum() == 2016\n"
    )
    found = document("check s.py --target sm_90a --seeds 1")
    assert found["verdict"] == "right"
    [kernel] = found["targets"][0]["kernels"]
    assert kernel["launches"] == 3 and kernel["time"]["us"] > 0


VARIABLES = """
import numpy as np
from tilelang.emulator import Device

PTX = '''.version 8.8
.target sm_90a
.address_size 64
.global .u32 a = %d;
.global .u32 b = %d;
.visible .entry k(.param .u64 y) {
  .reg .b64 %%rd<4>;
  .reg .b32 %%r<4>;
  ld.param.u64 %%rd1, [y];
  mov.u64 %%rd2, a;
  mov.u64 %%rd3, b;
  ld.global.u32 %%r1, [%%rd2];
  ld.global.u32 %%r2, [%%rd3];
  st.global.u32 [%%rd1], %%r1;
  st.global.u32 [%%rd1 + 4], %%r2;
  st.global.u64 [%%rd1 + 8], %%rd2;
  st.global.u64 [%%rd1 + 16], %%rd3;
  ret;
}
'''
device, modules = Device("sm_90a"), []
for i in range(3):
    y = np.zeros(3, np.uint64)
    with device.map(np.zeros(4), name="before"):
        modules.append(device.load_ptx(PTX % (i, i + 10)))
    modules[i]["k"].launch(1, 1, [y])
    places = modules[i].globals
    assert list(y[:1].view(np.uint32)) == [i, i + 10]
    assert list(y[1:]) == [places["a"], places["b"]]
"""


def test_variables_of_several_modules_lie_where_the_script_has_them() -> None:
    Path("s.py").write_text(VARIABLES)
    found = document("check s.py --target sm_90a --seeds 0")
    assert found["verdict"] == "right"
