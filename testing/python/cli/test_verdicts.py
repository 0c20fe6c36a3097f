"""Verdicts on right and wrong kernels of many kinds, by ``check`` and by ``grade``."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli import right_kernels, wrong_kernels
from cli.documents import document

PROBLEM = """
import torch
from cli import {module}


class Model(torch.nn.Module):
    def forward(self, *inputs):
        return {module}.{name}_reference(*inputs)


get_inputs = {module}.CASES["{name}"].inputs
"""
SOLUTION = """
import torch
from cli import {module}


class ModelNew(torch.nn.Module):
    def forward(self, *inputs):
        return {module}.{name}(*inputs)
"""


@pytest.fixture(autouse=True)
def _target(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "sm_90a")


def _check(module, name: str, status: int) -> dict:
    shapes = module.CASES[name].shapes
    found = document(f"check {module.__file__}::{name} --shapes {shapes} --seeds 0", status)
    assert found["verdict"] in (("wrong", "racy") if status else ("right",))
    return found["targets"][0]


def _grade(module, name: str, status: int) -> dict:
    text = {"module": module.__name__.rpartition(".")[2], "name": name}
    Path("problem.py").write_text(PROBLEM.format(**text))
    Path("solution.py").write_text(SOLUTION.format(**text))
    found = document("grade problem.py solution.py --seeds 0", status)
    assert found["verdict"] in (("wrong", "racy") if status else ("right",))
    return found["workloads"][0]


@pytest.mark.parametrize("name", wrong_kernels.CASES)
def test_a_wrong_kernel_is_never_called_right(name: str) -> None:
    _check(wrong_kernels, name, 1)
    _grade(wrong_kernels, name, 1)


@pytest.mark.parametrize("name", right_kernels.CASES)
def test_a_right_kernel_is_called_right(name: str) -> None:
    found = _check(right_kernels, name, 0)
    assert all(each["ok"] is not False for each in found["inputs"])
    _grade(right_kernels, name, 0)


ADDED = """
import tilelang.language as T


def add(N):
    @T.prim_func
    def main(x: T.Tensor((N,), "float32"), total: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                T.atomic_add(total[i], x[i])

    return main


def reference(x, total):
    return total + x
"""


@pytest.mark.parametrize("mode", ["", " --algebra"])
def test_a_kernel_that_reads_what_it_writes(tmp_path: Path, monkeypatch, mode: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("added.py").write_text(ADDED)
    line = "check added.py::add --shapes N=64 --seeds 0" + mode
    assert document(f"{line} --outputs 1", 0)["verdict"] == "right"
    if not mode:
        assert "--outputs names the arguments" in document(line, 2)["error"]
    assert "there is no argument 2; they are 0 to 1" in document(f"{line} --outputs 2", 2)["error"]
