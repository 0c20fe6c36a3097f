"""A traced kernel computes what Python computes from the same source.

Each body is executed by Python itself, and traced and interpreted; then random programs, nests
of branches and loops that assign to few names, are compared likewise. The tracer may refuse a
program; it may never give another result.
"""

import linecache
import textwrap

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ir_interpreter import Interpreter
from tiers import examples

import tilelang.language as T
from tilelang.errors import CompileError

SIZE = 16
_count = 0


class Plain:
    """What the language means to Python alone: a mutable scalar is a name like any other."""

    serial = unroll = staticmethod(range)
    min, max = staticmethod(min), staticmethod(max)

    @staticmethod
    def alloc_var(dtype, init=0):
        return init

    @staticmethod
    def if_then_else(condition, a, b):
        return a if condition else b


def define(source, language=T):
    """Executes ``source`` as a file of its own; returns its names."""
    global _count
    _count += 1
    name = f"<program {_count}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    scope = {"T": language}
    exec(compile(source, name, "exec"), scope)
    return scope


def native_and_traced(body):
    """The body as a Python function and as a kernel of one thread."""
    lines = textwrap.dedent(body).strip("\n")
    python = "def native(A, n, c):\n" + textwrap.indent(lines, "    ")
    kernel = (
        f'@T.prim_func\ndef kernel(A: T.Tensor(({SIZE},), "int32"), n: T.int32, c: T.int32):\n'
        "    with T.Kernel(1, threads=1) as bx:\n" + textwrap.indent(lines, "        ")
    )
    return define(python, Plain)["native"], kernel


def check(body, inputs=((3, 0), (0, 1), (5, 4), (1, 7))):
    native, kernel = native_and_traced(body)
    func = define(kernel)["kernel"]
    for n, c in inputs:
        expected, actual = list(range(7, 7 + SIZE)), list(range(7, 7 + SIZE))
        native(expected, n, c)
        Interpreter(func, actual, n, c)
        assert actual == expected, f"n={n} c={c}\n{func}"
    return func


BODIES = {
    "rebinding in a branch": """
        x = 1
        if c > 2:
            x = 5
        A[0] = x
    """,
    "rebinding in both branches": """
        if c > 2:
            x = A[1]
        else:
            x = c + 1
        A[0] = x
    """,
    "elif chain": """
        x = c
        if c == 0:
            x = 10
        elif c == 1:
            x = x + 20
        elif c == 4:
            y = x * 2
            x = y + 1
        A[0] = x
    """,
    "accumulation": """
        total = 0
        for i in range(n):
            total += A[i]
        A[0] = total
    """,
    "two carried names": """
        a = 0
        b = 1
        for i in range(n):
            t = a + b
            a = b
            b = t
        A[0] = a
        A[1] = b
    """,
    "swap": """
        a = A[0]
        b = A[1]
        for i in range(n):
            a, b = b, a + 1
        A[2] = a
        A[3] = b
    """,
    "swap of elements": """
        A[0], A[1] = A[1], A[0]
        x, y = A[2], A[3]
        A[2] = y
        A[3] = x
    """,
    "values are read when assigned": """
        x = A[0]
        A[0] = 100
        A[1] = x
        pair = (A[2], A[3])
        A[2] = 5
        A[3] = 6
        A[4] = pair[0] * 10 + pair[1]
    """,
    "last value of a loop": """
        last = -1
        for i in range(n):
            last = i * 2
        A[0] = last
    """,
    "break": """
        found = 0
        for i in range(n):
            if A[i] > 8:
                found = i + 1
                break
            found = -i
        A[0] = found
    """,
    "continue": """
        k = 0
        for i in range(n):
            if i % 2 == 0:
                continue
            k = k + i
        A[0] = k
    """,
    "while": """
        x = n
        steps = 0
        while x > 1 and steps < 20:
            x = x // 2
            steps = steps + 1
        A[0] = steps * 100 + x
    """,
    "while true with break": """
        x = 0
        while True:
            x = x + 1
            if x >= c:
                break
        A[0] = x
    """,
    "nested loops": """
        s = 0
        for i in range(n):
            row = 0
            for j in range(i, n, 2):
                row = row + j
                if row > 6:
                    break
            s = s + row * (i + 1)
        A[0] = s
    """,
    "descending loop": """
        k = 0
        for i in range(n, -1, -2):
            A[k] = i
            k += 1
    """,
    "conditional expressions": """
        x = A[0] if c > 1 else A[1]
        A[2] = x if 0 < x <= 7 < n + 10 else -x
        A[3] = 1 if c > 1 and n > 1 or not c == 0 else 2
    """,
    "python values": """
        total = 0
        for k in [1, 2, 3]:
            total = total * 10 + k
        table = {j: j * j for j in (0, 1, 2)}
        A[0] = total + sum(table.values())
        names = [A[j] for j in (1, 2)]
        A[1] = names[0] + names[1]
    """,
    "python loop over kernel values": """
        s = 0
        for k, v in enumerate([A[0], A[1], n]):
            if k == 1:
                continue
            s = s + v * (k + 1)
        A[2] = s
    """,
    "python loop with a run-time branch": """
        best = A[0]
        for k in (1, 2, 3):
            if A[k] % 4 > best % 4:
                best = A[k]
        A[0] = best
    """,
    "min and max": """
        x = max(min(A[0], c), n, 2)
        A[1] = min([x, 3])
    """,
    "chained assignment": """
        x = y = A[0] + c
        x += 1
        A[1] = x * 100 + y
    """,
    "one name, kernel and python values": """
        x = 2
        A[0] = x
        x = A[1]
        A[2] = x
        x = "text"
        A[3] = len(x)
    """,
    "branch inside a loop with a carried flag": """
        flag = 0
        for i in range(n):
            if flag == 1:
                A[i] = -1
                flag = 0
            else:
                flag = 1
        A[15] = flag
    """,
    "early exit of both branches": """
        r = 0
        for i in range(n):
            if i == c:
                r = 7
                break
            else:
                r = r + 1
                continue
        A[0] = r
    """,
    "value of a branch that leaves": """
        x = 1
        for i in range(n):
            y = 3
            if i > 1:
                y = 50
                break
            x = x + y
        A[0] = x
    """,
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_body(body):
    check(body)


NAMES = ("x", "y", "z", "v")


@st.composite
def expressions(draw, depth=2):
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from([*NAMES, "n", "c", "A[1]", "A[2]", "p[0]", "p[1]", "3", "-2"]))
    a, b = draw(expressions(depth - 1)), draw(expressions(depth - 1))
    form = draw(
        st.sampled_from(
            ["({a} + {b})", "({a} - {b})", "({a} * {b} % 17)", "({a} if {b} > 0 else {b})"]
        )
    )
    return form.format(a=a, b=b)


@st.composite
def blocks(draw, depth, in_loop):
    lines = []
    for _ in range(draw(st.integers(1, 3))):
        lines += draw(statements(depth, in_loop))
    return lines


@st.composite
def statements(draw, depth, in_loop):
    kinds = ["assign", "assign", "augment", "store", "swap", "pair"]
    if depth:
        kinds += ["if", "if else", "for", "for", "while", "python for"]
    if in_loop:
        kinds += ["leave"]
    kind = draw(st.sampled_from(kinds))
    if kind == "assign":
        return [f"{draw(st.sampled_from(NAMES))} = {draw(expressions())}"]
    if kind == "augment":
        return [f"{draw(st.sampled_from(NAMES))} += {draw(expressions(1))}"]
    if kind == "store":
        return [f"A[{draw(st.integers(0, 4))}] = {draw(expressions())}"]
    if kind == "swap":
        return draw(st.sampled_from([["x, y = y, x"], ["v, z = z, v"], ["A[1], x = x, A[1]"]]))
    if kind == "pair":
        return [f"q = ({draw(expressions(1))}, {draw(expressions(1))})", "x = q[0]", "v = q[1] - x"]
    if kind == "leave":
        word = draw(st.sampled_from(["break", "continue"]))
        other = draw(st.sampled_from(["", " and n > 1", " or c < 0", " and not x == 1"]))
        return [f"if {draw(expressions(1))} > 2{other}:", f"    {word}"]
    inner = [f"    {line}" for line in draw(blocks(depth - 1, in_loop or kind in ("for", "while")))]
    if kind == "if":
        return [f"if {draw(expressions(1))} > 1:", *inner]
    if kind == "if else":
        other = [f"    {line}" for line in draw(blocks(depth - 1, in_loop))]
        return [f"if {draw(expressions(1))} > 1:", *inner, "else:", *other]
    if kind == "python for":
        loop = [f"    {line}" for line in draw(blocks(depth - 1, False))]
        return ["for k in (1, 2):", *loop]
    if kind == "for":
        loop = draw(st.sampled_from(["range", "T.serial", "T.unroll"]))
        return [f"for i{depth} in {loop}({draw(st.sampled_from(['n', '3', 'n - 1']))}):", *inner]
    # Bounded whatever the body does, and by a value that is not known while tracing.
    return [f"w{depth} = min(n, 0)", f"while w{depth} < 3:", f"    w{depth} += 1", *inner]


@settings(max_examples=examples(100), deadline=None, suppress_health_check=list(HealthCheck))
@given(blocks(3, False), st.integers(0, 4), st.integers(-2, 5))
def test_random_programs(lines, n, c):
    start = ["x = 1", "y = c", "z = A[3]", 'v = T.alloc_var("int32", init=n)', "p = (A[4], x)"]
    body = "\n".join([*start, *lines, "A[5] = x", "A[6] = y", "A[7] = z", "A[8] = v"])
    native, kernel = native_and_traced(body)
    func = define(kernel)["kernel"]
    expected, actual = list(range(SIZE)), list(range(SIZE))
    native(expected, n, c)
    Interpreter(func, actual, n, c)
    assert actual == expected, f"{body}\n\n{func}"


def test_names_given_in_one_branch_only_are_refused():
    body = "if c > 2:\n    x = A[1]\nA[0] = x"
    _, kernel = native_and_traced(body)
    with pytest.raises(CompileError, match=r"`x` got its value inside a branch"):
        define(kernel)
