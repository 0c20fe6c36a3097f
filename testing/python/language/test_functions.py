"""Functions of the language and the IR they make."""

import numpy as np
import pytest

import tilelang.language as T
from tilelang import errors
from tilelang.ir import dtype_of
from tilelang.ir.expr import var

X, Y = var("x", T.float32), var("y", T.float32)
H, N, U = var("h", T.float16), var("i", T.int32), var("u", T.uint32)
B = var("b", T.bool)

UNARY = """
    exp exp2 exp10 expm1 log log2 log10 log1p sqrt rsqrt cbrt sin cos tan sinh cosh tanh asin acos
    atan asinh acosh atanh erf erfc sigmoid __exp __exp2 __exp10 __log __log2 __log10 __sin __cos
    __tan __tanh __sqrt __rsqrt
"""


@pytest.mark.parametrize("name", UNARY.split())
def test_unary_functions(name):
    function = getattr(T, name)
    for value, dtype, text in [
        (X, "float32", "x"),
        (H, "float16", "h"),
        (N, "float32", "float32(i)"),
    ]:
        if value is N and name.startswith("__"):
            with pytest.raises(errors.DTypeError, match="only supports floating-point inputs"):
                function(value)
            continue
        result = function(value)
        assert result.dtype == dtype and str(result) == f"{name}({text})"
    assert function(2.0).dtype == "float32"


@pytest.mark.parametrize(
    ("expr", "dtype", "text"),
    [
        (T.floor(X), "float32", "floor(x)"),
        (T.ceil(N), "int32", "i"),
        (T.trunc(H), "float16", "trunc(h)"),
        (T.round(X), "float32", "nearbyint(x)"),
        (T.round(X, "ties-away"), "float32", "round(x)"),
        (T.abs(N), "int32", "abs(i)"),
        (T.abs(U), "uint32", "u"),
        (T.fabs(N), "float32", "abs(float32(i))"),
        (T.pow(X, Y), "float32", "pow(x, y)"),
        (X**2, "float32", "x * x"),
        (2.0**X, "float32", "pow(float32(2), x)"),
        (X**0.5, "float32", "pow(x, float32(0.5))"),
        (T.fma(X, H, 1), "float32", "fma(x, float32(h), float32(1))"),
        (T.atan2(X, 2), "float32", "atan2(x, float32(2))"),
        (T.fmod(N, 3), "float32", "fmod(float32(i), float32(3))"),
        (T.ldexp(X, N), "float32", "ldexp(x, i)"),
        (T.isnan(H), "bool", "isnan(h)"),
        (T.popcount(U), "int32", "popcount(u)"),
        (T.clz(T.int8(3)), "int32", "clz(3)"),
        (T.fast_rcp(X), "float32", "__rcp(x)"),
        (T.ieee_add(X, Y), "float32", 'ieee_add(x, y, "rn")'),
        (T.ieee_frcp(X, "rz"), "float32", 'ieee_frcp(x, "rz")'),
        (T.ieee_fdiv(X, Y, rounding_mode="ru"), "float32", 'ieee_fdiv(x, y, "ru")'),
        (T.max(X, 0), "float32", "max(x, float32(0))"),
        (T.min(N, U), "uint32", "min(uint32(i), u)"),
        (T.clamp(N, 0, 7), "int32", "min(max(i, 0), 7)"),
        (T.if_then_else(N > 0, X, 0), "float32", "select(i > 0, x, float32(0))"),
        (T.Select(N, H, X), "float32", "select(i != 0, float32(h), x)"),
        (T.if_then_else(True, X, H), "float32", "x"),
        (T.reinterpret(X, "int32"), "int32", "reinterpret<int32>(x)"),
        (T.reinterpret("uint16", H), "uint16", "reinterpret<uint16>(h)"),
        (T.cast(X, "bfloat16"), "bfloat16", "bfloat16(x)"),
        (T.Cast("int8", X), "int8", "int8(x)"),
        (T.float16(X), "float16", "float16(x)"),
        (X.astype("float64"), "float64", "float64(x)"),
        (~N, "int32", "~i"),
        (-H, "float16", "-h"),
        (N << 2, "int32", "i << 2"),
        (1 << N, "int32", "1 << i"),
        (U >> N, "uint32", "u >> uint32(i)"),
        (N & 7 | 8, "int32", "i & 7 | 8"),
        ((N > 0) & (X < 1), "bool", "(i > 0) & (x < float32(1))"),
        (N // 4 % 3, "int32", "i // 4 % 3"),
        (N / 4, "float32", "float32(i) / float32(4)"),
        (B + 1, "int32", "int32(b) + 1"),
        (np.float32(0.5) * X, "float32", "float32(0.5) * x"),
        (T.ceildiv(N, 128), "int32", "(i + 127) // 128"),
        (T.truncdiv(N, 4), "int32", None),
    ],
)
def test_expressions(expr, dtype, text):
    assert expr.dtype == dtype
    if text is not None:
        assert str(expr) == text


def body_of(func):
    return [line.strip() for line in str(func).splitlines()[2:]]


def test_effects():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), C: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=256):
            bars = T.alloc_barrier([1, 128])
            T.atomic_add(A[0], 1)
            T.atomic_max(C[1], 2, memory_order="acq_rel")
            T.atomic_or(C[2], 4)
            T.atomic_store(C[3], 5)
            T.atomic_addx2(A[2], A[4])
            T.sync_threads()
            T.sync_threads(2, 64)
            T.sync_warp()
            T.mbarrier_arrive(bars[1])
            T.mbarrier_arrive_expect_tx(bars[0], 2048)
            T.barrier_wait(bars[0], 1)
            T.fence_proxy_async()
            T.tcgen05_mma_arrive(bars[0])
            T.inc_max_nreg(240)
            T.device_assert(C[0] > 0, "positive")
            T.assume(C[1] > 0)

    assert body_of(main)[1:] == [
        "atomic_add(address_of(A[0]), float32(1))",
        "atomic_max(address_of(C[1]), 2)",
        "atomic_or(address_of(C[2]), 4)",
        "atomic_store(address_of(C[3]), 5)",
        "atomic_addx2(address_of(A[2]), A[4], A[5])",
        "sync_threads()",
        "sync_threads(2, 64)",
        "sync_warp()",
        "mbarrier_arrive(bars[1])",
        "mbarrier_arrive_expect_tx(bars[0], uint32(2048))",
        "mbarrier_wait_parity(bars[0], uint32(1))",
        "fence_proxy_async()",
        "tcgen05_mma_arrive(bars[0])",
        "set_max_nreg(240, 1)",
        'assert C[0] > 0, "positive"',
        "assume C[1] > 0",
    ]
    order = main.body.body.stmts[2].value.attrs["memory_order"]
    assert order == "acq_rel"


def test_values_taken_once():
    """An operation with an effect whose value is used twice happens once."""

    @T.prim_func
    def main(C: T.Tensor((64,), "int32")):
        with T.Kernel(1):
            C[1] = T.atomic_add(C[0], 1, return_prev=True) * 2
            seen = T.atomic_load(C[0])
            C[2] = seen + seen
            total = T.syncthreads_count(C[3] > 0)
            C[4] = total + total

    assert body_of(main) == [
        "prev: int32 = atomic_add(address_of(C[0]), 1)",
        "C[1] = prev * 2",
        "seen: int32 = atomic_load(address_of(C[0]))",
        "C[2] = seen + seen",
        "total: int32 = syncthreads_count(int32(C[3] > 0))",
        "C[4] = total + total",
    ]


def test_threads_and_lanes():
    @T.prim_func
    def main(C: T.Tensor((64,), "int32")):
        with T.Kernel(3, 5, threads=(64, 4)) as (bx, by):
            C[0] = T.get_thread_binding(1) + T.get_block_binding(1) + T.get_thread_binding(2)
            C[1] = T.get_lane_idx()
            C[2] = T.get_warp_group_idx() + T.get_thread_extent(1) + T.get_block_extent()
            C[3] = T.shfl_xor(C[4], 16) + T.warp_reduce_sum(C[5])
            C[6] = T.if_then_else(T.shuffle_elect(128), 1, 0) + bx + by

    assert body_of(main) == [
        "C[0] = ty + by",
        "C[1] = (ty * 64 + tx) % 32",
        "C[2] = (ty * 64 + tx) // 128 + 4 + 3",
        "C[3] = shfl_xor(C[4], 16, 32) + warp_reduce_sum(C[5])",
        "C[6] = select((ty * 64 + tx) % 128 == 0, 1, 0) + bx + by",
    ]


@pytest.mark.parametrize("dtype", ["int8", "uint16", "float32", "bfloat16", "bool", "int64"])
def test_print_formats(dtype):
    formats = {"int8": "%d", "uint16": "%u", "bool": "%d", "int64": "%lld"}

    @T.prim_func
    def main(A: T.Tensor((4,), dtype)):
        with T.Kernel(1, threads=32):
            T.print(A[0], msg="100% of")

    text = formats.get(dtype, "%f")
    assert f'print("thread (%d): 100%% of = {text}\\n", tx, ' in body_of(main)[0]
    assert dtype_of(dtype) == dtype


def test_parameters_declared_in_the_body():
    M = T.dynamic("M")

    @T.prim_func
    def scale(A, B, factor):
        dtype = "float32"
        A: T.Tensor((M, 8), dtype)
        B: T.Tensor[[M, 8], dtype]
        factor: T.float32
        with T.Kernel(M, threads=32) as i:
            for j in T.Parallel(8):
                B[i, j] = A[i, j] * factor

    @T.prim_func
    def expected(A: T.Tensor((M, 8), "float32"), B: T.Tensor((M, 8), "float32"), factor: T.float32):
        with T.Kernel(M, threads=32) as i:
            for j in T.Parallel(8):
                B[i, j] = A[i, j] * factor

    assert str(scale).split("\n")[1:] == str(expected).split("\n")[1:]
    assert [str(param.name) for param in scale.params] == ["A", "B", "factor"]


def test_a_tensor_of_a_shape_alone_is_of_float32():
    M = T.dynamic("M")
    for declared in (T.Tensor[(M,)], T.Tensor[[M, 8]]):
        assert str(declared.dtype) == "float32"
        assert len(declared.shape) in (1, 2)


def test_a_parameter_that_the_body_leaves_undeclared():
    with pytest.raises(errors.SemanticsError, match="parameter B of main was not declared"):

        @T.prim_func
        def main(A, B):
            A: T.Tensor((8,), "float32")
            if A.shape[0] > 8:
                B: T.Tensor((8,), "float32")
            with T.Kernel(1, threads=32):
                A[0] = 1
