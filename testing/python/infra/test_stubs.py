"""The stubs are those that reflection gives now, and a file of kernels type-checks with them."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import make_stubs
import pytest

import tilelang.language as T
from tilelang import nodes

pytest.importorskip("mypy")

# What type checkers cannot know: a declaration `A: T.Tensor((M, N), dtype)` is no type for them,
# and in the body of a function it declares a parameter once more.
_DECLARATIONS = ["--disable-error-code", "valid-type", "--disable-error-code", "no-redef"]

KERNELS = """
import torch

import tilelang
import tilelang.language as T
from tilelang import nodes


@tilelang.jit
def softmax(A, scale: float = 1.0):
    M, N = T.const("M, N")
    A: T.Tensor[[M, N], T.float32]
    B = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(M, 4), threads=128) as bx:
        x = T.alloc_fragment((4, N), T.float32)
        top = T.alloc_fragment((4,), "float32")
        T.copy(A[bx * 4, 0], x, annotations={T.WSID: "load"})
        T.reduce_max(x, top, dim=1)
        for i, j in T.Parallel(4, N):
            x[i, j] = T.exp2((x[i, j] - top[i]) * T.float32(scale)) + T.infinity("float32") * 0
        T.copy(x, B[bx * 4, 0])
    return B


@T.macro
def doubled(x):
    return x * 2


@T.prim_func
def main(A: T.Tensor((64, 64), "float16"), n: T.int32, B: T.Tensor((64, 64), "float16")) -> None:
    with T.Kernel(1, 2, threads=128) as (bx, by):
        s = T.alloc_shared((64, 64), "float16")
        total = T.alloc_var("float32", init=0.0)
        T.copy(A, s)
        for k in T.serial(4):
            total += T.cast(s[k, 0], "float32")
            if k < n and bx == 0:
                total = doubled(total) + 1.0
        t = T.get_thread_binding()
        old = T.atomic_add(B[0, 0], s[t, 0], return_prev=True)
        B[by, t] = T.max(T.shfl_sync(total, 0), 0.0) + T.if_then_else(t < 3, s[0, t], old)
        T.gemm(s[0:32, :], s, B[0:32, :], transpose_B=True)


def calls() -> None:
    kernel = tilelang.compile(main, target="sm_90a", out_idx=[-1])
    print(kernel.get_kernel_source(), kernel(torch.zeros(64, 64).half(), 3))
    print(softmax(torch.zeros(4, 4)))
    body = main.body
    assert isinstance(body, nodes.KernelLaunch)
    print([extent.dtype for extent in body.grid])
"""

WRONG = """
import tilelang.language as T
from tilelang import nodes

def walk(loop: nodes.For) -> None:
    T.copy(loop, loop, to=3)
    T.exp(1, 2)
    print(loop.extents)
"""


def _checked(folder: Path, *texts: str) -> list[str]:
    """What mypy says of a user's files: ``file.py: message``."""
    names = [f"file_{n}.py" for n in range(len(texts))]
    for name, text in zip(names, texts, strict=True):
        (folder / name).write_text(text)
    command = [sys.executable, "-m", "mypy", "--config-file=", "--check-untyped-defs"]
    command += ["--no-error-summary", *_DECLARATIONS, *names]
    said = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout
    lines = [line for line in said.splitlines() if "error: " in line]
    return [f"{line.split(':')[0]}: {line.split('error: ')[1].split('  [')[0]}" for line in lines]


@pytest.mark.parametrize("path", make_stubs.stubs(), ids=lambda path: path.name)
def test_stubs_are_current(path: Path) -> None:
    assert path.read_text() == make_stubs.stubs()[path], "run python scripts/make_stubs.py"


@pytest.mark.slow
def test_mypy_understands_kernels(tmp_path: Path) -> None:
    assert _checked(tmp_path, KERNELS, WRONG) == [
        'file_1.py: Unexpected keyword argument "to" for "copy"',
        'file_1.py: Too many arguments for "exp"',
        'file_1.py: "For" has no attribute "extents"; maybe "extent"?',
    ]


def test_every_function_has_its_parameters_and_its_docstring() -> None:
    tree = ast.parse(make_stubs.language_stub())
    written = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    imported = {
        alias.asname
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for name in make_stubs.names():
        value = getattr(T, name)
        if not inspect.isfunction(value):
            continue
        assert value.__doc__, name
        if name in imported:
            continue
        arguments = written[name].args
        found = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        stars = [each for each in (arguments.vararg, arguments.kwarg) if each]
        declared = {each.arg for each in [*found, *stars]}
        assert declared == set(inspect.signature(value).parameters), name


def test_classes_of_nodes_have_their_fields() -> None:
    for key in nodes.type_keys():
        found = getattr(nodes, key.rpartition(".")[2])
        for field in nodes.fields(key):
            assert hasattr(found, field), f"{key}.{field}"
    assert isinstance(T.prim_func(_empty).body, nodes.Seq | nodes.Stmt)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        nodes.Nothing  # noqa: B018


def _empty() -> None:
    with T.Kernel(1, threads=32):
        pass
