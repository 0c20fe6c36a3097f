"""Operands that change at run time, and gemms that follow each other: stages of a ring, slices,
accumulators as operands, attention."""

from __future__ import annotations

import itertools

import pytest
import torch
from block_gemms import integers
from sm90.gemm_kernels import poisoned, uses_wgmma

import tilelang
import tilelang.language as T

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.requires_cuda)]
FULL_ROW = T.GemmWarpPolicy.FullRow


def ring(stages: int, blocks: int, transpose_a: bool, transpose_b: bool, by_threads: bool):
    """The stage of a block is known at run time only."""
    m, n, k = 128, 96, 32
    shape_a = (k, m) if transpose_a else (m, k)
    shape_b = (n, k) if transpose_b else (k, n)
    disable = {"disable_tma": by_threads}

    @T.prim_func
    def main(
        A: T.Tensor((blocks, *shape_a), "float16"),
        B: T.Tensor((blocks, *shape_b), "float16"),
        C: T.Tensor((m, n), "float32"),
    ):
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((stages, *shape_a), "float16")
            b = T.alloc_shared((stages, *shape_b), "float16")
            c = T.alloc_fragment((m, n), "float32")
            T.clear(c)
            for i in T.serial(blocks):
                s = (i + 1) % stages
                T.copy(A[i, 0, 0], a[s, :, :], **disable)
                T.copy(B[i, 0, 0], b[s, :, :], **disable)
                T.gemm(a[s, :, :], b[s, :, :], c, transpose_A=transpose_a, transpose_B=transpose_b)
            T.copy(c, C)

    return tilelang.compile(main, target="sm_90a")


@pytest.mark.every_schedule
@pytest.mark.parametrize("by_threads", [False, True])
@pytest.mark.parametrize(
    ("transpose_a", "transpose_b"), itertools.product((False, True), (False, True))
)
def test_stages_of_a_ring(transpose_a, transpose_b, by_threads):
    blocks = 5
    kernel = ring(3, blocks, transpose_a, transpose_b, by_threads)
    assert uses_wgmma(kernel)
    assert ("fence.proxy.async" in kernel.get_ptx()) == by_threads
    a = integers((blocks, 32, 128) if transpose_a else (blocks, 128, 32), "float16")
    b = integers((blocks, 96, 32) if transpose_b else (blocks, 32, 96), "float16")
    c = poisoned((128, 96), "float32")
    kernel(a, b, c)
    left = a.double().mT if transpose_a else a.double()
    right = b.double().mT if transpose_b else b.double()
    assert torch.equal(c.double(), (left @ right).sum(0))


def sliced(rows: slice, columns: slice, transpose_b: bool):
    """C (64 x 64) = A[rows, columns] @ B, with A of 128 x 128 in shared memory."""
    m = rows.stop - rows.start

    @T.prim_func
    def main(
        A: T.Tensor((128, 128), "float16"),
        B: T.Tensor((64, 128) if transpose_b else (128, 64), "float16"),
        C: T.Tensor((m, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 128), "float16")
            b = T.alloc_shared((64, 128) if transpose_b else (128, 64), "float16")
            c = T.alloc_fragment((m, 64), "float32")
            T.copy(A, a)
            T.copy(B, b)
            right = b[:, columns] if transpose_b else b[columns, :]
            T.gemm(a[rows, columns], right, c, transpose_B=transpose_b, clear_accum=True)
            T.copy(c, C)

    return tilelang.compile(main, target="sm_90a")


SLICES = [
    (slice(64, 128), slice(0, 128), True),
    (slice(8, 72), slice(64, 128), True),
    (slice(0, 64), slice(32, 64), True),
    (slice(0, 64), slice(16, 32), True),
    (slice(0, 64), slice(48, 80), False),  # walks from one swizzle atom into the next
    (slice(4, 68), slice(0, 64), False),  # begins inside a group of eight rows
]


@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize(("rows", "columns", "fits"), SLICES)
def test_slices(rows, columns, fits, transpose_b):
    kernel = sliced(rows, columns, transpose_b)
    a = integers((128, 128), "float16")
    b = integers((64, 128) if transpose_b else (128, 64), "float16")
    c = poisoned((rows.stop - rows.start, 64), "float32")
    kernel(a, b, c)
    right = b.T if transpose_b else b
    assert torch.equal(c.double(), a[rows, columns].double() @ right[columns].double())
    assert uses_wgmma(kernel) == fits
    told = [remark.message for remark in kernel.remarks if remark.topic == "gemm"]
    assert bool(told) != fits
    assert fits or "must begin at a row that is a multiple of 8" in told[0]


def independent():
    """Two products of one A, which share their wait."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 64), "bfloat16"),
        B: T.Tensor((2, 64, 64), "bfloat16"),
        C: T.Tensor((2, 64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "bfloat16")
            b = T.alloc_shared((2, 64, 64), "bfloat16")
            c = T.alloc_fragment((64, 64), "float32")
            d = T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b[0, :, :], c, clear_accum=True)
            T.gemm(a, b[1, :, :], d, clear_accum=True)
            T.gemm(a, b[1, :, :], c)
            T.copy(c, C[0, :, :])
            T.copy(d, C[1, :, :])

    return tilelang.compile(main, target="sm_90a")


@pytest.mark.every_schedule
@pytest.mark.parametrize("device", DEVICES)
def test_independent_products_share_a_wait(device):
    kernel = independent()
    assert kernel.get_ptx().count("wgmma.wait_group") == 1
    a, b = integers((64, 64), "bfloat16", device), integers((2, 64, 64), "bfloat16", device)
    c = poisoned((2, 64, 64), "float32", device)
    kernel(a, b, c)
    a, b = a.double(), b.double()
    assert torch.equal(c.double(), torch.stack([a @ b[0] + a @ b[1], a @ b[1]]))


def of_roles(by_threads: bool):
    """Warpgroup 0 and warpgroups 1 and 2 compute a product each."""

    @T.prim_func
    def main(
        A: T.Tensor((192, 64), "float16"), B: T.Tensor((64, 64), "float16"),
        C: T.Tensor((192, 64), "float32"),
    ):  # fmt: skip
        with T.Kernel(1, threads=384):
            a = T.alloc_shared((192, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            T.copy(A, a, disable_tma=by_threads)
            T.copy(B, b, disable_tma=by_threads)
            with T.ws(0):
                c = T.alloc_fragment((64, 64), "float32")
                T.gemm(a[0:64, :], b, c, clear_accum=True)
                T.copy(c, C[0:64, :])
            with T.ws(1, 2):
                d = T.alloc_fragment((128, 64), "float32")
                T.gemm(a[64:192, :], b, d, clear_accum=True)
                T.copy(d, C[64:192, :])

    return tilelang.compile(main, target="sm_90a")


@pytest.mark.every_schedule
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("by_threads", [False, True])
def test_products_of_roles(by_threads, device):
    kernel = of_roles(by_threads)
    assert uses_wgmma(kernel)
    a, b = integers((192, 64), "float16", device), integers((64, 64), "float16", device)
    c = poisoned((192, 64), "float32", device)
    kernel(a, b, c)
    assert torch.equal(c.double(), a.double() @ b.double())


def chained(a_type: str, c_type: str, threads: int):
    """E = cast(A @ B^T) @ D: the first accumulator is the second A."""
    m = threads // 2
    kept = {"transpose_B": True, "policy": FULL_ROW, "clear_accum": True}

    @T.prim_func
    def main(
        A: T.Tensor((m, 64), a_type),
        B: T.Tensor((96, 64), a_type),
        D: T.Tensor((64, 96), a_type),
        E: T.Tensor((m, 64), "float32"),
    ):
        with T.Kernel(1, threads=threads):
            a = T.alloc_shared((m, 64), a_type)
            b = T.alloc_shared((96, 64), a_type)
            d = T.alloc_shared((64, 96), a_type)
            c = T.alloc_fragment((m, 96), c_type)
            p = T.alloc_fragment((m, 96), a_type)
            e = T.alloc_fragment((m, 64), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.copy(D, d)
            T.gemm(a, b, c, **kept)
            T.copy(c, p)
            T.gemm(p, d, e, **kept)
            T.copy(e, E)

    return tilelang.compile(main, target="sm_90a")


CHAINS = [("float16", "float32"), ("bfloat16", "float32")]


@pytest.mark.every_schedule
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("threads", [128, 256])
@pytest.mark.parametrize("types", [*CHAINS, ("float8_e4m3fn", "float32")], ids="-".join)
def test_chains(types, threads, device):
    """16-bit operands stay in their registers; 8-bit ones change threads on their way."""
    kernel = chained(*types, threads)
    assert uses_wgmma(kernel)
    assert kernel.get_ptx().count("st.shared") == 0 or types not in CHAINS
    m, kind = threads // 2, types[0]
    a, b, d = (integers(shape, kind, device) for shape in ((m, 64), (96, 64), (64, 96)))
    a[:, 8:] = 0  # so that the first product is exact in every type
    e = poisoned((m, 64), "float32", device)
    kernel(a, b, d, e)
    first = (a.double() @ b.double().T).to(getattr(torch, kind))
    assert torch.equal(e.double(), first.double() @ d.double().T)


@pytest.mark.may_serialise("ptxas cannot give accumulators and A the same registers without moves")
def test_accumulators_that_are_operands_as_they_are():
    kernel = chained("float16", "float16", 256)
    assert uses_wgmma(kernel)
    a, b, d = (integers(shape, "float16") for shape in ((128, 64), (96, 64), (64, 96)))
    e = poisoned((128, 64), "float32")
    kernel(a, b, d, e)
    assert torch.equal(e.double(), (a.double() @ b.double().T) @ d.double().T)


def attention(seq, dim, block_m, block_n, threads):
    @T.prim_func
    def main(
        Q: T.Tensor((seq, dim), "bfloat16"), K: T.Tensor((seq, dim), "bfloat16"),
        V: T.Tensor((seq, dim), "bfloat16"), Out: T.Tensor((seq, dim), "bfloat16"),
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(seq, block_m), threads=threads) as bx:
            q = T.alloc_shared((block_m, dim), "bfloat16")
            k = T.alloc_shared((block_n, dim), "bfloat16")
            v = T.alloc_shared((block_n, dim), "bfloat16")
            s = T.alloc_fragment((block_m, block_n), "float32")
            p = T.alloc_fragment((block_m, block_n), "bfloat16")
            o = T.alloc_fragment((block_m, dim), "float32")
            largest = T.alloc_fragment((block_m,), "float32")
            before = T.alloc_fragment((block_m,), "float32")
            scale = T.alloc_fragment((block_m,), "float32")
            part = T.alloc_fragment((block_m,), "float32")
            total = T.alloc_fragment((block_m,), "float32")
            T.copy(Q[bx * block_m, 0], q)
            T.clear(o)
            T.clear(total)
            T.fill(largest, -T.infinity("float32"))
            for i in T.Pipelined(T.ceildiv(seq, block_n), num_stages=1):
                T.copy(K[i * block_n, 0], k)
                T.copy(V[i * block_n, 0], v)
                T.gemm(q, k, s, transpose_B=True, clear_accum=True, policy=FULL_ROW)
                T.copy(largest, before)
                T.reduce_max(s, largest, dim=1, clear=False)
                for r in T.Parallel(block_m):
                    scale[r] = T.exp2(before[r] - largest[r])
                for r, c in T.Parallel(block_m, block_n):
                    s[r, c] = T.exp2(s[r, c] - largest[r])
                T.reduce_sum(s, part, dim=1)
                for r in T.Parallel(block_m):
                    total[r] = total[r] * scale[r] + part[r]
                for r, c in T.Parallel(block_m, dim):
                    o[r, c] *= scale[r]
                T.copy(s, p)
                T.gemm(p, v, o, policy=FULL_ROW)
            for r, c in T.Parallel(block_m, dim):
                o[r, c] /= total[r]
            T.copy(o, Out[bx * block_m, 0])

    return tilelang.compile(main, target="sm_90a")


#: Lengths, rows and keys of a block, threads: 64 rows for each warpgroup.
ATTENTIONS = [(128, 64, 64, 64, 128), (256, 128, 128, 128, 256), (240, 128, 192, 80, 384)]


@pytest.mark.every_schedule
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("size", ATTENTIONS, ids=str)
def test_attention(size, device):
    seq, dim = size[:2]
    q, k, v = ((torch.randn(seq, dim) / 3).bfloat16().to(device) for _ in range(3))
    o = poisoned((seq, dim), "bfloat16", device)
    kernel = attention(*size)
    assert uses_wgmma(kernel)
    assert not [r for r in kernel.remarks if "shared memory" in r.message]
    kernel(q, k, v, o)
    score = q.double() @ k.double().T
    want = torch.softmax(score * torch.log(torch.tensor(2.0)), 1) @ v.double()
    torch.testing.assert_close(o.double(), want, rtol=2e-2, atol=4e-3)


def test_an_annotated_layout_that_wgmma_cannot_read():
    """Its rows are padded: ldmatrix reads it."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            T.annotate_layout({a: tilelang.layout.make_padded_layout(a, 8)})
            c = T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.gemm(a, a, c, transpose_B=True, clear_accum=True)
            T.copy(c, C)

    kernel = tilelang.compile(main, target="sm_90a")
    assert not uses_wgmma(kernel)
    assert any("which it cannot read" in remark.message for remark in kernel.remarks)
    a, c = integers((64, 64), "float16"), poisoned((64, 64), "float32")
    kernel(a, c)
    assert torch.equal(c.double(), a.double() @ a.double().T)


def test_a_transposed_fragment_is_multiplied():
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_fragment((64, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.copy(A, b)
            T.gemm(a, b, c, transpose_A=True, clear_accum=True)
            T.copy(c, C)

    kernel = tilelang.compile(main, target="sm_90a")
    a, c = integers((64, 64), "float16"), poisoned((64, 64), "float32")
    kernel(a, c)
    assert torch.equal(c.double(), a.double().T @ a.double())
