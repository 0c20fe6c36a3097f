"""Scale factors that do not go with their gemm."""

from typing import Any

from wrong_kernels import cases, check

import tilelang
import tilelang.language as T

ATOM = (1, 1, 32, 16)


def scaled(a=(128, 128), kind="float8_e4m3fn", shapes=(ATOM, ATOM), factor=T.float8_e8m0fnu,
           give=("scale_A", "scale_B"), scope=T.alloc_shared, **given: Any):  # fmt: skip
    """Compiles a gemm (M, 128) with these tiles of factors."""

    @T.prim_func
    def main():
        with T.Kernel(1, threads=128):
            x = T.alloc_shared(a, kind)
            y = T.alloc_shared((128, a[1]), kind)
            z = T.alloc_fragment((a[0], 128), "float32")
            factors = [scope(shape, factor) for shape in shapes]
            scales = dict(zip(give, factors, strict=False))
            T.clear(z)
            T.gemm(x, y, z, transpose_B=True, **scales, **given)  # WRONG

    tilelang.compile(main, target="sm_100a")


def case_one_tile():
    """SemanticsError: T.gemm: scale_B is missing; both matrices have scale factors"""
    scaled(give=("scale_A",))


def case_matrices_of_halves():
    """DTypeError: T.gemm with scale factors of A float16 and B float16 into C float32 ...
    A and B are float8_e4m3fn or float8_e5m2
    """
    scaled(kind="float16")


def case_float4_of_a_larger_type():
    """DTypeError: T.gemm with scale factors of A float16 and B float16 into C float32 ...
    both float4_e2m1fn in tiles of T.alloc_shared(..., packed=True)
    """
    scaled(kind=T.float4_e2m1fn)


def case_float4_and_float8():
    """DTypeError: T.gemm with scale factors of A float4_e2m1fn and B float8_e4m3fn into C"""
    packed(others=lambda shape: T.alloc_shared(shape, "float8_e4m3fn"))


def case_float4_along_its_rows():
    """SemanticsError: B of T.gemm is packed float4_e2m1fn, whose last dimension is K; this one's"""
    packed(transpose_B=False)


def case_float4_without_factors():
    """DTypeError: A of T.gemm is x: float4_e2m1fn[128, 128] (shared.dyn), two elements in a byte"""
    packed(factors=())


def case_integers_with_factors():
    """DTypeError: A of T.gemm is x: int4[128, 128] (shared.dyn), two elements in a byte"""
    packed(kind=T.int4)


def case_half_an_instruction_of_float4():
    """ShapeError: T.gemm with scale factors: K = 32 is no multiple of 64"""
    packed(k=32)


def case_factors_of_two_types():
    """DTypeError: T.gemm: scale_A has factors of blocks of 16, scale_B of 32"""
    packed(factors=(T.float8_e4m3fn, T.float8_e8m0fnu))


def packed(kind=T.float4_e2m1fn, k=128, factors=(T.float8_e4m3fn,) * 2, transpose_B=True,
           others=lambda shape: T.alloc_shared(shape, T.float4_e2m1fn, packed=True)):  # fmt: skip
    """Compiles a gemm (128, k) of packed tiles with factors in rows."""

    @T.prim_func
    def main():
        with T.Kernel(1, threads=128):
            x = T.alloc_shared((128, k), kind, packed=True)
            y = others((128, k))
            z = T.alloc_fragment((128, 128), "float32")
            blocks = {T.float8_e4m3fn: k // 16, T.float8_e8m0fnu: k // 32}
            scales = {
                name: T.alloc_shared((128, blocks[each]), each)
                for name, each in zip(("scale_A", "scale_B"), factors, strict=False)
            }
            T.clear(z)
            T.gemm(x, y, z, transpose_B=transpose_B, **scales)  # WRONG

    tilelang.compile(main, target="sm_100a")


def case_bytes_in_halves():
    """ShapeError: T.alloc_shared((128, 63)) of T.float4_e2m1fn: its last extent is odd"""
    allocated((128, 63), T.float4_e2m1fn)


def case_bytes_that_are_packed():
    """DTypeError: T.alloc_shared(..., int8, packed=True): types of 4 bits are packed"""
    allocated((128, 64), "int8")


def allocated(shape, kind):
    @T.prim_func
    def main():
        with T.Kernel(1, threads=128):
            T.alloc_shared(shape, kind, packed=True)  # WRONG

    tilelang.compile(main, target="sm_100a")


def case_factors_of_floats():
    """DTypeError: scale_A of T.gemm is float32; factors are float8_e8m0fnu"""
    scaled(factor="float32")


def case_factors_in_registers():
    """DTypeError: scale_A of T.gemm is float8_e8m0fnu in local.fragment; factors are"""
    scaled(scope=T.alloc_fragment)


def case_factors_of_a_larger_tile():
    """ShapeError: scale_B of T.gemm has shape (1, 2, 32, 16); 128 columns of B by 4 blocks ...
    are (128, 4), or 1 by 1 atoms: (1, 1, 32, 16)
    """
    scaled(shapes=(ATOM, (1, 2, 32, 16)))


def case_factors_in_rows():
    """ShapeError: scale_A of T.gemm has shape (128, 3); 128 rows of A by 4 blocks of 32 along K"""
    scaled(shapes=((128, 3), (128, 3)))


def case_half_an_atom_of_blocks():
    """ShapeError: scale_A of T.gemm is in atoms: K = 64 is no multiple of 128 ...
    T.copy fills what a larger tile has beyond its tensor with zeros
    """
    scaled(a=(128, 64))


def case_half_an_atom_of_rows():
    """ShapeError: T.gemm with scale factors: M = 64 is no multiple of 128"""
    scaled(a=(64, 128))


def case_promotion():
    """UnsupportedError: T.gemm does not support promote_every together with scale factors"""
    scaled(promote_every=32)


@cases(globals())
def test_message(case) -> None:
    check(case)
