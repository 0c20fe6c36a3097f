"""Rewrites the syntax tree of a kernel so that executing it traces it.

Every statement is preceded by ``__tl.at(n)``, which tells the tracer its place. Assignments,
branches, loops and the lazy operators become calls of the tracer (:mod:`.tracer`), which does at
once what is known and emits IR for what is not; everything else stays the Python it was.
"""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from typing import Any, NamedTuple, TypeVar

from ... import errors
from .liveness import (
    BlockNames,
    Liveness,
    assignments,
    declared_names,
    nested,
    target_names,
)

TRACER = "__tl"
Place = tuple[int, int, int, int]


class Tables(NamedTuple):
    """The objects that the rewritten code refers to by number, for each ``at``.

    Attributes:
        file: the user's file.
        places: (line, column, end line, end column) of each statement; lines and columns from 1.
        hints: names for what the statement creates: assignment targets, loop variables.
        blocks: the names of the ``if``, loop or ``with`` that starts there.
        arguments: the places of the parameters.
        declared: the parameters that the body declares, as in ``A: T.Tensor((M, N), dtype)``.
    """

    file: str
    places: list[Place]
    hints: list[tuple[str, ...]]
    blocks: list[BlockNames | None]
    arguments: dict[str, Place]
    declared: frozenset[str]


def _name(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _store(name: str) -> ast.Name:
    return ast.Name(name, ast.Store())


def _method(method: str, *args: ast.expr, owner: str = TRACER) -> ast.Call:
    return ast.Call(ast.Attribute(_name(owner), method, ast.Load()), list(args), [])


def function_def(name: str, arguments: ast.arguments, body: list[ast.stmt]) -> ast.FunctionDef:
    """Returns a definition without decorators, annotations and type parameters."""
    extra: dict[str, Any] = {"type_params": []} if "type_params" in ast.FunctionDef._fields else {}
    return ast.FunctionDef(name, arguments, body, [], **extra)


def _lazy(body: ast.expr) -> ast.Lambda:
    return ast.Lambda(ast.arguments([], [], None, [], [], None, []), body)


def _names(names: tuple[str, ...]) -> list[ast.expr]:
    return [_name(name) for name in names]


def _assign_names(names: tuple[str, ...], value: ast.expr) -> ast.Assign:
    return ast.Assign([ast.Tuple([_store(name) for name in names], ast.Store())], value)


def _end_column(node: ast.arg) -> int:
    return (node.end_col_offset or 0) + 1


def _header_place(node: ast.stmt) -> Place:
    """The place of a statement; of a compound one only its header."""
    end: ast.AST = node
    if isinstance(node, ast.For):
        end = node.iter
    elif isinstance(node, (ast.If, ast.While)):
        end = node.test
    elif isinstance(node, ast.With):
        end = node.items[-1].optional_vars or node.items[-1].context_expr
    end_line, end_column = end.end_lineno, end.end_col_offset  # type: ignore[attr-defined]
    return node.lineno, node.col_offset + 1, end_line, end_column + 1


_Tree = TypeVar("_Tree", bound=ast.AST)


def located(node: _Tree, place: Place) -> _Tree:
    """Gives ``node`` a place, and the generated nodes in it; the user's nodes keep theirs."""
    line, column, end_line, end_column = place
    pending: list[ast.AST] = [node]
    while pending:
        each = pending.pop()
        if "lineno" in each._attributes:
            if each is not node and hasattr(each, "lineno"):
                continue
            each.lineno, each.col_offset = line, column - 1  # type: ignore[attr-defined]
            each.end_lineno, each.end_col_offset = end_line, end_column - 1  # type: ignore[attr-defined]
        pending.extend(ast.iter_child_nodes(each))
    return node


def _like(node: _Tree, user: ast.expr) -> _Tree:
    """Gives generated nodes the place of the user's expression that they stand for."""
    end_line, end_column = user.end_lineno or user.lineno, user.end_col_offset or user.col_offset
    return located(node, (user.lineno, user.col_offset + 1, end_line, end_column + 1))


def _hints(node: ast.stmt) -> tuple[str, ...]:
    targets: list[ast.AST] = []
    if isinstance(node, ast.Assign):
        targets = [*node.targets]
    elif isinstance(node, (ast.For, ast.AnnAssign)):
        targets = [node.target]
    elif isinstance(node, ast.With):
        targets = [item.optional_vars for item in node.items if item.optional_vars]
    found = []
    for target in targets:
        leaves = [n for n in ast.walk(target) if isinstance(n, ast.Name)]
        leaves.sort(key=lambda n: (n.lineno, n.col_offset))
        found += [n.id for n in leaves if isinstance(n.ctx, ast.Store)]
    return tuple(found)


def _with_target(item: ast.withitem) -> ast.expr | None:
    """What a context manager's value is bound to; `T.Kernel(n) as (bx,)` gives one index."""
    target, context = item.optional_vars, item.context_expr
    is_kernel = isinstance(context, ast.Call) and ast.unparse(context.func).endswith("Kernel")
    if is_kernel and isinstance(target, (ast.Tuple, ast.List)) and len(target.elts) == 1:
        return target.elts[0]
    return target


# Builtins whose meaning inside a kernel differs when their arguments are traced values.
_REDIRECTED = frozenset({"min", "max", "print", "bool"})
_LAZY_OPERATORS = {ast.And: "and_", ast.Or: "or_"}


class Rewriter(ast.NodeTransformer):
    """Rewrites the body of one function; fills ``tables``."""

    def __init__(self, node: ast.FunctionDef, file: str) -> None:
        arguments = {
            arg.arg: (arg.lineno, arg.col_offset + 1, arg.end_lineno or 0, _end_column(arg))
            for arg in ast.walk(node.args)
            if isinstance(arg, ast.arg)
        }
        declared = declared_names(node.body) & arguments.keys()
        self.tables = Tables(file, [], [], [], arguments, declared)
        counts = Counter(assignments(node.body))
        outer = {
            name
            for stmt in nested(node.body)
            if isinstance(stmt, (ast.Global, ast.Nonlocal))
            for name in stmt.names
        }
        self._liveness = Liveness(node.body)
        in_blocks = {name for block in self._liveness.blocks.values() for name in block.names}
        # Names whose earlier value matters when they are assigned.
        self._reassigned = {n for n in counts if counts[n] > 1 or n in arguments} | in_blocks
        self._reassigned -= outer
        self.unset = sorted(self._reassigned - arguments.keys())
        self._temporaries = 0

    def _error(self, node: ast.AST, message: str, *notes: str) -> errors.UnsupportedSyntaxError:
        line, column = node.lineno, node.col_offset + 1  # type: ignore[attr-defined]
        place = errors.Span(self.tables.file, line, column)
        if isinstance(node, ast.expr) and node.end_lineno == line:
            place = place._replace(end_line=line, end_col=(node.end_col_offset or 0) + 1)
        return errors.UnsupportedSyntaxError(message, span=place, notes=notes)

    def _temporary(self) -> str:
        self._temporaries += 1
        return f"__tl_{self._temporaries}"

    # Statements -----------------------------------------------------------------------------

    def body(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """Returns the rewritten statements, each after the call that tells its place."""
        result: list[ast.stmt] = []
        for stmt in statements:
            rewrite = getattr(self, f"_stmt_{type(stmt).__name__}", None)
            if rewrite is None:
                notes = _INSTEAD.get(type(stmt).__name__, ())
                raise self._error(stmt, f"{_describe(stmt)} cannot be used in a kernel", *notes)
            number = len(self.tables.places)
            place = _header_place(stmt)
            self.tables.places.append(place)
            self.tables.hints.append(_hints(stmt))
            self.tables.blocks.append(self._liveness.blocks.get(stmt))
            at = ast.Expr(_method("at", ast.Constant(number)))
            result += [located(new, place) for new in (at, *rewrite(stmt))]
        return result or [ast.Pass()]

    def _stmt_Expr(self, node: ast.Expr) -> list[ast.stmt]:
        if isinstance(node.value, ast.Constant):
            return []
        return [ast.Expr(_method("evaluate", self.visit(node.value)))]

    def _stmt_Pass(self, node: ast.Pass) -> list[ast.stmt]:
        return []

    def _keep(self, node: Any) -> list[ast.stmt]:
        return [node]

    _stmt_Import = _stmt_ImportFrom = _stmt_Global = _stmt_Nonlocal = _keep
    # Nested functions are rewritten when a decorator (T.macro) asks for it.
    _stmt_FunctionDef = _keep

    def _bound(self, name: str, value: ast.expr) -> ast.stmt:
        """``name = value`` by way of the tracer."""
        args = [ast.Constant(name), value]
        if name in self._reassigned:
            return ast.Assign([_store(name)], _method("assign", *args, _name(name)))
        return ast.Assign([_store(name)], _method("bind", *args))

    def _assign(self, target: ast.expr, value: ast.expr) -> list[ast.stmt]:
        """Statements for ``target = value``, where ``value`` is already rewritten."""
        if isinstance(target, ast.Name):
            return [self._bound(target.id, value)]
        if isinstance(target, (ast.Subscript, ast.Attribute)):
            return [ast.Assign([self.visit(target)], value)]
        if isinstance(target, (ast.Tuple, ast.List)):
            parts = [self._temporary() for _ in target.elts]
            stars = [n for n, item in enumerate(target.elts) if isinstance(item, ast.Starred)]
            numbers = [ast.Constant(number) for number in (len(parts), *stars)]
            unpacked = _method("unpack", value, *numbers)
            result: list[ast.stmt] = [_assign_names(tuple(parts), unpacked)]
            for part, item in zip(parts, target.elts, strict=True):
                into = item.value if isinstance(item, ast.Starred) else item
                result += self._assign(into, _name(part))
            return result
        raise self._error(target, "this assignment target cannot be used in a kernel")

    def _stmt_Assign(self, node: ast.Assign) -> list[ast.stmt]:
        value = self.visit(node.value)
        if len(node.targets) == 1:
            return self._assign(node.targets[0], value)
        temporary = self._temporary()
        result: list[ast.stmt] = [ast.Assign([_store(temporary)], value)]
        for target in node.targets:
            result += self._assign(target, _name(temporary))
        return result

    def _stmt_AnnAssign(self, node: ast.AnnAssign) -> list[ast.stmt]:
        if node.value is None:
            return self._declaration(node)
        annotated = _method("annotated", self.visit(node.annotation), self.visit(node.value))
        return self._assign(node.target, annotated)

    def _declaration(self, node: ast.AnnAssign) -> list[ast.stmt]:
        if not (isinstance(node.target, ast.Name) and node.target.id in self.tables.declared):
            raise self._error(
                node,
                f"`{ast.unparse(node.target)}` is declared here, but is no parameter",
                "write the name among the parameters of the function, or allocate: T.alloc_shared, "
                "T.alloc_fragment, T.alloc_var in a kernel, T.empty for an output before it",
            )
        name = node.target.id
        declared = _method("declare", ast.Constant(name), self.visit(node.annotation), _name(name))
        return [ast.Assign([_store(name)], declared)]

    def _stmt_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:
        value = self.visit(node.value)
        if not isinstance(node.target, ast.Name):
            return [ast.AugAssign(self.visit(node.target), node.op, value)]
        operator = ast.Constant(type(node.op).__name__)
        return [
            self._bound(node.target.id, _method("in_place", operator, _name(node.target.id), value))
        ]

    def _stmt_If(self, node: ast.If) -> list[ast.stmt]:
        frame, names = self._temporary(), self._liveness.blocks[node].names
        has_else = ast.Constant(bool(node.orelse))
        opened = ast.Assign(
            [_store(frame)], _method("if_", self.visit(node.test), has_else, *_names(names))
        )

        def branch(attribute: str, body: list[ast.stmt]) -> ast.stmt:
            inside: list[ast.stmt] = [ast.With([ast.withitem(_name(frame))], self.body(body))]
            if names:
                done = _method("branch_done", *_names(names), owner=frame)
                inside.append(_assign_names(names, done))
            return ast.If(ast.Attribute(_name(frame), attribute, ast.Load()), inside, [])

        result: list[ast.stmt] = [opened, branch("then", node.body)]
        if node.orelse:
            result.append(branch("other", node.orelse))
        if names:
            result.append(_assign_names(names, _method("merge", *_names(names), owner=frame)))
        return result

    def _loop(
        self, node: ast.For | ast.While, opened: ast.expr, loop: ast.stmt, frame: str
    ) -> list[ast.stmt]:
        if node.orelse:
            raise self._error(
                node.orelse[0],
                "`else` of a loop cannot be used in a kernel",
                "keep whether the loop was left in a variable: "
                "left = T.alloc_var(T.bool, init=False)",
            )
        names = self._liveness.blocks[node].names
        result: list[ast.stmt] = [ast.Assign([_store(frame)], opened)]
        if names:
            values = _names(names)
            result.append(_assign_names(names, _method("enter", *values, owner=frame)))
            result.append(loop)
            result.append(_assign_names(names, _method("leave", *values, owner=frame)))
        else:
            result.append(loop)
        return result

    def _stmt_For(self, node: ast.For) -> list[ast.stmt]:
        iterable = node.iter
        if (
            isinstance(iterable, ast.Call)
            and isinstance(iterable.func, ast.Name)
            and iterable.func.id == "range"
        ):
            function = _method("range_", _name("range"))
            arguments = [self.visit(arg) for arg in iterable.args]
            iterable = _like(ast.Call(function, arguments, []), iterable)
        else:
            iterable = self.visit(iterable)
        frame = self._temporary()
        loop = ast.For(node.target, _name(frame), self.body(node.body), [])
        return self._loop(node, _method("loop", iterable), loop, frame)

    def _stmt_While(self, node: ast.While) -> list[ast.stmt]:
        frame = self._temporary()
        literal = isinstance(node.test, ast.Constant) and bool(node.test.value)
        opened = _method("while_", _lazy(self.visit(node.test)), ast.Constant(literal))
        inside: list[ast.stmt] = [ast.With([ast.withitem(_name(frame))], self.body(node.body))]
        loop = ast.While(_method("again", owner=frame), inside, [])
        return self._loop(node, opened, loop, frame)

    def _stmt_With(self, node: ast.With) -> list[ast.stmt]:
        number = len(self.tables.places) - 1
        items = [
            ast.withitem(_method("context", self.visit(item.context_expr)), _with_target(item))
            for item in node.items
        ]
        names = self._liveness.blocks[node].names
        result: list[ast.stmt] = [ast.With(items, self.body(node.body))]
        if names:
            left = _method("leave_with", ast.Constant(number), *_names(names))
            result.append(_assign_names(names, left))
        return result

    def _stmt_Break(self, node: ast.Break) -> list[ast.stmt]:
        return [ast.If(_method("break_"), [node], [])]

    def _stmt_Continue(self, node: ast.Continue) -> list[ast.stmt]:
        return [ast.If(_method("continue_"), [node], [])]

    def _stmt_Return(self, node: ast.Return) -> list[ast.stmt]:
        value = ast.Constant(None) if node.value is None else self.visit(node.value)
        has_value = ast.Constant(node.value is not None)
        leave = ast.Return(_method("return_", value))
        return [ast.If(_method("leaves", has_value), [leave], [])]

    def _stmt_Raise(self, node: ast.Raise) -> list[ast.stmt]:
        return [ast.Expr(_method("raise_")), self.generic_visit(node)]  # type: ignore[list-item]

    def _stmt_Assert(self, node: ast.Assert) -> list[ast.stmt]:
        message = ast.Constant("") if node.msg is None else self.visit(node.msg)
        text = ast.Constant(ast.unparse(node.test))
        return [ast.Expr(_method("assert_", self.visit(node.test), _lazy(message), text))]

    # Expressions ----------------------------------------------------------------------------

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        method = _LAZY_OPERATORS[type(node.op)]
        first, *others = (self.visit(value) for value in node.values)
        for other in others:
            first = _like(_method(method, first, _lazy(other)), node)
        return first

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        operand = self.visit(node.operand)
        if isinstance(node.op, ast.Not):
            return _like(_method("not_", operand), node)
        return _like(ast.UnaryOp(node.op, operand), node)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        left = self.visit(node.left)
        others = [self.visit(other) for other in node.comparators]
        if len(others) == 1:
            return _like(ast.Compare(left, node.ops, others), node)
        operators = [ast.Constant(type(op).__name__) for op in node.ops]
        pairs = [
            ast.Tuple([op, _lazy(other)], ast.Load())
            for op, other in zip(operators, others, strict=True)
        ]
        return _like(_method("compare", left, *pairs), node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        test, body, orelse = (self.visit(n) for n in (node.test, node.body, node.orelse))
        return _like(_method("if_exp", test, _lazy(body), _lazy(orelse)), node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in _REDIRECTED:
            node = _like(ast.Call(_method("builtin", node.func), node.args, node.keywords), node)
        return node

    def _refuse(self, node: ast.AST) -> ast.AST:
        notes = _INSTEAD.get(type(node).__name__, ())
        raise self._error(node, f"{_describe(node)} cannot be used in a kernel", *notes)

    visit_NamedExpr = visit_Await = visit_Yield = visit_YieldFrom = _refuse


_DESCRIPTIONS = {
    "NamedExpr": "the walrus operator `:=`",
    "Try": "try/except",
    "TryStar": "try/except*",
    "ClassDef": "a class definition",
    "AsyncFor": "async",
    "AsyncWith": "async",
    "AsyncFunctionDef": "async",
    "Await": "await",
    "Yield": "yield",
    "YieldFrom": "yield",
    "Delete": "del",
    "Match": "match",
    "TypeAlias": "a type alias",
}


# What is left of them after desugar.py.
_INSTEAD = {
    "NamedExpr": (
        "here it is evaluated under a condition, later, or after a call; assign in a statement of "
        "its own before",
    ),
    "Try": ("a kernel raises nothing: test with `if`, or T.device_assert what must hold",),
    "Match": ("patterns are values, `|`, a name and `_`; take values apart by assignment",),
}


def _describe(node: ast.AST) -> str:
    name = type(node).__name__
    return _DESCRIPTIONS.get(name, f"`{name}`")


def rewrite(node: ast.FunctionDef, file: str) -> tuple[ast.FunctionDef, Tables]:
    """Returns the rewritten definition, without annotations and defaults, and its tables."""
    rewriter = Rewriter(node, file)
    body = rewriter.body(node.body)
    unset: list[ast.stmt] = [
        ast.Assign([_store(name)], _method("unset", ast.Constant(name))) for name in rewriter.unset
    ]
    arguments = node.args
    plain = ast.arguments(
        [ast.arg(arg.arg) for arg in arguments.posonlyargs],
        [ast.arg(arg.arg) for arg in arguments.args],
        arguments.vararg and ast.arg(arguments.vararg.arg),
        [ast.arg(arg.arg) for arg in arguments.kwonlyargs],
        [None] * len(arguments.kwonlyargs),
        arguments.kwarg and ast.arg(arguments.kwarg.arg),
        [],
    )
    function = function_def(node.name, plain, [*unset, *body])
    place = (node.lineno, node.col_offset + 1, node.lineno, node.col_offset + 1)
    return located(function, place), rewriter.tables


assert set(dir(builtins)) >= _REDIRECTED
__all__ = ["TRACER", "Place", "Tables", "rewrite", "target_names"]
