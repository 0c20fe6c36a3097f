"""T.gemm_sp by tcgen05.mma.sp: operands, tiles and metadata, against exact products."""

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.emulator import options
from tilelang.errors import LayoutError, ShapeError
from tilelang.utils.sparse import compress, get_e_factor, randn_semi_sparse

FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
PLAIN = (False, False, True)  # transposed: A, E, B


def turned(first, second, is_turned):
    return (second, first) if is_turned else (first, second)


def kernel_of(shape, tiles, types, meta, transposed=PLAIN, threads=128, stages=2, in_tmem=False):
    m, n, k = shape
    bm, bn, bk = tiles
    trans_a, trans_e, trans_b = transposed
    e = get_e_factor(types[0], meta)

    @T.prim_func
    def sparse(
        A: T.Tensor(turned(m, k // 2, trans_a), types[0]),
        E: T.Tensor(turned(m, k // e, trans_e), meta),
        B: T.Tensor(turned(k, n, trans_b), types[1]),
        C: T.Tensor((m, n), types[2]),
    ):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=threads) as (bx, by):
            a = T.alloc_shared(turned(bm, bk // 2, trans_a), types[0])
            places = T.alloc_shared(turned(bm, bk // e, trans_e), meta)
            b = T.alloc_shared(turned(bk, bn, trans_b), types[1])
            c = (
                T.alloc_tmem((bm, bn), types[2])
                if in_tmem
                else T.alloc_fragment((bm, bn), types[2])
            )
            for i in T.Pipelined(T.ceildiv(k, bk), num_stages=stages):
                T.copy(A[turned(by * bm, i * (bk // 2), trans_a)], a)
                T.copy(E[turned(by * bm, i * (bk // e), trans_e)], places)
                T.copy(B[turned(i * bk, bx * bn, trans_b)], b)
                T.gemm_sp(a, places, b, c, *transposed, clear_accum=i == 0)
            T.copy(c, C[by * bm, bx * bn])

    return tilelang.compile(sparse, target="sm_100a")


def operands(shape, types, meta, transposed=PLAIN):
    """Small integers, whose sums are exact; C is NaN."""
    m, n, k = shape
    trans_a, trans_e, trans_b = transposed
    a = randn_semi_sparse(m, k, torch.float32, "cpu").mul(3).round().clamp(-8, 8)
    b = torch.randint(-4, 5, (k, n)).float()
    stored, places = compress(a.to(getattr(torch, types[0])), meta)
    given = [each.T.contiguous() if turn else each
             for each, turn in zip((stored, places), (trans_a, trans_e), strict=True)]  # fmt: skip
    given.append(b.to(getattr(torch, types[1])).T.contiguous() if trans_b else
                 b.to(getattr(torch, types[1])))  # fmt: skip
    given.append(torch.full((m, n), torch.nan, dtype=getattr(torch, types[2])))
    return given, a @ b


def check(shape, tiles, types, meta, transposed=PLAIN, **settings):
    kernel = kernel_of(shape, tiles, types, meta, transposed, **settings)
    assert "tcgen05.mma.sp" in kernel.get_ptx() and "mma.sp.sync" not in kernel.get_ptx()
    given, expected = operands(shape, types, meta, transposed)
    kernel(*given)
    assert torch.equal(given[-1].float(), expected)
    return kernel


HALF = ("float16", "float16", "float32")


@pytest.mark.every_schedule
@pytest.mark.parametrize("stages", [0, 2, 4])
@pytest.mark.parametrize("threads", [128, 256])
def test_schedules(stages, threads):
    check((128, 64, 320), (128, 64, 64), HALF, "int16", stages=stages, threads=threads)


@pytest.mark.parametrize("meta", ["int8", "uint8", "int16", "int32"])
@pytest.mark.parametrize("types", [HALF, ("bfloat16", "bfloat16", "float32"), ("float16",) * 3])
def test_halves(types, meta):
    check((128, 64, 192), (128, 64, 64), types, meta)


@pytest.mark.parametrize("meta", ["int8", "int16", "int32"])
@pytest.mark.parametrize("types", [FLOAT8, FLOAT8[::-1], FLOAT8[:1] * 2])
def test_float8(types, meta):
    check((128, 64, 384), (128, 64, 128), (*types, "float32"), meta, stages=3)


@pytest.mark.parametrize("transposed", [(a, e, b) for a in (0, 1) for e in (0, 1) for b in (0, 1)])
def test_operands_in_both_orders(transposed):
    check((128, 64, 256), (128, 64, 64), HALF, "int16", tuple(map(bool, transposed)))


def test_float8_by_columns():
    check((128, 64, 256), (128, 64, 128), (*FLOAT8, "float32"), "int32", (False, True, False))


@pytest.mark.every_schedule
@pytest.mark.parametrize("types", [HALF, (*FLOAT8, "float32")])
def test_ragged_extents(types):
    """Metadata beyond the tensors are zero, which has no meaning."""
    check((200, 72, 192), (128, 64, 128), types, "int32", threads=256)


@pytest.mark.parametrize("columns", [8, 24, 136, 256, 264])
def test_widths(columns):
    check((128, columns, 64), (128, columns, 64), HALF, "int16", threads=256)


@pytest.mark.parametrize("depth", [32, 96, 160, 256])
def test_depths_of_tiles(depth):
    """With 32 and 96 slots of metadata begin in either column of a pair."""
    check((128, 32, 4 * depth), (128, 32, depth), HALF, "int16", stages=3)


def test_tiles_of_several_instructions():
    check((256, 64, 256), (256, 64, 64), HALF, "int16", threads=256)
    check((512, 40, 256), (256, 40, 128), (*FLOAT8, "float32"), "int32")


def test_an_accumulator_in_tensor_memory():
    check((128, 64, 192), (128, 64, 64), HALF, "int16", in_tmem=True)


def test_two_gemms_of_an_iteration():
    """Each has metadata of its own."""
    m, n, k = 128, 64, 128

    @T.prim_func
    def both(
        A: T.Tensor((2, m, k // 2), "float16"),
        E: T.Tensor((2, m, k // 16), "int16"),
        B: T.Tensor((n, k), "float16"),
        C: T.Tensor((m, n), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((2, m, k // 2), "float16")
            e = T.alloc_shared((2, m, k // 16), "int16")
            b = T.alloc_shared((n, k), "float16")
            c = T.alloc_fragment((m, n), "float32")
            T.copy(A, a)
            T.copy(E, e)
            T.copy(B, b)
            T.clear(c)
            for i in T.unroll(2):
                T.gemm_sp(a[i, :, :], e[i, :, :], b, c, transpose_B=True)
            T.copy(c, C)

    kernel = tilelang.compile(both, target="sm_100a")
    assert "tcgen05.mma.sp" in kernel.get_ptx()
    (a, e, b, c), one = operands((m, n, k), HALF, "int16")
    other = randn_semi_sparse(m, k, torch.float32, "cpu").mul(3).round()
    stored, places = compress(other.half(), "int16")
    kernel(torch.stack([a, stored]), torch.stack([e, places]), b, c)
    assert torch.equal(c, one + other @ b.float().T)


@pytest.mark.parametrize(
    ("tiles", "types", "reason"),
    [
        ((64, 32, 64), HALF, "M of a sparse gemm must be a multiple of 128"),
        ((128, 32, 64), ("float32",) * 3, "a sparse A must be float16, bfloat16 or float8"),
        (
            (128, 32, 64),
            ("int8", "int8", "int32"),
            "a sparse A must be float16, bfloat16 or float8",
        ),
        ((128, 36, 64), HALF, "N must be a multiple of 8"),
    ],
)
def test_what_mma_sync_does(tiles, types, reason):
    """What the instruction lacks is done by mma.sp, or refused where that lacks it, too."""
    try:
        kernel = kernel_of((128, 2 * tiles[1], 128), tiles, types, "int16")
    except LayoutError as error:
        assert types[0] == "int8" or tiles[1] == 36, error
        return
    assert any(reason in str(remark) for remark in kernel.remarks)
    assert "tcgen05.mma" not in kernel.get_ptx()


def test_refused_in_tensor_memory():
    with pytest.raises(LayoutError, match="a sparse A must be float16, bfloat16 or float8"):
        kernel_of((128, 32, 64), (128, 32, 64), ("float32",) * 3, "int16", in_tmem=True)
    with pytest.raises(ShapeError, match=r"T\.gemm_sp by tcgen05: M of a sparse gemm must be"):
        kernel_of((64, 32, 64), (64, 32, 64), HALF, "int16", in_tmem=True)


def test_metadata_in_registers_are_for_mma_sync():
    def sparse_of(alloc):
        @T.prim_func
        def sparse():
            with T.Kernel(1, threads=128):
                a = T.alloc_shared((128, 32), "float16")
                e = T.alloc_fragment((128, 4), "int16")
                b = T.alloc_shared((64, 64), "float16")
                c = alloc((128, 64), "float32")
                T.fill(e, 0x4444)
                T.gemm_sp(a, e, b, c, transpose_B=True, clear_accum=True)

        return tilelang.compile(sparse, target="sm_100a")

    with pytest.raises(LayoutError, match="it must be in shared memory"):
        sparse_of(T.alloc_tmem)
    remarks = [str(remark) for remark in sparse_of(T.alloc_fragment).remarks]
    assert any("the metadata must be in shared memory" in remark for remark in remarks)


@pytest.mark.parametrize("seed", range(3))
def test_random_schedules(seed):
    shape, tiles = (256, 96, 384), (128, 96, 128)
    given, expected = operands(shape, HALF, "int16")
    with options(schedule=seed):
        kernel_of(shape, tiles, HALF, "int16", stages=3)(*given)
    assert torch.equal(given[-1], expected)
