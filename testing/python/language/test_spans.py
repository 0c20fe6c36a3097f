"""Every node knows the line of the user's file that it comes from."""

import inspect

import tilelang.language as T


def walk(stmt):
    yield stmt
    for name in ("body", "then_case", "else_case"):
        inner = getattr(stmt, name, None)
        if inner is not None:
            yield from walk(inner)
    for inner in getattr(stmt, "stmts", ()):
        yield from walk(inner)


def kernel():
    @T.macro
    def double(X, i):
        X[i] = X[i] * 2  # mark Store macro

    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), n: T.int32):
        with T.Kernel(4, threads=64) as bx:  # mark KernelLaunch
            S = T.alloc_shared((64,), "float32")  # mark Alloc
            T.copy(  # mark Copy
                A,
                S,
            )
            for i in T.Parallel(64):  # mark ParallelFor
                S[i] = S[i] + 1  # mark Store parallel
            total = S[0] + n  # mark Bind
            if n > 3:  # mark If
                T.fill(S, total)  # mark Fill
            k = T.alloc_var("int32", init=0)
            while k < n:  # mark While
                k += 1  # mark Store while
                if k == 5:
                    break  # mark Break
            for j in range(n):  # mark For
                T.atomic_add(A[j], 1.0)  # mark Evaluate
            double(A, bx)

    return main


def test_statements():
    lines, first = inspect.getsourcelines(kernel)
    found = {}
    for stmt in walk(kernel().body):
        found.setdefault(stmt.__tvm_ffi_type_info__.type_key.split(".")[-1], set()).add(
            (stmt.span.file, stmt.span.line)
        )
    marked = [
        (line.split("# mark ")[1].split()[0], first + n)
        for n, line in enumerate(lines)
        if "# mark " in line
    ]
    assert len(marked) == 14
    for kind, line in marked:
        assert (__file__, line) in found[kind], (kind, line, found[kind])


def test_columns():
    store = next(s for s in walk(kernel().body) if hasattr(s, "indices"))
    text = inspect.getsource(inspect.getmodule(kernel)).splitlines()[store.span.line - 1]
    assert text[store.span.column - 1 : store.span.end_column - 1] == "S[i] = S[i] + 1"
    assert store.value.span.line == store.span.line


def test_parameters():
    func = kernel()
    text = inspect.getsource(inspect.getmodule(kernel)).splitlines()
    tensor = func.params[0].span
    assert text[tensor.line - 1][tensor.column - 1 :].startswith("A: T.Tensor")
