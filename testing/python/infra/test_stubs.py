"""The stubs are those that reflection gives now; test_typing.py checks kernels with them."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import make_stubs
import pytest

import tilelang.language as T
from tilelang import nodes


@pytest.mark.parametrize("path", make_stubs.stubs(), ids=lambda path: path.name)
def test_stubs_are_current(path: Path) -> None:
    assert path.read_text() == make_stubs.stubs()[path], "run python scripts/make_stubs.py"


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
