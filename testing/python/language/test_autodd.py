"""``python -m tilelang.autodd``: a failing program becomes a small one with the same failure."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tilelang.autodd.__main__ import main

NOISY = '''
import json

class Sizes:
    """What the program computes with."""
    def __init__(self):
        self.rows = 4096
        self.unused = json.dumps([1, 2, 3])

def helper(x):
    return x + 1

def run(sizes, verbose=False):
    total = 0
    for i in range(sizes.rows):
        total += helper(i)
        if i > 100:
            raise ValueError("too many " + "rows")
    return total

print("begins")
run(Sizes())
'''


def reduced(folder: Path, source: str, text: str, *options: str) -> str:
    program, output = folder / "program.py", folder / "small.py"
    program.write_text(source)
    arguments = [str(program), "--err-msg", text, "-o", str(output), *options]
    assert main(arguments) == 0
    return output.read_text()


def printed(source: str) -> str:
    run = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    return run.stdout + run.stderr


@pytest.mark.parametrize("jobs", ["1", "3"])
def test_only_the_failure_is_left(tmp_path: Path, jobs: str) -> None:
    small = reduced(tmp_path, NOISY, "ValueError: too many rows", "-j", jobs)
    assert "ValueError: too many rows" in printed(small)
    assert len(list(ast.walk(ast.parse(small)))) <= 10


def test_new_interpreters_find_a_failure_that_needs_several_lines(tmp_path: Path) -> None:
    source = "x = [5, 6, 7]\ny = 12\nfor i in x:\n    if i > 6:\n        print('found', x[1], y)\n"
    small = reduced(tmp_path, source, "found 6 12", "--backend", "subproc")
    assert "found 6 12" in printed(small)
    assert "for" not in small and small.count("\n") == 3


def test_frozen_parts_stay(tmp_path: Path) -> None:
    source = """
from tilelang.autodd import __freeze__
kept = 1 + 2  # autodd: freeze
# autodd: freeze-start
also = [3,
        4]
# autodd: end-freeze
with __freeze__:
    inside = 5 * 6
value = __freeze__(7 - 8) + 9
gone = 10
raise KeyError("end")
"""
    small = reduced(tmp_path, source, "KeyError: 'end'")
    for part in ("kept = 1 + 2", "also = [3, 4]", "inside = 5 * 6", "__freeze__(7 - 8)"):
        assert part in small
    assert "gone" not in small and "+ 9" not in small


def test_a_program_that_hangs_is_no_success(tmp_path: Path) -> None:
    source = "n = 3\nwhile n:\n    n -= 1\nprint('left', n)\n"
    small = reduced(tmp_path, source, "left 0", "--timeout", "2")
    assert "left 0" in printed(small)
    assert "while" not in small


def test_a_program_without_the_text_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "program.py"
    program.write_text("print('fine')")
    assert main([str(program), "--err-msg", "wrong", "-o", str(tmp_path / "small.py")]) == 2
    assert "there is nothing to reduce" in capsys.readouterr().err
    assert not (tmp_path / "small.py").exists()


def test_a_kernel_is_reduced_to_its_mistake(tmp_path: Path) -> None:
    source = """
import tilelang
import tilelang.language as T

def rows_of(n):
    return n * 2

@T.prim_func
def kernel(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16")):
    with T.Kernel(1, threads=128) as block:
        a = T.alloc_shared((64, 32), "float16")
        b = T.alloc_shared((64, 64), "float16")
        c = T.alloc_fragment((64, 64), "float32")
        T.clear(c)
        for k in T.Pipelined(4, num_stages=2):
            T.copy(A[0, 0], a)
            T.gemm(a, b, c)
        T.copy(c, B)

print(rows_of(3))
tilelang.compile(kernel, target="sm_90a")
"""
    small = reduced(tmp_path, source, "ShapeError")
    assert "ShapeError" in printed_file(tmp_path, small)
    assert small.count("\n") < 12 and "Pipelined" not in small


def printed_file(folder: Path, source: str) -> str:
    """A kernel needs a file: the compiler reads its source."""
    program = folder / "again.py"
    program.write_text(source)
    run = subprocess.run([sys.executable, str(program)], capture_output=True, text=True)
    return run.stdout + run.stderr
