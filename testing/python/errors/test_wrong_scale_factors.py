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
    """SemanticsError: B of T.gemm is packed float4_e2m1fn: K must be its last dimension"""
    packed(transpose_B=False)


def case_float4_without_factors():
    """DTypeError: A of T.gemm is x (float4_e2m1fn[128, 128] in shared memory), two elements in a
    byte
    """
    packed(factors=())


def case_integers_with_factors():
    """DTypeError: A of T.gemm is x (int4[128, 128] in shared memory), two elements in a byte"""
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
    """ShapeError: the last extent of T.alloc_shared((128, 63)) of T.float4_e2m1fn must be a
    multiple of 2: 2 elements of 4 bits share a byte
    """
    allocated((128, 63), T.float4_e2m1fn)


def case_bytes_that_are_packed():
    """DTypeError: T.alloc_shared(..., int8, packed=True): only types of 4 bits can be packed"""
    allocated((128, 64), "int8")


def case_six_bits_that_are_packed():
    """DTypeError: T.alloc_shared(..., float6_e3m2fn, packed=True): only types of 4 bits can be
    packed ...
    T.float6_e3m2fn takes padded=True
    """
    allocated((128, 64), T.float6_e3m2fn)


def case_bytes_that_are_padded():
    """DTypeError: T.alloc_shared(..., int4, padded=True): only types of 4 or 6 bits can be padded
    ...
    these types are T.float6_e2m3fn and T.float6_e3m2fn and T.float4_e2m1fn
    """
    allocated((128, 64), T.int4, padded=True)


def case_both_packed_and_padded():
    """DTypeError: T.alloc_shared(..., float4_e2m1fn, padded=True): only types of 4 or 6 bits can
    be
    """
    allocated((128, 64), T.float4_e2m1fn, padded=True, packed=True)


def case_half_a_unit_of_16_elements():
    """ShapeError: T.alloc_shared((128, 72)) of T.float6_e3m2fn: the last extent must be a multiple
    of 16, because a padded tile stores 16 elements in each 16 bytes
    """
    allocated((128, 72), T.float6_e3m2fn, padded=True)


def case_three_bytes_in_parts():
    """ShapeError: the last extent of A: float6_e2m3fn[4, 62] must be a multiple of 4: 4 ...
    elements of 6 bits share 3 bytes
    """

    @T.prim_func
    def main(A: T.Tensor((4, 62), T.float6_e2m3fn)):  # WRONG
        with T.Kernel(1):
            T.clear(A)


def case_an_element_of_three_bytes():
    """UnsupportedError: 4 elements of A (float6_e2m3fn[4, 64] in global memory) share 3 of memory,
    which ... T.copy it
    """

    @T.prim_func
    def main(A: T.Tensor((4, 64), T.float6_e2m3fn)):
        with T.Kernel(1, threads=32):
            A[0, T.get_thread_binding()] = 1  # WRONG


def case_padded_beside_packed():
    """DTypeError: T.gemm with scale factors of A float4_e2m1fn and B float6_e3m2fn into C ...
    tiles of T.alloc_shared(..., padded=True)
    """
    packed(others=lambda shape: T.alloc_shared(shape, T.float6_e3m2fn, padded=True))


def case_six_bits_of_a_larger_type():
    """DTypeError: T.gemm with scale factors of A float16 and B float16 into C float32 ...
    beside float8 or each other float6_e2m3fn, float6_e3m2fn and float4_e2m1fn are in tiles of
    """
    scaled(kind=T.float6_e3m2fn)


def six_bits(transpose_B=True, **given: Any):
    @T.prim_func
    def main():
        with T.Kernel(1, threads=128):
            x = T.alloc_shared((128, 128), T.float6_e3m2fn, padded=True)
            y = T.alloc_shared((128, 128), T.float6_e3m2fn, padded=True)
            z = T.alloc_fragment((128, 128), "float32")
            T.clear(z)
            T.gemm(x, y, z, transpose_B=transpose_B, **given)  # WRONG

    tilelang.compile(main, target="sm_100a")


def case_six_bits_promoted():
    """UnsupportedError: T.gemm does not support padded tiles with promote_every"""
    six_bits(promote_every=32)


def six_bits_into(c=T.float32, others=None, threads=128, m=128):
    @T.prim_func
    def main():
        with T.Kernel(1, threads=threads):
            x = T.alloc_shared((m, 128), T.float6_e3m2fn, padded=True)
            y = x if others is None else T.alloc_shared((m, 128), others)
            z = T.alloc_fragment((m, m), c)
            T.clear(z)
            T.gemm(x, y, z, transpose_B=True)  # WRONG

    options = {"tl.disable_block_fitting": True}  # keeps the threads
    tilelang.compile(main, target="sm_100a", pass_configs=options)


def case_six_bits_into_halves():
    """DTypeError: T.gemm with padded tiles of A float6_e3m2fn and B float6_e3m2fn into C float16"""
    six_bits_into(T.float16)


def case_six_bits_beside_halves():
    """DTypeError: T.gemm with padded tiles of A float6_e3m2fn and B float16 into C float32"""
    six_bits_into(others=T.float16)


def case_six_bits_beside_bytes():
    """DTypeError: T.gemm with padded tiles of A float6_e3m2fn and B uint8 into C float32"""
    six_bits_into(others=T.uint8)


def case_six_bits_of_few_threads():
    """ShapeError: T.gemm of padded tiles: its 192 threads are not whole warpgroups of 128"""
    six_bits_into(threads=192)


def case_six_bits_of_few_rows():
    """ShapeError: T.gemm of padded tiles: tcgen05.mma needs at least 64 rows"""
    six_bits_into(m=32)


def case_six_bits_by_wgmma():
    """UnsupportedError: T.wgmma_gemm does not support padded tiles"""

    @T.prim_func
    def main():
        with T.Kernel(1, threads=128):
            x = T.alloc_shared((128, 128), T.float6_e3m2fn, padded=True)
            z = T.alloc_fragment((128, 128), T.float32)
            T.wgmma_gemm(x, x, z, transpose_B=True)  # WRONG

    tilelang.compile(main, target="sm_90a")


def in_tensor_memory(fill, kind=T.float4_e2m1fn, shape=(128, 128)):
    @T.prim_func
    def main():
        with T.Kernel(1, threads=128):
            fill(T.alloc_tmem(shape, kind, packed=True), T.alloc_fragment(shape, T.float32))

    tilelang.compile(main, target="sm_100a")


def case_packed_in_tensor_memory_by_threads():
    """UnsupportedError: threads cannot write single elements of buf (float4_e2m1fn[128, 128]
    in tensor memory): they share columns of tensor memory ...
    T.copy the values to a T.alloc_shared(..., packed=True) tile, then T.copy it
    """
    in_tensor_memory(lambda tile, values: T.copy(values, tile))


def case_packed_in_tensor_memory_cleared():
    """UnsupportedError: threads cannot write single elements"""
    in_tensor_memory(lambda tile, values: T.clear(tile))


def case_halves_packed_in_tensor_memory():
    """DTypeError: T.alloc_tmem(..., float16, packed=True): only float4_e2m1fn can be packed"""
    in_tensor_memory(T.clear, T.float16)


def case_half_a_byte_in_tensor_memory():
    """ShapeError: the last extent of T.alloc_tmem((128, 63)) of T.float4_e2m1fn must be a
    multiple
    """
    in_tensor_memory(T.clear, shape=(128, 63))


def case_six_bits_along_their_rows():
    """SemanticsError: B of T.gemm is padded float6_e3m2fn: K must be its last dimension"""
    six_bits(transpose_B=False, scale_A=0, scale_B=0)


def allocated(shape, kind, **how: Any):
    @T.prim_func
    def main():
        with T.Kernel(1, threads=128):
            T.alloc_shared(shape, kind, **(how or {"packed": True}))  # WRONG

    tilelang.compile(main, target="sm_100a")


def case_factors_of_floats():
    """DTypeError: scale_A of T.gemm is float32; factors are float8_e8m0fnu"""
    scaled(factor="float32")


def case_factors_in_registers():
    """DTypeError: scale_A of T.gemm is float8_e8m0fnu in a fragment; factors are"""
    scaled(scope=T.alloc_fragment)


def case_factors_of_a_larger_tile():
    """ShapeError: scale_B of T.gemm has shape (1, 2, 32, 16), but there are 128 columns of B and 4
    blocks ... the shape must be (128, 4), or (1, 1, 32, 16) in atoms
    """
    scaled(shapes=(ATOM, (1, 2, 32, 16)))


def case_factors_in_rows():
    """ShapeError: scale_A of T.gemm has shape (128, 3), but there are 128 rows of A and 4 blocks of
    32
    """
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
