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
