"""Warnings of a launch: one for a line of the source, however many instructions it makes."""

from __future__ import annotations

import warnings

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.emulator import EmulatorWarning
from tilelang.emulator.warned import line_by_line


@T.prim_func
def unwritten(A: T.Tensor((64, 64), "float32")):
    with T.Kernel(1, threads=128):
        s = T.alloc_shared((64, 64), "float32")
        T.copy(s, A)  # HERE


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_tile_that_was_never_written(arch: str) -> None:
    """One warning, with the line of the copy, instead of one for each of its instructions."""
    kernel = tilelang.compile(unwritten, target=arch, pass_configs={"tl.disable_tma_lower": True})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kernel(torch.zeros(64, 64))
    texts = [str(w.message) for w in caught if issubclass(w.category, EmulatorWarning)]
    with open(__file__) as source:
        lines = source.readlines()
    number = next(n for n, line in enumerate(lines, start=1) if line.endswith("# HERE\n"))
    assert len(texts) == 1 and "nothing has written" in texts[0]
    assert f"test_warned.py:{number}, PTX line" in texts[0]


def test_kinds_kernels_and_ptx_without_lines_stay_apart() -> None:
    def warning(kind: str, kernel: str, source: int, ptx: int) -> dict[str, object]:
        return {
            "kind": kind, "kernel": kernel, "short_kernel": kernel, "source_file": "f.py",
            "source_line": source, "ptx_line": ptx, "message": kind, "count": ptx,
        }  # fmt: skip

    given = [
        warning("a", "k", 7, 1), warning("a", "k", 7, 2), warning("b", "k", 7, 3),
        warning("a", "q", 7, 4), warning("a", "k", 0, 5), warning("a", "k", 0, 6),
    ]  # fmt: skip
    assert list(line_by_line(given)) == [
        "k, f.py:7, PTX line 1 and 1 more of this line: a (3 times)",
        "k, f.py:7, PTX line 3: b (3 times)",
        "q, f.py:7, PTX line 4: a (4 times)",
        "k, PTX line 5: a (5 times)",
        "k, PTX line 6: a (6 times)",
    ]
