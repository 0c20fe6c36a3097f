"""The simplify pass on kernels, by golden texts and by what must be gone or kept."""

from __future__ import annotations

import pytest
from arith.exprs import binary, imm, var

import tilelang.language as T
from tilelang import _ffi
from tilelang.transform import run_pass


def simplified(func):
    return str(run_pass("simplify", func))


def test_kernel(golden):
    @T.prim_func
    def main(A: T.Tensor((T.dynamic("m"), 256), "float32"), B: T.Tensor((256,), "float32")):
        with T.Kernel(T.ceildiv(A.shape[0], 64), threads=128) as bx:
            shared = T.alloc_shared((64, 256), "float32")
            unused = T.alloc_fragment((64,), "float32")  # noqa: F841
            T.copy(A[bx * 64 + 0, 0], shared)
            for i, j in T.Parallel(64, 256):
                if bx * 64 + i < A.shape[0] and i * 256 + j < 64 * 256:
                    shared[i, (i * 256 + j) % 256] = B[j // 1] + B[(j * 4) // 4]
            for _k in T.serial(1):
                T.copy(shared, A[bx * 64, 0])

    golden("simplify_kernel", simplified(main))


def test_remainder_check_stays_where_it_is_needed():
    @T.prim_func
    def main(A: T.Tensor((1000,), "float32")):
        with T.Kernel(T.ceildiv(1000, 128), threads=128) as bx:
            for i in T.Parallel(128):
                if bx * 128 + i < 1000:
                    A[bx * 128 + i] = 1.0

    assert "if " in simplified(main)


def test_remainder_check_goes_where_sizes_divide():
    @T.prim_func
    def main(A: T.Tensor((1024,), "float32")):
        with T.Kernel(T.ceildiv(1024, 128), threads=128) as bx:
            for i in T.Parallel(128):
                if bx * 128 + i < 1024:
                    A[bx * 128 + i] = 1.0

    assert "if " not in simplified(main)


class Body:
    """Statements of a kernel of 32 threads that writes to `out`, an array of 64 int32."""

    def __init__(self):
        self.out = _ffi.get("ir.Buffer")("out", "int32", [imm(64)], [], "global", {}, None)
        self.tx = var("tx")

    def store(self, value, index=None):
        return _ffi.get("ir.Store")(self.out, [self.tx if index is None else index], value, None)

    def func(self, *stmts, threads=32):
        bx, ty = var("bx"), [self.tx]
        launch = _ffi.get("ir.KernelLaunch")(
            [bx], [imm(4)], ty, [imm(threads)], {}, _ffi.get("ir.Seq")(list(stmts), None), None
        )
        return _ffi.get("ir.Func")("main", [self.out], launch, {}, None)


def _for(v, extent, *stmts, low=0):
    return _ffi.get("ir.For")(
        v, imm(low), imm(extent), 0, _ffi.get("ir.Seq")(list(stmts), None), {}, None
    )


def _if(condition, then_case, else_case=None):
    return _ffi.get("ir.If")(condition, then_case, else_case, None)


def _op(op, a, b):
    return binary(op, a, imm(b) if isinstance(b, int) else b)


def test_dead_branches_go():
    b = Body()
    text = simplified(
        b.func(
            _if(_op("<", b.tx, 32), b.store(imm(1)), b.store(imm(2))),
            _if(_op(">", b.tx, 40), b.store(imm(3))),
            _if(_op("<", b.tx, 8), _if(_op("<", b.tx, 16), b.store(imm(4)))),
        )
    )
    assert "= 1" in text and "= 2" not in text and "= 3" not in text
    assert text.count("if ") == 1 and "= 4" in text


def test_loops_without_iterations_go():
    b, i = Body(), var("i")
    text = simplified(b.func(b.store(imm(1)), _for(i, 0, b.store(imm(2)))))
    assert "= 2" not in text


def test_loop_of_one_iteration_becomes_its_body():
    b, i = Body(), var("i")
    text = simplified(b.func(_for(i, 1, b.store(i, index=_op("+", i, 2)), low=5)))
    assert "for " not in text and "out[7] = 5" in text


def test_loop_of_one_iteration_with_a_break_stays():
    b, i = Body(), var("i")
    leave = _if(_op("<", b.tx, 8), _ffi.get("ir.Break")(None))
    assert "for " in simplified(b.func(_for(i, 1, leave, b.store(imm(3)))))


def test_what_follows_a_break_goes():
    b, i = Body(), var("i")
    text = simplified(b.func(_for(i, 4, b.store(i), _ffi.get("ir.Break")(None), b.store(imm(9)))))
    assert "= 9" not in text and "break" in text


def test_condition_of_an_early_exit_is_known_after_it():
    b, i = Body(), var("i")
    leave = _if(_op(">=", i, 2), _ffi.get("ir.Continue")(None))
    text = simplified(b.func(_for(i, 4, leave, _if(_op("<", i, 3), b.store(i)))))
    assert text.count("if ") == 1


def test_trivial_bindings_are_propagated_and_others_kept():
    b, x, y, z = Body(), var("x"), var("y"), var("z")
    bind = _ffi.get("ir.Bind")
    text = simplified(
        b.func(
            bind(x, b.tx, None),
            bind(y, _op("*", x, 3), None),
            bind(z, _op("+", x, 1), None),
            b.store(_op("+", _op("*", y, y), x)),
        )
    )
    assert "x: int32" not in text and "z: " not in text
    assert "y: int32 = tx * 3" in text and "y * y + tx" in text


def test_assumption_holds_for_what_follows():
    b, n = Body(), var("n")
    check = _if(_op("==", _op("*", _op("//", n, 4), 4), n), b.store(imm(1)))
    assume = _ffi.get("ir.Assume")(_op("==", _op("%", n, 4), 0), None)
    assert "if " in simplified(b.func(check))
    assert "if " in simplified(b.func(check, assume))
    assert "if " not in simplified(b.func(assume, check))


def test_calls_with_effects_are_kept():
    b, x = Body(), var("x")
    call = _ffi.get("ir.Call")("int32", "atomic_add", [], {}, None)
    text = simplified(
        b.func(_ffi.get("ir.Bind")(x, call, None), _ffi.get("ir.Evaluate")(call, None))
    )
    assert text.count("atomic_add") == 2


def test_values_in_memory_are_not_remembered():
    b = Body()
    load = _ffi.get("ir.Load")(b.out, [imm(0)], None)
    body = _ffi.get("ir.Seq")(
        [b.store(imm(5), index=imm(0)), _if(_op("<", load, 3), b.store(imm(8)))], None
    )
    assert "= 8" in simplified(b.func(_if(_op("<", load, 3), body)))
    twice = b.func(_if(_op("<", load, 3), _if(_op("<", load, 3), b.store(imm(8)))))
    assert simplified(twice).count("if ") == 2


def test_simplified_function_is_a_fixed_point():
    @T.prim_func
    def main(A: T.Tensor((T.dynamic("m"), 96), "float16"), B: T.Tensor((96,), "float16")):
        with T.Kernel(T.ceildiv(A.shape[0], 3), threads=96) as bx:
            for i, j in T.Parallel(3, 96):
                if bx * 3 + i < A.shape[0]:
                    A[bx * 3 + i, (j * 2 + i) % 96 // 2] = B[j] * 2.0

    once = run_pass("simplify", main)
    assert str(run_pass("simplify", once)) == str(once)
    assert run_pass("simplify", once).body.same_as(once.body)


def test_unknown_pass():
    with pytest.raises(ValueError, match="no pass 'simplfy'"):
        run_pass("simplfy", Body().func())


def test_grids_without_blocks_stay_empty():
    m = T.dynamic("m")

    @T.prim_func
    def main(A: T.Tensor((m,), "float32")):
        with T.Kernel(T.min(T.ceildiv(m, 8), 1), threads=8):
            for i in T.Parallel(8):
                A[i] = 1.0

    assert "grid(" in simplified(main) and "min(" in simplified(main)
