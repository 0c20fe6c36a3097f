"""T.gemm on sm_100a with operands of either major-ness: every kind, in tiles of every width.

The width of a row decides the swizzle (128, 64, 32 bytes or none; for 32-bit elements with M or N
contiguous, 128 bytes of 32-byte chunks), the fill whether threads or tensor copies write it.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass

import pytest
import torch
from sm100_kernels import ACCUMULATOR, check_product, compile_sm100, poisoned, random_values

import tilelang
import tilelang.language as T
from tilelang import errors
from tilelang.layout import make_swizzled_layout

KINDS = ("float16", "float32", "float8_e4m3fn", "int8", "bfloat16", "float8_e5m2", "uint8")
#: As the ones of their width before them, so that a few tiles suffice.
LIKE_OTHERS = ("bfloat16", "float8_e5m2", "uint8")
BYTES = {"float16": 2, "bfloat16": 2, "float32": 4}
MAJORNESS = list(itertools.product([False, True], repeat=2))


@dataclass(frozen=True)
class Tile:
    """C (m, n) = A @ B in one tile; ``tma_a`` and ``tma_b`` say who fills shared memory."""

    kind: str
    m: int
    n: int
    k: int
    trans_a: bool
    trans_b: bool
    tma_a: bool = True
    tma_b: bool = True

    def build(self):
        kind, trans_a, trans_b = self.kind, self.trans_a, self.trans_b
        a_shape = (self.k, self.m) if trans_a else (self.m, self.k)
        b_shape = (self.n, self.k) if trans_b else (self.k, self.n)
        c_shape, c_type = (self.m, self.n), ACCUMULATOR.get(kind, "float32")
        # C leaves in two parts, for which a thread has at most 128 registers.
        n, half = self.n, max(8, self.n // 16 * 8)
        threads = 128 if self.m * (n - half) <= 128 * 128 else 256
        tma_a, tma_b = self.tma_a, self.tma_b

        @T.prim_func
        def tile(
            A: T.Tensor(a_shape, kind), B: T.Tensor(b_shape, kind), C: T.Tensor(c_shape, c_type)
        ):
            with T.Kernel(1, threads=threads):
                a = T.alloc_shared(a_shape, kind)
                b = T.alloc_shared(b_shape, kind)
                c = T.alloc_tmem(c_shape, c_type)
                T.copy(A, a, disable_tma=not tma_a)
                T.copy(B, b, disable_tma=not tma_b)
                T.gemm(a, b, c, trans_a, trans_b, clear_accum=True)
                T.copy(c[:, 0:half], C[:, 0:half])
                if half < n:
                    T.copy(c[:, half:n], C[:, half:n])

        return tile

    def run(self):
        """Compiles, compares with float64, returns the kernel."""
        kernel = compile_sm100(self.build())
        a = random_values(*((self.k, self.m) if self.trans_a else (self.m, self.k)), self.kind)
        b = random_values(*((self.n, self.k) if self.trans_b else (self.k, self.n)), self.kind)
        c = poisoned(self.m, self.n, ACCUMULATOR.get(self.kind, "float32"))
        kernel(a, b, c)
        check_product(c, a.T if self.trans_a else a, b.T if self.trans_b else b)
        return kernel


def is_legal(kind: str, n: int, trans_b: bool) -> bool:
    """PTX ISA, matrix shapes of tcgen05.mma; other multiples of 8 are made of several."""
    return n % (16 if BYTES.get(kind, 1) == 1 and not trans_b else 8) == 0


def tiles(kind: str, trans_a: bool, trans_b: bool) -> list[Tile]:
    """Every second N up to 256, with transpose_A the others; M, K and fills are dealt to them."""
    deal = random.Random(f"{kind} {trans_a} {trans_b}")
    widths = [n for n in range(8, 257, 8) if is_legal(kind, n, trans_b)]
    widths = [n for n in widths if n <= 128 or n % 40 == 0 or n >= 240][trans_a::2]
    if kind in LIKE_OTHERS:
        widths = deal.sample(widths, 3)
    step = 32 // BYTES.get(kind, 1)

    def dealt(values):
        pack = (list(values) * len(widths))[: len(widths)]
        deal.shuffle(pack)
        return pack

    heights = dealt([64, 128, 256])
    depths = dealt([step * i for i in (1, 2, 3, 4, 5, 8)])
    fills = dealt(MAJORNESS)
    return [
        Tile(kind, m if n <= 248 or m < 256 else 128, n, k, trans_a, trans_b, *fill)
        for n, m, k, fill in zip(widths, heights, depths, fills, strict=True)
    ]


@pytest.mark.parametrize(("trans_a", "trans_b"), MAJORNESS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_width(kind, trans_a, trans_b):
    for tile in tiles(kind, trans_a, trans_b):
        try:
            tile.run()
        except Exception as error:
            raise AssertionError(f"{tile}: {error}") from error


@pytest.mark.parametrize("m", [64, 128, 256])
@pytest.mark.parametrize("k", [8, 24, 40, 64])
@pytest.mark.parametrize(("trans_a", "trans_b"), [(True, True), (False, False), (True, False)])
def test_tf32(trans_a, trans_b, k, m):
    Tile("float32", m, 96, k, trans_a, trans_b).run()


@pytest.mark.parametrize("kind", ["float16", "float32", "float8_e4m3fn", "int8"])
@pytest.mark.parametrize("n", [264, 288, 320, 400, 512])
@pytest.mark.parametrize("trans_b", [True, False])
def test_more_columns_than_an_instruction(kind, n, trans_b):
    """Instructions begin where the swizzle does, whatever their widths."""
    step = 32 // BYTES.get(kind, 1)
    if is_legal(kind, n, trans_b):
        Tile(kind, 128, n, step, False, trans_b).run()
    else:
        with pytest.raises(errors.ShapeError, match="N must be a multiple of 16"):
            compile_sm100(Tile(kind, 128, n, step, False, trans_b).build())


def swizzles(kernel) -> list[int]:
    """CUtensorMapSwizzle of the maps of A and B."""
    (launch,) = kernel.spec.launches
    maps = [arg for arg in launch.args if hasattr(arg, "swizzle")]
    return [int(m.swizzle) for m in maps if str(m.buffer.name) in "AB"]


NONE, BY_32, BY_64, BY_128, BY_128_OF_32 = range(5)


@pytest.mark.parametrize(
    ("kind", "trans", "m", "n", "k", "expected"),
    [
        ("float32", "nt", 128, 64, 32, [BY_128, BY_128]),
        ("float32", "nt", 128, 64, 16, [BY_64, BY_64]),
        ("float32", "nt", 128, 64, 8, [BY_32, BY_32]),
        ("float32", "tn", 128, 64, 8, [BY_128_OF_32, BY_128_OF_32]),
        ("float32", "tt", 64, 64, 32, [BY_128_OF_32, BY_128]),
        ("float32", "nn", 64, 96, 32, [BY_128, BY_128_OF_32]),
        ("float32", "nn", 64, 40, 32, [BY_128, BY_128_OF_32]),  # rows of B get 256 bytes
        ("float16", "tn", 128, 32, 32, [BY_128, BY_64]),
        ("float16", "tn", 64, 16, 32, [BY_128, BY_32]),
        ("int8", "tn", 64, 32, 32, [BY_64, BY_32]),
        ("float8_e5m2", "tn", 128, 64, 64, [BY_128, BY_64]),
    ],
)
def test_tensor_maps(kind, trans, m, n, k, expected):
    kernel = Tile(kind, m, n, k, trans[0] == "t", trans[1] == "t").run()
    assert swizzles(kernel) == expected


@pytest.mark.parametrize("kind", ["float16", "float32", "float8_e4m3fn"])
@pytest.mark.parametrize("steps", [1, 2])
def test_k_slices_of_a_loop(kind, steps):
    """Rows of K are sliced at offsets known only when the kernel runs."""
    step = steps * 32 // BYTES.get(kind, 1)
    depth = 4 * step

    @T.prim_func
    def kernel(
        A: T.Tensor((depth, 128), kind),
        B: T.Tensor((depth, 96), kind),
        C: T.Tensor((128, 96), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((depth, 128), kind)
            b = T.alloc_shared((depth, 96), kind)
            c = T.alloc_fragment((128, 96), "float32")
            T.clear(c)
            T.copy(A, a)
            T.copy(B, b)
            for i in T.serial(4):
                j = 3 - i
                T.gemm(a[i * step : i * step + step, :], b[j * step : j * step + step, :], c, True)
            T.copy(c, C)

    a, b = random_values(depth, 128, kind), random_values(depth, 96, kind)
    c = poisoned(128, 96, "float32")
    compile_sm100(kernel)(a, b, c)
    blocks = b.view(torch.uint8).view(4, -1).flip(0).reshape(depth, -1).view(b.dtype)
    check_product(c, a.T, blocks)


@pytest.mark.parametrize(("kind", "atom"), [("float16", 64), ("float32", 32), ("int8", 128)])
def test_slices_of_m_and_n(kind, atom):
    """Stages, and columns that begin with a swizzle atom."""
    c_type = ACCUMULATOR.get(kind, "float32")
    m = max(64, atom)

    @T.prim_func
    def kernel(
        A: T.Tensor((2, 64, 2 * m), kind),
        B: T.Tensor((2, 64, 2 * atom), kind),
        C: T.Tensor((m, atom), c_type),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((2, 64, 2 * m), kind)
            b = T.alloc_shared((2, 64, 2 * atom), kind)
            c = T.alloc_tmem((m, atom), c_type)
            T.copy(A, a)
            T.copy(B, b)
            for i in T.serial(2):
                T.gemm(
                    a[i, :, m : 2 * m], b[1 - i, :, atom : 2 * atom], c, True, clear_accum=(i == 0)
                )
            T.copy(c, C)

    a = random_values(128, 2 * m, kind).view(2, 64, 2 * m)
    b = random_values(128, 2 * atom, kind).view(2, 64, 2 * atom)
    c = poisoned(m, atom, c_type)
    compile_sm100(kernel)(a, b, c)
    left = a[:, :, m:].reshape(128, m)
    right = b.flip(0)[:, :, atom:].reshape(128, atom)
    check_product(c, left.T, right)


SEVERAL_SWIZZLES = [(k, m) for k in ("bfloat16", "int8") for m in (True, False)]


@pytest.mark.parametrize("swizzle", [16, 32, 64, 128])
@pytest.mark.parametrize(("kind", "k_major"), [*SEVERAL_SWIZZLES, ("float32", True)])
def test_annotated_swizzles(kind, k_major, swizzle):
    """Narrower swizzles than the compiler would choose, several atoms wide."""
    depth = 128 // BYTES.get(kind, 1) if k_major else 64
    shape, c_type = (128, depth) if k_major else (depth, 128), ACCUMULATOR.get(kind, "float32")

    @T.prim_func
    def kernel(A: T.Tensor(shape, kind), B: T.Tensor(shape, kind), C: T.Tensor((128, 128), c_type)):
        with T.Kernel(1, threads=256):
            a = T.alloc_shared(shape, kind)
            b = T.alloc_shared(shape, kind)
            c = T.alloc_tmem((128, 128), c_type)
            T.annotate_layout({t: make_swizzled_layout(t, swizzle_bytes=swizzle) for t in (a, b)})
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, not k_major, k_major, clear_accum=True)
            T.copy(c, C)

    a, b = random_values(*shape, kind), random_values(*shape, kind)
    c = poisoned(128, 128, c_type)
    compile_sm100(kernel)(a, b, c)
    check_product(c, a if k_major else a.T, b.T if k_major else b)


@pytest.mark.parametrize("n", [96, 40])
def test_threads_and_tensor_copies_share_an_operand(n):
    """A is computed by threads and stored by a tensor copy, B loaded by one and read by threads;
    with 40 columns the rows of B are padded."""

    @T.prim_func
    def kernel(
        A: T.Tensor((64, 128), "float32"),
        B: T.Tensor((64, n), "float32"),
        C: T.Tensor((128, n), "float32"),
        A2: T.Tensor((64, 128), "float32"),
        B2: T.Tensor((64, n), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 128), "float32")
            b = T.alloc_shared((64, n), "float32")
            c = T.alloc_tmem((128, n), "float32")
            for i, j in T.Parallel(64, 128):
                a[i, j] = A[i, j] * 2.0
            T.copy(B, b)
            T.gemm(a, b, c, True, clear_accum=True)
            T.copy(c, C)
            T.copy(a, A2)
            for i, j in T.Parallel(64, n):
                B2[i, j] = b[i, j] * 3.0

    a, b = random_values(64, 128, "float32"), random_values(64, n, "float32")
    c, a2, b2 = (poisoned(rows, columns, "float32") for rows, columns in
                 ((128, n), (64, 128), (64, n)))  # fmt: skip
    compile_sm100(kernel)(a, b, c, a2, b2)
    check_product(c, 2 * a.T, b)
    assert torch.equal(a2, 2 * a)
    assert torch.equal(b2, 3 * b)


@pytest.mark.parametrize(("target", "expected"), [("sm_90a", []), ("sm_100a", [BY_128_OF_32])])
def test_swizzles_of_32_byte_chunks_are_for_blackwell(target, expected):
    """The driver refuses such tensor maps on Hopper: there, threads fill the tile."""

    @T.prim_func
    def transpose(A: T.Tensor((64, 128), "float32"), C: T.Tensor((128, 64), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 128), "float32")
            T.annotate_layout({a: make_swizzled_layout(a, k_major=False)})
            T.copy(A, a)
            for i, j in T.Parallel(128, 64):
                C[i, j] = a[j, i]

    kernel = tilelang.compile(transpose, target=target)
    assert swizzles(kernel) == expected
    a, c = random_values(64, 128, "float32"), poisoned(128, 64, "float32")
    kernel(a, c)
    assert torch.equal(c, a.T)


def test_operands_of_two_products():
    """S = Q K^T, O = S V in tf32: V has N contiguous, S is in tensor memory."""

    @T.prim_func
    def kernel(
        Q: T.Tensor((128, 32), "float32"),
        K: T.Tensor((64, 32), "float32"),
        V: T.Tensor((64, 48), "float32"),
        Out: T.Tensor((128, 48), "float32"),
    ):
        with T.Kernel(1, threads=128):
            q = T.alloc_shared((128, 32), "float32")
            k = T.alloc_shared((64, 32), "float32")
            v = T.alloc_shared((64, 48), "float32")
            s = T.alloc_fragment((128, 64), "float32")
            o = T.alloc_fragment((128, 48), "float32")
            T.copy(Q, q)
            T.copy(K, k)
            T.copy(V, v)
            T.clear(s)
            T.clear(o)
            T.gemm(q, k, s, transpose_B=True)
            T.gemm(s, v, o)
            T.copy(o, Out)

    # Small integers: the first product is exact, as is its truncation to tf32.
    q, k = (torch.randint(-4, 5, (rows, 32)).float() for rows in (128, 64))
    v, o = random_values(64, 48, "float32"), poisoned(128, 48, "float32")
    compile_sm100(kernel)(q, k, v, o)
    check_product(o, q @ k.T, v)


def both_ways(kind: str):
    """C = A @ A^T of a square tile: A is an operand with K and one with N contiguous."""

    @T.prim_func
    def kernel(A: T.Tensor((128, 128), kind), C: T.Tensor((128, 128), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 128), kind)
            c = T.alloc_tmem((128, 128), "float32")
            T.copy(A, a)
            T.gemm(a, a, c, clear_accum=True)
            T.copy(c, C)

    return kernel


def test_one_tile_as_both_operands():
    a, c = random_values(128, 128, "bfloat16"), poisoned(128, 128, "float32")
    compile_sm100(both_ways("bfloat16"))(a, c)
    check_product(c, a, a)


def test_a_tile_of_32_bits_cannot_be_both():
    with pytest.raises(errors.LayoutError) as caught:
        compile_sm100(both_ways("float32"))
    text = str(caught.value)
    assert "with M or N contiguous need the 128-byte swizzle of 32-byte chunks" in text
    assert "uses the buffer as the other kind of operand; copy it to a second buffer" in text


def annotated(layout_of, k_major_b: bool):
    @T.prim_func
    def kernel(
        A: T.Tensor((64, 32), "float32"),
        B: T.Tensor((64, 32) if k_major_b else (32, 64), "float32"),
        C: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 32), "float32")
            b = T.alloc_shared((64, 32) if k_major_b else (32, 64), "float32")
            c = T.alloc_tmem((64, 64), "float32")
            T.annotate_layout({b: layout_of(b)})
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, transpose_B=k_major_b, clear_accum=True)
            T.copy(c, C)

    return kernel


def test_annotated_layout():
    kernel = compile_sm100(annotated(lambda b: make_swizzled_layout(b, k_major=False), False))
    a, b = random_values(64, 32, "float32"), random_values(32, 64, "float32")
    c = poisoned(64, 64, "float32")
    kernel(a, b, c)
    check_product(c, a, b)


@pytest.mark.parametrize("k_major_b", [False, True])
def test_annotated_layout_of_the_other_kind(k_major_b):
    def other(b):
        return make_swizzled_layout(b, k_major=not k_major_b)

    with pytest.raises(errors.LayoutError, match=r"remove T\.annotate_layout, or annotate it"):
        compile_sm100(annotated(other, k_major_b))


@pytest.mark.parametrize("kind", ["int8", "float8_e4m3fn"])
@pytest.mark.parametrize("n", [8, 24, 40])
def test_8_bit_operands_with_n_contiguous_come_in_sixteens(kind, n):
    with pytest.raises(errors.ShapeError, match="N must be a multiple of 16"):
        compile_sm100(Tile(kind, 128, n, 32, False, False).build())
