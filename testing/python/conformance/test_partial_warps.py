"""Blocks whose last warp is not whole: no operator asks lanes for anything that do not exist."""

import pytest
import torch

import tilelang
import tilelang.language as T

THREADS = [40, 97]
SIZES = [(16, 48), (33, 5)]


def integers(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randint(-3, 4, shape).to(dtype)


@pytest.mark.parametrize("threads", THREADS)
def test_gemm(threads: int, target: str) -> None:
    """As of whole warps, with a remark that says why it is done without tensor cores."""

    @T.prim_func
    def main(
        A: T.Tensor((32, 48), "float16"),
        B: T.Tensor((48, 32), "float16"),
        C: T.Tensor((32, 32), "float32"),
    ):
        with T.Kernel(1, threads=threads):
            a, b = T.alloc_shared((32, 48), "float16"), T.alloc_shared((48, 32), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            T.gemm(a, b, c)
            T.copy(c, C)

    kernel = tilelang.compile(main, target=target)
    assert "mma.sync" not in kernel.get_ptx()
    assert f"{threads} threads are not whole warps" in "".join(r.message for r in kernel.remarks)
    a, b = integers(32, 48).half(), integers(48, 32).half()
    c = torch.full((32, 32), float("nan"))
    kernel(a, b, c)
    assert torch.equal(c, a.float() @ b.float())


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("shape", SIZES)
@pytest.mark.parametrize("dim", [0, 1])
def test_reductions(threads: int, shape: tuple[int, int], dim: int, target: str) -> None:
    kept = shape[1 - dim]

    @T.prim_func
    def main(
        A: T.Tensor(shape, "float32"),
        Sum: T.Tensor((kept,), "float32"),
        Max: T.Tensor((kept,), "float32"),
        Running: T.Tensor(shape, "float32"),
    ):
        with T.Kernel(1, threads=threads):
            s = T.alloc_shared(shape, "float32")
            a = T.alloc_fragment(shape, "float32")
            total, most = T.alloc_fragment((kept,), "float32"), T.alloc_fragment((kept,), "float32")
            T.copy(A, s)
            T.copy(s, a)
            T.reduce_sum(a, total, dim=dim)
            T.reduce_max(a, most, dim=dim)
            T.copy(total, Sum)
            T.copy(most, Max)
            T.cumsum(s, dim=dim)
            T.copy(s, Running)

    a = integers(*shape)
    out = [torch.full((kept,), float("nan")) for _ in range(2)] + [torch.full(shape, float("nan"))]
    tilelang.compile(main, target=target)(a, *out)
    assert torch.equal(out[0], a.sum(dim))
    assert torch.equal(out[1], a.amax(dim))
    assert torch.equal(out[2], a.cumsum(dim))


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("shape", SIZES)
def test_fragments_in_other_layouts(threads: int, shape: tuple[int, int], target: str) -> None:
    """Elements that change hands: a row's maximum in every element, and the transpose."""
    m, n = shape

    @T.prim_func
    def main(A: T.Tensor(shape, "float16"), B: T.Tensor((n, m), "float16")):
        with T.Kernel(1, threads=threads):
            a, b = T.alloc_fragment(shape, "float16"), T.alloc_fragment((n, m), "float16")
            most = T.alloc_fragment((m,), "float16")
            T.copy(A, a)
            T.reduce_max(a, most, dim=1)
            for i, j in T.Parallel(m, n):
                a[i, j] = a[i, j] - most[i]
            for j, i in T.Parallel(n, m):
                b[j, i] = a[i, j]
            T.copy(b, B)

    a, b = integers(m, n, dtype=torch.float16), torch.full((n, m), float("nan")).half()
    tilelang.compile(main, target=target)(a, b)
    assert torch.equal(b, (a - a.amax(1, keepdim=True)).T)
