"""Gemms whose K or N is no multiple of an instruction's, on padded tiles."""

from __future__ import annotations

import re

import pytest
import torch

import tilelang
import tilelang.language as T

TARGETS = ["sm_100a", "sm_90a", "sm_80", "sm_120a"]
TENSOR_CORE = re.compile(r"\b(tcgen05\.mma|wgmma\.mma_async|mma\.sync)")


def remarks(kernel) -> str:
    return "\n".join(str(remark) for remark in kernel.remarks)


def random(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    if dtype == torch.int8:
        return torch.randint(-8, 8, shape, dtype=dtype)
    return torch.randn(*shape).to(dtype)


def product(depth, dtype, trans_a, trans_b, out="float32"):
    """One tile of C = A B whose K is `depth`, the whole dimension of both tensors."""
    a_shape = (depth, 128) if trans_a else (128, depth)
    b_shape = (64, depth) if trans_b else (depth, 64)

    @T.prim_func
    def gemm(A: T.Tensor(a_shape, dtype), B: T.Tensor(b_shape, dtype), C: T.Tensor((128, 64), out)):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared(a_shape, dtype)
            b = T.alloc_shared(b_shape, dtype)
            c = T.alloc_fragment((128, 64), out)
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            T.gemm(a, b, c, transpose_A=trans_a, transpose_B=trans_b)
            T.copy(c, C)

    return gemm


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize("depth", [8, 40, 72])
def test_whole_depth(target: str, trans_a: bool, trans_b: bool, depth: int) -> None:
    kernel = tilelang.compile(product(depth, "bfloat16", trans_a, trans_b), target=target)
    a = random(depth, 128) if trans_a else random(128, depth)
    b = random(64, depth) if trans_b else random(depth, 64)
    c = torch.full((128, 64), float("nan"))
    kernel(a, b, c)
    left, right = (a.T if trans_a else a), (b.T if trans_b else b)
    torch.testing.assert_close(c.double(), left.double() @ right.double(), rtol=1e-4, atol=1e-4)
    assert "padded with zeros" in remarks(kernel)
    assert TENSOR_CORE.search(kernel.get_ptx())


def boxes(depth: int, target: str = "sm_90a", columns: int = 64) -> int:
    """How many loads by TMA bring a tile of `columns` rows of `depth` columns, and the other."""

    @T.prim_func
    def gemm(
        A: T.Tensor((128, depth), "bfloat16"),
        B: T.Tensor((columns, depth), "bfloat16"),
        C: T.Tensor((128, columns), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, depth), "bfloat16")
            b = T.alloc_shared((columns, depth), "bfloat16")
            c = T.alloc_fragment((128, columns), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C)

    kernel = tilelang.compile(gemm, target=target)
    a, b = random(128, depth), random(columns, depth)
    c = torch.full((128, columns), float("nan"))
    kernel(a, b, c)
    torch.testing.assert_close(c.double(), a.double() @ b.double().T, rtol=1e-4, atol=1e-4)
    return str(kernel.get_kernel_source()).count("tl::tma_load(")


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_120a"])
@pytest.mark.parametrize(
    ("depth", "lines"),
    [(40, 1), (72, 2), (80, 2), (104, 2), (112, 2), (136, 3), (48, 1), (64, 1), (128, 2)],
)
def test_rows_of_whole_lines(target: str, depth: int, lines: int) -> None:
    assert boxes(depth, target) == 2 * lines


def test_rows_stay_where_no_memory_is_left() -> None:
    # 128 and 256 rows of 240 columns take 180 KiB, whole lines of 256 columns 192 KiB.
    assert boxes(240, columns=256) == 2 * 4
    # 128 and 256 rows of 272 columns take 204 KiB. Lines of 320 columns take 12 and 24 KiB more.
    assert boxes(272, columns=256) == 5 + 17


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("dtype", "torch_dtype", "depth", "out"),
    [
        ("int8", torch.int8, 48, "int32"),
        ("float8_e4m3fn", torch.float8_e4m3fn, 48, "float32"),
        ("float16", torch.float16, 104, "float32"),
    ],
)
def test_types(target: str, dtype: str, torch_dtype: torch.dtype, depth: int, out: str) -> None:
    if target == "sm_80" and dtype.startswith("float8"):
        pytest.skip("sm_80 has no tensor cores for float8")
    kernel = tilelang.compile(product(depth, dtype, False, True, out), target=target)
    a, b = random(128, depth, dtype=torch_dtype), random(64, depth, dtype=torch_dtype)
    c = torch.full((128, 64), 77, dtype=getattr(torch, out))
    kernel(a, b, c)
    # wgmma keeps about 14 bits of a sum of products of float8.
    bound = 2e-2 if dtype.startswith("float8") else 1e-4
    torch.testing.assert_close(c.double(), a.double() @ b.double().T, rtol=bound, atol=bound)
    assert TENSOR_CORE.search(kernel.get_ptx())


def heads(depth: int):
    """Rows of several heads side by side: the tile of a head ends in the middle of the tensor."""

    @T.prim_func
    def scores(
        Q: T.Tensor((3 * 64, 2 * depth), "bfloat16"),
        K: T.Tensor((3 * 64, 2 * depth), "bfloat16"),
        S: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            q = T.alloc_shared((64, depth), "bfloat16")
            k = T.alloc_shared((64, depth), "bfloat16")
            s = T.alloc_fragment((64, 64), "float32")
            T.copy(Q[64:128, 0:depth], q)
            for i, j in T.Parallel(64, depth):
                q[i, j] = q[i, j] * 2
            T.clear(s)
            for step in T.Pipelined(3, num_stages=2):
                T.copy(K[step * 64 : step * 64 + 64, 0:depth], k)
                T.gemm(q, k, s, transpose_B=True)
            T.copy(s, S)

    return scores


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("depth", [40, 72])
def test_tiles_inside_of_a_tensor(target: str, depth: int) -> None:
    """The neighbouring head is NaN: nothing of it may reach the sums."""
    q, k = random(192, 2 * depth), random(192, 2 * depth)
    q[:, depth:] = k[:, depth:] = float("nan")
    s = torch.full((64, 64), float("nan"))
    kernel = tilelang.compile(heads(depth), target=target)
    kernel(q, k, s)
    left = q[64:128, :depth].double() * 2
    want = sum(left @ k[i : i + 64, :depth].double().T for i in (0, 64, 128))
    torch.testing.assert_close(s.double(), want, rtol=1e-3, atol=1e-3)
    assert TENSOR_CORE.search(kernel.get_ptx())


def attention(depth: int):
    """Attention of one head: K of Q K^T and N of P V are the head dimension."""
    scale = depth**-0.5 * 1.44269504

    @T.prim_func
    def forward(
        Q: T.Tensor((200, depth), "bfloat16"),
        K: T.Tensor((200, depth), "bfloat16"),
        V: T.Tensor((200, depth), "bfloat16"),
        Out: T.Tensor((200, depth), "float32"),
    ):
        with T.Kernel(T.ceildiv(200, 128), threads=128) as bx:
            q = T.alloc_shared((128, depth), "bfloat16")
            k = T.alloc_shared((64, depth), "bfloat16")
            v = T.alloc_shared((64, depth), "bfloat16")
            s = T.alloc_fragment((128, 64), "float32")
            p = T.alloc_fragment((128, 64), "bfloat16")
            o = T.alloc_fragment((128, depth), "float32")
            top = T.alloc_fragment((128,), "float32")
            before = T.alloc_fragment((128,), "float32")
            total = T.alloc_fragment((128,), "float32")
            part = T.alloc_fragment((128,), "float32")
            T.copy(Q[bx * 128, 0], q)
            T.clear(o)
            T.clear(total)
            T.fill(top, -T.infinity("float32"))
            for j in T.Pipelined(T.ceildiv(200, 64), num_stages=2 if depth < 128 else 1):
                T.copy(K[j * 64, 0], k)
                T.clear(s)
                T.gemm(q, k, s, transpose_B=True)
                for i, c in T.Parallel(128, 64):
                    s[i, c] = T.if_then_else(
                        j * 64 + c < 200, s[i, c] * scale, -T.infinity("float32")
                    )
                T.copy(top, before)
                T.reduce_max(s, top, dim=1, clear=False)
                for i, c in T.Parallel(128, 64):
                    s[i, c] = T.exp2(s[i, c] - top[i])
                T.reduce_sum(s, part, dim=1)
                for i in T.Parallel(128):
                    total[i] = total[i] * T.exp2(before[i] - top[i]) + part[i]
                for i, c in T.Parallel(128, depth):
                    o[i, c] *= T.exp2(before[i] - top[i])
                T.copy(s, p)
                T.copy(V[j * 64, 0], v)
                T.gemm(p, v, o)
            for i, c in T.Parallel(128, depth):
                o[i, c] = o[i, c] / total[i]
            T.copy(o, Out[bx * 128, 0])

    return forward


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("depth", [40, 72, 88, 104, 136])
def test_attention(target: str, depth: int) -> None:
    kernel = tilelang.compile(attention(depth), target=target)
    q, k, v = random(200, depth), random(200, depth), random(200, depth)
    out = torch.full((200, depth), float("nan"))
    kernel(q, k, v, out)
    want = torch.nn.functional.scaled_dot_product_attention(q.float(), k.float(), v.float())
    torch.testing.assert_close(out, want, rtol=0.02, atol=0.01)
    instruction = {"sm_100a": "tcgen05.mma", "sm_90a": "wgmma"}.get(target, "mma.sync")
    assert instruction in kernel.get_ptx()
    assert "is done by" not in remarks(kernel).replace("is done by TMA", "")


def test_what_keeps_its_operands() -> None:
    """A tile whose layout the program gives is not padded."""

    @T.prim_func
    def gemm(
        A: T.Tensor((128, 40), "float16"),
        B: T.Tensor((64, 40), "float16"),
        C: T.Tensor((128, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 40), "float16")
            b = T.alloc_shared((64, 40), "float16")
            c = T.alloc_fragment((128, 64), "float32")
            T.annotate_layout({a: tilelang.layout.Layout((128, 40), lambda i, j: [i * 40 + j])})
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C)

    kernel = tilelang.compile(gemm, target="sm_90a")
    a, b, c = (
        random(128, 40, dtype=torch.float16),
        random(64, 40, dtype=torch.float16),
        torch.zeros(128, 64),
    )
    kernel(a, b, c)
    torch.testing.assert_close(c.double(), a.double() @ b.double().T, rtol=1e-3, atol=1e-3)
    assert "padded" not in remarks(kernel)
