"""One wrong kernel for each check, by class and message; and right ones that must pass."""

from __future__ import annotations

import pytest
import torch
from transform.kernels import (
    alloc,
    binary,
    buffer,
    copy,
    imm,
    kernel,
    load,
    loop,
    node,
    parallel,
    product,
    region,
    seq,
    store,
    var,
)

import tilelang
import tilelang.language as T
from tilelang import _ffi, errors
from tilelang.transform import remarks_of, run_pass


def check(func, target="sm_100a"):
    return run_pass("check_program", func, target)


def shared(name, *shape, dtype="float16"):
    return buffer(name, list(shape), dtype, "shared.dyn")


def fragment(name, *shape, dtype="float32"):
    return buffer(name, list(shape), dtype, "local.fragment")


def gemm(a, b, c, trans_a=False, trans_b=False):
    return kernel(*alloc(a, b, c), product(a, b, c, trans_a, trans_b))


def refuses(error, text, func, target="sm_100a"):
    with pytest.raises(error, match=text):
        check(func, target)


@pytest.mark.parametrize(
    ("threads", "text"),
    [
        ((2048,), "2048 threads along x: a block has 1 to 1024"),
        ((0,), "0 threads along x"),
        ((512, 4), "2048 threads in a block, but sm_100a takes at most 1024"),
        ((1, 1, 65), "65 threads along z: a block has 1 to 64"),
        ((var("n"),), "must be a constant"),
    ],
)
def test_threads(threads, text):
    refuses(errors.ResourceError, text, kernel(threads=threads))


def test_grid():
    refuses(
        errors.ResourceError,
        "70000 blocks along y: CUDA allows at most 65535",
        kernel(grid=(1, 70000)),
    )
    check(kernel(grid=(70000, 1)))


def test_cluster():
    func = kernel(attrs={"cluster_dims": [32, 1, 1]})
    refuses(
        errors.ResourceError,
        "a cluster of 32 blocks, but clusters of sm_100a have 1 to 16 blocks",
        func,
    )
    refuses(
        errors.ResourceError,
        "sm_80 has no clusters",
        kernel(attrs={"cluster_dims": [2, 1, 1]}),
        "sm_80",
    )


def test_fragment_larger_than_the_register_file():
    big = fragment("C", 512, 256)
    refuses(errors.ResourceError, r"C \(float32\[512, 256\] .* 524288 bytes", kernel(*alloc(big)))


@pytest.mark.parametrize("index", [8, -1, 100])
def test_constant_index_out_of_bounds(index):
    a = buffer("A", [4, 8])
    text = rf"index {index} in dimension 1 of A \(float32\[4, 8\] in global memory"
    refuses(errors.BoundsError, text, kernel(store(a, [0, index]), params=[a]))
    refuses(errors.BoundsError, text, kernel(store(a, [0, 0], load(a, [0, index])), params=[a]))


def test_index_that_leaves_the_buffer_in_the_last_iteration():
    i, s = var("i"), shared("S", 64)
    func = kernel(*alloc(s), parallel([i], [64], store(s, [binary("+", i, imm(1))])))
    refuses(errors.BoundsError, r"index 64 = i \+ 1 in dimension 0 of S \(float16\[64\]", func)
    inside = binary("<", i, imm(63))
    guarded = node("If", inside, store(s, [binary("+", i, imm(1))]), None)
    check(kernel(*alloc(s), parallel([i], [64], guarded)))


def test_index_of_two_loops():
    i, k, s = var("i"), var("k"), shared("S", 64)
    index = binary("+", binary("*", k, imm(16)), i)
    check(kernel(*alloc(s), loop(k, 4, parallel([i], [16], store(s, [index])))))
    refuses(
        errors.BoundsError,
        "index 64",
        kernel(*alloc(s), loop(k, 4, parallel([i], [17], store(s, [index])))),
    )
    # A loop that may not run refuses nothing.
    n = var("n")
    check(kernel(*alloc(s), loop(var("j"), n, parallel([i], [80], store(s, [i]))), params=[n]))


def test_code_that_never_runs_may_be_out_of_bounds():
    i, s = var("i"), shared("S", 8)
    dead = node("If", binary(">", i, imm(9)), store(s, [9]), None)
    check(kernel(*alloc(s), parallel([i], [8], dead)))
    check(kernel(*alloc(s), loop(i, 0, store(s, [9]))))


def test_loops_without_an_iteration_may_be_out_of_bounds():
    """Causal bounds, of a block that has nothing to do: k would end at -1."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), Out: T.Tensor((32, 64), "float16"), steps: T.int32):
        with T.Kernel(1, threads=128) as bx:
            tile = T.alloc_shared((32, 64), "float16")
            T.clear(tile)
            for k in T.Pipelined(T.min(steps, bx), num_stages=2):
                T.copy(A[k * 32, 0], tile)
            T.copy(tile, Out)

    out = torch.ones(32, 64).half()
    tilelang.compile(main, target="sm_90a")(torch.ones(64, 64).half(), out, 2)
    assert (out == 0).all()


def test_region_out_of_bounds():
    a, s = buffer("A", [256], "float16"), shared("S", 64)
    func = kernel(*alloc(s), copy(region(a, [64]), region(s, [64], [32])), params=[a])
    text = r"region S\[32:96\] ends at 96 in dimension 0 of S \(float16\[64\]"
    refuses(errors.BoundsError, text, func)
    ragged = copy(region(a, [64], [240]), region(s))
    check(kernel(*alloc(s), ragged, params=[a]))
    beyond = copy(region(a, [64], [256]), region(s))
    refuses(
        errors.BoundsError, "index 256 in dimension 0 of A", kernel(*alloc(s), beyond, params=[a])
    )


def test_barrier_index_out_of_bounds():
    bar = buffer("bar", [2], "uint64", "shared.barrier", arrive_counts=[1, 1])
    refuses(
        errors.BoundsError,
        r"index 2 in dimension 0 of bar",
        kernel(*alloc(bar), _ffi.get("ir.Arrive")(0, load(bar, [2]), None, None, None)),
    )


def test_copy_shapes():
    a, s = buffer("A", [256, 64], "float16"), shared("S", 128, 32)
    loaded = copy(region(a, [128, 64]), region(s))
    refuses(
        errors.ShapeError,
        r"source .*has shape \(128, 64\), but the destination .*has shape \(128, 32\)",
        kernel(*alloc(s), loaded, params=[a]),
    )
    b = buffer("B", [7, 128, 32], "float16")
    check(kernel(*alloc(s), copy(region(b, [1, 128, 32], [3, 0, 0]), region(s)), params=[b]))


@pytest.mark.parametrize(
    ("dim", "dst", "text"),
    [
        (1, (64,), r"over dimension 1 gives a tile of shape \(32\), but .* has shape \(64\)"),
        (2, (32,), "over dimension 2 of X .* of rank 2"),
    ],
)
def test_reduce_shapes(dim, dst, text):
    x, y = fragment("X", 32, 64), fragment("Y", *dst)
    tile = node("Reduce", region(x), region(y), "sum", dim, True, False, None)
    refuses(errors.ShapeError, text, kernel(*alloc(x, y), tile))


def test_reduce_types():
    x, y = fragment("X", 32, 64), fragment("Y", 32)
    tile = node("Reduce", region(x), region(y), "bitand", 1, True, False, None)
    refuses(errors.DTypeError, "bit operations take integers", kernel(*alloc(x, y), tile))


@pytest.mark.parametrize(
    ("a", "b", "c", "transposed", "text"),
    [
        ((64, 32), (16, 48), (64, 48), (False, False), "K is 32 in A and 16 in B"),
        ((64, 32), (32, 48), (32, 48), (False, False), "M is 64 in A and 32 in C"),
        ((64, 32), (32, 48), (64, 40), (False, False), "N is 48 in B and 40 in C"),
        ((64, 32), (32, 48), (64, 48), (True, False), "K is 64 in A and 32 in B"),
        ((64, 32), (32, 48), (64, 48), (False, True), "K is 32 in A and 48 in B"),
        ((64,), (32, 48), (64, 48), (False, False), "A of T.gemm .* not a matrix"),
    ],
)
def test_gemm_shapes(a, b, c, transposed, text):
    func = gemm(shared("A", *a), shared("B", *b), fragment("C", *c), *transposed)
    refuses(errors.ShapeError, text, func)


@pytest.mark.parametrize(
    ("a", "b", "c", "text"),
    [
        ("float16", "bfloat16", "float32", "A is float16 and B is bfloat16"),
        ("bool", "bool", "int32", "A is bool and B is bool"),
        ("int32", "int32", "int16", "C is int16, but a product of int32"),
        ("int64", "int64", "int32", "C is int32, but a product of int64"),
        ("int8", "int8", "float32", "C is float32, but a product of int8"),
        ("bfloat16", "bfloat16", "float16", "C is float16, but a product of bfloat16"),
    ],
)
def test_gemm_types(a, b, c, text):
    tiles = (
        shared("A", 64, 32, dtype=a),
        shared("B", 32, 64, dtype=b),
        fragment("C", 64, 64, dtype=c),
    )
    refuses(errors.DTypeError, text, gemm(*tiles))


@pytest.mark.parametrize(
    ("a", "b", "c"),
    [
        ("float16", "float16", "float16"),
        ("float8_e4m3fn", "float8_e5m2", "float32"),
        ("int8", "uint8", "int32"),
        ("int64", "int64", "int64"),
        ("float32", "float32", "float32"),
        ("float16", "float16", "float64"),
    ],
)
def test_gemm_types_that_pass(a, b, c):
    check(
        gemm(
            shared("A", 64, 32, dtype=a),
            shared("B", 32, 64, dtype=b),
            fragment("C", 64, 64, dtype=c),
        )
    )


def test_gemm_scopes():
    a = buffer("A", [64, 32], "float16")
    b, c = shared("B", 32, 64), fragment("C", 64, 64)
    tile = product(a, b, c, clear=1)
    refuses(
        errors.ScopeError,
        r"T.gemm on A \(float16\[64, 32\] in global memory",
        kernel(*alloc(b, c), tile, params=[a]),
    )


def test_buffer_after_its_block():
    s = shared("S", 8)
    refuses(
        errors.ScopeError,
        "used after the block that allocates it",
        kernel(seq(*alloc(s), store(s, [0])), store(s, [1])),
    )
    refuses(errors.ScopeError, "neither a parameter nor allocated", kernel(store(s, [1])))


def test_variable_after_its_loop():
    i, s = var("i"), shared("S", 8)
    refuses(
        errors.ScopeError,
        "variable i has no value here: the loop",
        kernel(*alloc(s), loop(i, 8, store(s, [i])), store(s, [i])),
    )
    refuses(
        errors.ScopeError,
        "variable i has no value here: it is no parameter",
        kernel(*alloc(s), store(s, [i])),
    )


@pytest.mark.parametrize("inner", ["copy", "fill", "parallel", "alloc", "sync", "break"])
def test_what_may_not_stand_in_a_parallel_loop(inner):
    i, s, r = var("i"), shared("S", 8), shared("R", 8)
    error = errors.ScopeError if inner == "alloc" else errors.SemanticsError
    body = {
        "copy": lambda: copy(region(s), region(r)),
        "fill": lambda: node("Fill", region(s), _ffi.get("ir.Cast")("float16", imm(0), None)),
        "parallel": lambda: parallel([var("j")], [8], store(s, [i])),
        "alloc": lambda: alloc(shared("Q", 4))[0],
        "sync": lambda: _ffi.get("ir.Barrier")(0, 0, None),
        "break": lambda: node("Break"),
    }[inner]()
    refuses(error, "T.Parallel", kernel(*alloc(s, r), parallel([i], [8], seq(body))))


def test_serial_loops_in_a_parallel_loop_may_break():
    i, k, s = var("i"), var("k"), shared("S", 8)
    inner = loop(k, 4, store(s, [i]), node("Break"))
    check(kernel(*alloc(s), parallel([i], [8], inner)))


def test_vectorized_loop_of_unknown_size():
    n, i, a = var("n"), var("i"), buffer("A", [64])
    refuses(
        errors.SemanticsError,
        "T.vectorized takes a constant number of iterations",
        kernel(loop(i, n, store(a, [i]), kind=2), params=[a, n]),
    )


def test_uninitialized_accumulator_is_remarked():
    def remarks(clear_first, clear_accum):
        @T.prim_func
        def main(A: T.Tensor((128, 64), "float16"), B: T.Tensor((64, 128), "float16")):
            with T.Kernel(1, threads=128):
                a = T.alloc_shared((128, 64), "float16")
                b = T.alloc_shared((64, 128), "float16")
                c = T.alloc_fragment((128, 128), "float32")
                if clear_first:
                    T.clear(c)
                T.copy(A, a)
                T.copy(B, b)
                T.gemm(a, b, c, clear_accum=clear_accum)

        return remarks_of("check_program", main)

    (remark,) = remarks(False, False)
    assert "c (float32[128, 128] in a fragment) is read before" in remark.message
    assert remark.span.line > 0
    assert remarks(True, False) == [] and remarks(False, True) == []


def test_errors_name_the_line():
    @T.prim_func
    def main(A: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            s = T.alloc_shared((128,), "float32")
            for i in T.Parallel(128):
                s[i + 8] = A[i]

    with pytest.raises(errors.BoundsError, match=r"index 135 = i \+ 8") as caught:
        check(main)
    assert caught.value.span.file.endswith("test_check_program.py")
