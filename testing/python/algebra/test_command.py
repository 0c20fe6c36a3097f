"""``tilelang check --algebra``, and the assertion of tests."""

from pathlib import Path

import pytest
import torch
from cli.documents import document

from tilelang import testing

PROGRAM = """
import tilelang
import tilelang.language as T


def scale(N):
    @T.prim_func
    def main(x: T.Tensor((N,), "float16"), y: T.Tensor((N,), "float16")):
        with T.Kernel(T.ceildiv(N, 256), threads=64) as block:
            for i in T.Parallel(256):
                y[block * 256 + i] = x[block * 256 + i] * 3

    return main


def reference(x):
    return x + x + x


def other(x):
    return x * 2
"""


@pytest.mark.parametrize(("reference", "status"), [("reference", 0), ("other", 1)])
def test_check(reference: str, status: int, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("program.py").write_text(PROGRAM)
    line = f"check program.py::scale --shapes N=300 --seeds 0 --algebra --reference {reference}"
    found = document(line, status)["targets"][0]
    messages = {run["message"] for run in found["runs"]}
    assert messages == ({"element 0 differs, as do 299 others of 300"} if status else {""})


def test_processes(tmp_path: Path, monkeypatch) -> None:
    """The program runs in a process of its own, and the message names the terms all the same."""
    monkeypatch.chdir(tmp_path)
    Path("program.py").write_text(
        """
import os
import tilelang.language as T


def sums(N):
    @T.prim_func
    def main(x: T.Tensor((N, 64), "float32"), y: T.Tensor((N,), "float32")):
        with T.Kernel(N, threads=32) as row:
            tile = T.alloc_fragment((48,), "float32")
            total = T.alloc_fragment((1,), "float32")
            T.copy(x[row, 0:48], tile)
            T.reduce_sum(tile, total, dim=0)
            y[row] = total[0]

    open("processes", "a").write(f"kernel {os.getpid()}\\n")
    return main


def reference(x):
    open("processes", "a").write(f"reference {os.getpid()}\\n")
    return x.sum(1)
"""
    )
    found = document("check program.py::sums --shapes N=9 --seeds 0 --algebra", 1)["targets"][0]
    messages = {run["message"] for run in found["runs"]}
    lacks = "it lacks the terms of input 0 at 48..63 of axis 1"
    assert messages == {f"element 0 differs, as do 8 others of 9: {lacks}"}
    lines = set(Path("processes").read_text().split("\n")) - {""}
    assert {line.split()[0] for line in lines} == {"kernel", "reference"}
    assert len({line.split()[1] for line in lines}) == 2


def test_cuda(tmp_path: Path, monkeypatch) -> None:
    """A kernel in CUDA C++ whose array is drawn at random, too."""
    monkeypatch.chdir(tmp_path)
    Path("scale.cu").write_text(
        """
extern "C" __global__ void scale(const float* x, float* y) {
  y[threadIdx.x] = x[threadIdx.x ^ 1] * 3.0f;
}
"""
    )
    Path("ref.py").write_text(
        """
def right(x, y):
    return x.reshape(16, 2).flip(1).reshape(32) * 3


def wrong(x, y):
    return x * 3
"""
    )
    launch = (
        "check scale.cu --grid 1 --block 32 --arg f32[32]:ones --arg f32[32] --seeds 0 --algebra"
    )
    assert document(f"{launch} --reference ref.py::right --outputs 1", 0)["ok"]
    assert not document(f"{launch} --reference ref.py::wrong --outputs 1", 1)["ok"]


SCRIPT = """
import torch
from program import scale
import tilelang

x, y = torch.randn(300).half(), torch.zeros(300).half()
tilelang.compile(scale(300))(x, y)
torch.testing.assert_close(y, (x.float() * {factor}).half(), rtol=0.1, atol=0.1)
"""


@pytest.mark.parametrize(("factor", "status"), [("3", 0), ("3.001", 1)])
def test_script(factor: str, status: int, tmp_path: Path, monkeypatch) -> None:
    """Comparisons of a script are over the field."""
    monkeypatch.chdir(tmp_path)
    Path("program.py").write_text(PROGRAM)
    Path("script.py").write_text(SCRIPT.format(factor=factor))
    found = document("check script.py --seeds 0 --algebra", status)
    assert found["ok"] == (status == 0)


def test_a_script_is_not_in_the_process_of_the_judge(tmp_path: Path, monkeypatch) -> None:
    """It cannot patch the recorder, and a race of its kernel is found all the same."""
    monkeypatch.chdir(tmp_path)
    patch = """
import tilelang.cli.verdict as verdict, tilelang.algebra as algebra
verdict.Recorder._launched = lambda self, launch: launch.run(sanitize=False)
verdict._outcome = lambda *a, **k: ("right", "")
"""
    racy = PROGRAM.replace("y[block * 256 + i] = x", "y[i] = x")
    Path("program.py").write_text(racy)
    Path("script.py").write_text(patch + SCRIPT.format(factor="3").split("torch.testing")[0])
    found = document("check script.py --seeds 0 --algebra", 1)["targets"][0]
    assert found["verdict"] in ("wrong", "racy") and found["kernels"][0]["findings"]


def test_assertion() -> None:
    x = torch.randn(100)
    testing.assert_equal_algebra(lambda x: x * 2, lambda x: x + x, torch.zeros(4))
    with pytest.raises(AssertionError, match="element 0 differs, as do 99 others of 100"):
        testing.assert_equal_algebra(lambda x: x * 2, lambda x: x * 3, x)
