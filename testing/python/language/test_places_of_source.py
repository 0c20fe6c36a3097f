"""Kernels outside of files: notebooks, exec, python -c, standard input, the prompt."""

from __future__ import annotations

import linecache
import subprocess
import sys
from typing import Any

import pytest

from tilelang import errors

KERNEL = """
import tilelang.language as T

@T.prim_func
def main(A: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64):
        A[T.get_thread_binding()] = 2

print(len(str(main)) > 20)
"""


def _run(*arguments: str, given: str | None = None) -> Any:
    command = [sys.executable, *arguments]
    return subprocess.run(command, input=given, capture_output=True, text=True, check=False)


def test_what_follows_minus_c() -> None:
    found = _run("-c", KERNEL)
    assert found.stdout == "True\n", found.stderr
    wrong = _run("-c", KERNEL.replace("] = 2", "] = T.nothing"))
    assert "A[T.get_thread_binding()] = T.nothing" in wrong.stderr, "the line is not shown"


@pytest.mark.parametrize("arguments", [(), ("-",), ("-i", "-q")], ids=["stdin", "dash", "prompt"])
def test_standard_input_says_what_to_do(arguments: tuple[str, ...]) -> None:
    found = _run(*arguments, given=KERNEL)
    if "True" in found.stdout:  # newer Pythons keep what was typed
        return
    assert "the source of function 'main' cannot be read" in found.stderr
    assert "put them into a file and import it" in found.stderr


def test_exec_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(errors.UnsupportedSyntaxError, match=r"linecache\.cache") as caught:
        exec(KERNEL, {})
    assert "'main' cannot be read" in str(caught.value)
    name = "<cell 1>"  # as the message says, and as notebooks do
    linecache.cache[name] = len(KERNEL), None, KERNEL.splitlines(True), name
    exec(compile(KERNEL, name, "exec"), {})
    assert capsys.readouterr().out == "True\n"


def test_cells_of_one_name_after_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    for number in (2, 3):
        text, name = KERNEL.replace("] = 2", f"] = {number}") + "print(main)", "<cell 2>"
        linecache.cache[name] = len(text), None, text.splitlines(True), name
        exec(compile(text, name, "exec"), {})
        assert f"float32({number})" in capsys.readouterr().out
