"""Counts the mutants of kernels that are unequal over the field, and those that tolerances accept.

A mutant differs from a kernel of kernels.py in one place: an operator, a number, an index, a bound,
a comparison, a flag, or a statement that is left out. Mutants that do not compile or whose launch
fails are not counted.

    python testing/algebra_mutants/run.py [--count 200] [--kernel gemm] [--seed 0] [--verbose]
"""

from __future__ import annotations

import argparse
import ast
import collections
import contextlib
import importlib.util
import itertools
import os
import random
import select
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

import tilelang
from tilelang.algebra import Algebra
from tilelang.algebra.verdict import compare
from tilelang.profiler.judge import Comparison, NotJudged, judge

SOURCE = Path(__file__).with_name("kernels.py")
TARGET = "sm_100a"
#: Statements of these functions may be left out.
DROPPED = {"clear", "fill", "copy", "gemm", "reduce_sum", "reduce_max"}
#: Emulated instructions after which a mutant is taken for one that does not end.
LIMIT = 1_000_000
#: Time of a mutant.
SECONDS = 60

#: Mutants that compute the same formula, with the lines of their functions, and why.
EQUIVALENT = {
    ("softmax", "line 11: Sub -> Add"): "exp(x + m) over its sum: m cancels",
    ("swiglu", "line 10: Mult -> Sub"): "stores beyond the tensor are left out all the same",
    ("swiglu", "line 10: Mult -> Add"): "stores beyond the tensor are left out all the same",
    ("swiglu", "line 10: bound"): "stores beyond the tensor are left out all the same",
    ("layer_norm", "line 17: Div -> Mult"): "sum (x - m)(x - n) = sum (x - m)^2 for any n",
    ("layer_norm", "line 17: Sub -> Add"): "sum (x - m)(x + m) = sum (x - m)^2 for the mean m",
    ("layer_norm", "line 16: 320 - 1 turns"): "the last turn runs in a thread that has no other",
    ("layer_norm", "line 17: i ^ 1"): "sum (x - m)(x - n) = sum (x - m)^2 for any n",
}

Change = Callable[[], None]


def changes(function: ast.FunctionDef) -> Iterator[tuple[str, Change]]:
    """Yields the changes of a program, each to be done once to a tree of its own."""
    body = next(each for each in function.body if isinstance(each, ast.FunctionDef))
    for node in ast.walk(body):
        if isinstance(node, ast.arg | ast.arguments):
            continue
        where = f"line {getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.BinOp):
            for other in _operators(node):
                name = f"{where}: {type(node.op).__name__} -> {type(other).__name__}"
                yield name, lambda node=node, other=other: setattr(node, "op", other)
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add | ast.Mult):
            other = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
            yield f"{where}: augmented", lambda node=node, other=other: setattr(node, "op", other)
        elif isinstance(node, ast.Compare):
            swap = {ast.GtE: ast.Gt, ast.Lt: ast.LtE}.get(type(node.ops[0]))
            if swap:
                yield f"{where}: bound", lambda node=node, swap=swap: setattr(node, "ops", [swap()])
        elif isinstance(node, ast.keyword) and isinstance(node.value, ast.Constant):
            if node.arg in ("clear", "transpose_B"):
                yield (
                    f"{node.arg}",
                    lambda node=node: setattr(node.value, "value", not node.value.value),
                )
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            yield from _indices(node, where)
        elif isinstance(node, ast.Constant) and isinstance(node.value, float) and node.value:
            name = f"{where}: {node.value} * 1.002"
            yield name, lambda node=node: setattr(node, "value", node.value * 1.002)
        elif isinstance(node, ast.For):
            yield from _bounds(node, where)
        for block in ("body", "orelse"):
            for place, each in enumerate(getattr(node, block, []) if _has(node) else []):
                if _called(each) in DROPPED:
                    name = f"line {each.lineno}: without {_called(each)}"
                    yield (
                        name,
                        lambda node=node, block=block, place=place: _drop(node, block, place),
                    )


def _has(node: Any) -> bool:
    return isinstance(node, ast.For | ast.With | ast.If | ast.FunctionDef)


def _drop(node: Any, block: str, place: int) -> None:
    getattr(node, block)[place] = ast.Pass()


def _called(node: Any) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return getattr(node.value.func, "attr", "")
    return ""


def _operators(node: ast.BinOp) -> list[ast.operator]:
    kinds: dict[type, list[ast.operator]] = {
        ast.Add: [ast.Sub()], ast.Sub: [ast.Add()], ast.Mult: [ast.Add(), ast.Sub()],
        ast.Div: [ast.Mult()],
    }  # fmt: skip
    return kinds.get(type(node.op), [])


def _indices(node: ast.Subscript, where: str) -> Iterator[tuple[str, Change]]:
    """One index is that of the neighbour, or two are exchanged."""
    parts = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    for place, part in enumerate(parts):
        if isinstance(part, ast.Name):

            def neighbour(place: int = place, part: ast.expr = part) -> None:
                changed = list(parts)
                changed[place] = ast.BinOp(part, ast.BitXor(), ast.Constant(1))
                node.slice = ast.Tuple(changed, ast.Load()) if len(parts) > 1 else changed[0]

            yield f"{where}: {part.id} ^ 1", neighbour
    if len(parts) == 2:

        def exchange() -> None:
            node.slice = ast.Tuple(parts[::-1], ast.Load())

        yield f"{where}: indices exchanged", exchange


def _bounds(node: ast.For, where: str) -> Iterator[tuple[str, Change]]:
    """A loop lacks its last turn."""
    call = node.iter
    if not isinstance(call, ast.Call):
        return
    for place, extent in enumerate(call.args):
        if isinstance(extent, ast.Constant) and extent.value > 1:

            def shorter(place: int = place, extent: ast.Constant = extent) -> None:
                call.args[place] = ast.Constant(extent.value - 1)

            yield f"{where}: {extent.value} - 1 turns", shorter


def mutants(names: list[str]) -> dict[str, list[tuple[str, str]]]:
    """Returns descriptions and source texts of all mutants, by kernel."""
    text = SOURCE.read_text(encoding="utf-8")
    found: dict[str, list[tuple[str, str]]] = {}
    for function in ast.parse(text).body:
        if not isinstance(function, ast.FunctionDef) or function.name not in names:
            continue
        own = ast.get_source_segment(text, function) or ""
        for i in range(sum(1 for _ in changes(_parsed(own)))):
            changed = _parsed(own)
            name, change = next(itertools.islice(changes(changed), i, None))
            change()
            source = text.replace(own, ast.unparse(ast.fix_missing_locations(changed)))
            found.setdefault(function.name, []).append((name, source))
    return found


def _parsed(text: str) -> ast.FunctionDef:
    function = ast.parse(text).body[0]
    assert isinstance(function, ast.FunctionDef)
    return function


def load(text: str, folder: Path, number: int) -> Any:
    """Imports a source text from a file of its own, where the compiler finds it."""
    path = folder / f"mutant_{number}.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def outcome(module: Any, name: str, seed: int) -> tuple[bool, bool, bool]:
    """Runs a kernel; returns whether the field, torch and the judge take it for right."""
    torch.manual_seed(seed)
    build, written = module.KERNELS[name]
    program, reference, inputs = build()
    kernel = tilelang.compile(program, target=TARGET, out_idx=[-1] if written is None else None)
    algebra = Algebra()
    for number, value in enumerate(inputs):
        if value.is_floating_point():
            algebra.draw(value, seed, number)
    elements = [algebra.read(each) if each.is_floating_point() else each for each in inputs]
    before = [each.clone() for each in inputs]
    with algebra.mode(sanitize=False, instruction_limit=LIMIT):
        result = kernel(*inputs)
    result = inputs[written] if written is not None else result
    equal = compare(algebra, [result], lambda values: reference(*values), elements).equal
    wanted = reference(*before)
    close = torch.allclose(result.double(), wanted.double(), rtol=1e-2, atol=1e-2)
    try:
        judge(Comparison([result], before, lambda values: reference(*values)))
        judged = True
    except (AssertionError, NotJudged):
        judged = False
    return equal, close, judged


def in_child(text: str, folder: Path, number: int, name: str, seed: int) -> list[bool]:
    """Returns the outcome of a mutant, from a process that it may end.

    Raises:
        RuntimeError: there is none.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            for stream in (1, 2):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
            warnings.simplefilter("ignore")
            found = outcome(load(text, folder, number), name, seed)
            os.write(writer, bytes(found))
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        found = answer.read() if select.select([answer], [], [], SECONDS)[0] else b""
    if len(found) != 3:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    if len(found) != 3:
        raise RuntimeError("no outcome")
    return [bool(each) for each in found]


def main() -> int:
    """Prints the numbers; the status is 1 if a mutant is equal over the field."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--count", type=int, default=200, help="mutants that run")
    parser.add_argument("--kernel", action="append", help="of these kernels only")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--verbose", action="store_true", help="print each mutant")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        original = load(SOURCE.read_text(encoding="utf-8"), Path(folder), -1)
        names = args.kernel or list(original.KERNELS)
        for name in names:
            assert outcome(original, name, args.seed) == (True, True, True), name
        pool = mutants(names)
        shuffler = random.Random(args.seed)
        for each in pool.values():
            shuffler.shuffle(each)
        order = [
            (name, pool[name][i])
            for i in range(max(map(len, pool.values())))
            for name in names
            if i < len(pool[name])
        ]
        return report(order, Path(folder), args)


#: Parts of the descriptions of mutants, and what is changed.
KINDS = {
    "->": "operator", "augmented": "operator", "^ 1": "index", "exchanged": "index",
    "turns": "number of turns", "without": "statement left out", "* 1.002": "constant, by 0.2 %",
}  # fmt: skip
JUDGES = ("field", "allclose", "judge")


def kind_of(text: str) -> str:
    """Returns what a mutant of this description changes."""
    return next((KINDS[part] for part in KINDS if part in text), "bound or flag")


def report(order: list[tuple[str, tuple[str, str]]], folder: Path, args: Any) -> int:
    """Runs mutants until enough of them have results."""
    counts: collections.Counter[str] = collections.Counter()
    rows: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for number, (name, (text, source)) in enumerate(order):
        if counts["ran"] == args.count:
            break
        try:
            found = in_child(source, folder, number, name, args.seed)
        except RuntimeError:
            counts["failed"] += 1
            continue
        if found[0] and (name, text) in EQUIVALENT:
            counts["equivalent"] += 1
            continue
        for row in (counts, rows[kind_of(text)]):
            row.update(ran=1, **dict(zip(JUDGES, found, strict=True)))
        if args.verbose or found[0]:
            print(f"{name}, {text}: accepted by", *itertools.compress(JUDGES, found), flush=True)
    print(f"{counts['equivalent']} mutants compute the same formula, {counts['failed']} fail\n")
    print("| change | mutants | field | allclose with 0.01 | judge |\n|---|---|---|---|---|")
    for name, row in {**dict(sorted(rows.items())), "all": counts}.items():
        print("|", " | ".join(map(str, (name, row["ran"], *(row[each] for each in JUDGES)))), "|")
    return int(counts["field"] > 0)


if __name__ == "__main__":
    sys.exit(main())
