"""Which statements of a function are executed to learn what its parameters are."""

from __future__ import annotations

import ast
import textwrap

import pytest

from tilelang.language.parser.declarations import declaring_part

CASES = {
    "constants and nothing of the kernel": (
        """
        M, N = T.const("M, N")
        steps = int(math.log2(N))
        assert N % 2 == 0
        A: T.Tensor((M, N), dtype)
        with T.Kernel(M) as i:
            A[i, 0] = steps
        return A
        """,
        """
        M, N = T.const("M, N")
        A: T.Tensor((M, N), dtype)
        """,
    ),
    "what annotations are computed from, however far back": (
        """
        unused = f()
        a = g()
        b = a + 1
        shape = [b]
        shape.append(4)
        shape[0] = 5
        shape += [6]
        T.use_swizzle(3)
        A: T.Tensor(shape, dtype)
        """,
        """
        a = g()
        b = a + 1
        shape = [b]
        shape.append(4)
        shape[0] = 5
        shape += [6]
        A: T.Tensor(shape, dtype)
        """,
    ),
    "conditions and loops around": (
        """
        quick = mode == "quick"
        other = h()
        if quick:
            log(other)
            n = 1
        elif slow:
            n = 2
        else:
            n = 3
        for size in sizes:
            total += size
            other = size
        while total > 9:
            total = total - n
        if bias is not None:
            other = 1
            B: T.Tensor((total,), dtype)
        """,
        """
        quick = mode == "quick"
        if quick:
            n = 1
        elif slow:
            n = 2
        else:
            n = 3
        for size in sizes:
            total += size
        while total > 9:
            total = total - n
        if bias is not None:
            B: T.Tensor((total,), dtype)
        """,
    ),
    "functions and imports": (
        """
        import math
        from x import y as z, w
        def helper(k):
            return math.ceil(k / base)
        def unused():
            return 1
        base = z(2)
        A: T.Tensor((helper(9),), dtype)
        """,
        """
        import math
        from x import y as z, w
        def helper(k):
            return math.ceil(k / base)
        base = z(2)
        A: T.Tensor((helper(9),), dtype)
        """,
    ),
    "nothing is declared": (
        """
        M = 4
        with T.Kernel(M) as i:
            pass
        """,
        "",
    ),
    "an annotation with a value is an assignment": (
        """
        M: int = T.const("M")
        K: int = 4
        A: T.Tensor((M,), dtype)
        """,
        """
        M: int = T.const("M")
        A: T.Tensor((M,), dtype)
        """,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_part_that_declares(name):
    before, after = (textwrap.indent(textwrap.dedent(each), "    ") for each in CASES[name])
    function = ast.parse(f"def f():\n{before}").body[0]
    assert isinstance(function, ast.FunctionDef)
    kept = declaring_part(function).body
    expected = ast.parse(f"def f():\n    pass\n{after}").body[0]
    assert isinstance(expected, ast.FunctionDef)
    assert list(map(ast.unparse, kept)) == list(map(ast.unparse, expected.body[1:]))
