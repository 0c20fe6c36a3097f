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


def test_assertion() -> None:
    x = torch.randn(100)
    testing.assert_equal_algebra(lambda x: x * 2, lambda x: x + x, torch.zeros(4))
    with pytest.raises(AssertionError, match="element 0 differs, as do 99 others of 100"):
        testing.assert_equal_algebra(lambda x: x * 2, lambda x: x * 3, x)
