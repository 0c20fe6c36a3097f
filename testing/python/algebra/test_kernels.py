"""Kernels in the algebraic mode: equal to their definitions, and unequal where one is wrong."""

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.algebra import check

TARGETS = ["sm_80", "sm_90a", "sm_100a"]


def gemm(m, n, k, block_m, block_n, block_k, dtype="float16", steps=None):
    """C = A @ B; with `steps` it leaves out the rest of K."""

    @T.prim_func
    def main(
        a: T.Tensor((m, k), dtype), b: T.Tensor((k, n), dtype), c: T.Tensor((m, n), "float32")
    ):
        with T.Kernel(T.ceildiv(n, block_n), T.ceildiv(m, block_m), threads=128) as (bx, by):
            a_shared = T.alloc_shared((block_m, block_k), dtype)
            b_shared = T.alloc_shared((block_k, block_n), dtype)
            c_local = T.alloc_fragment((block_m, block_n), "float32")
            T.clear(c_local)
            for i in T.Pipelined(steps or T.ceildiv(k, block_k), num_stages=2):
                T.copy(a[by * block_m, i * block_k], a_shared)
                T.copy(b[i * block_k, bx * block_n], b_shared)
                T.gemm(a_shared, b_shared, c_local)
            T.copy(c_local, c[by * block_m, bx * block_n])

    return main


def compiled(program, target):
    return tilelang.compile(program, out_idx=[-1], target=target)


def halves(*shape):
    return torch.randn(shape).half()


@pytest.mark.parametrize("target", TARGETS)
def test_gemm(target):
    kernel = compiled(gemm(128, 128, 96, 64, 64, 32), target)
    verdict = check(kernel, lambda a, b: a.float() @ b.float(), halves(128, 96), halves(96, 128))
    assert verdict.equal, str(verdict)
    assert not verdict.broken


@pytest.mark.parametrize("target", TARGETS)
def test_missing_step(target):
    kernel = compiled(gemm(64, 64, 96, 64, 64, 32, steps=2), target)
    verdict = check(kernel, lambda a, b: a.float() @ b.float(), halves(64, 96), halves(96, 64))
    assert not verdict.equal
    assert "it lacks the terms of input 0 at 64..95 of axis 1" in verdict.message, verdict.message


def split_gemm(m, n, k, splits):
    """Adds its parts of K to C by atomics."""
    part = k // splits

    @T.prim_func
    def main(
        a: T.Tensor((m, k), "bfloat16"),
        b: T.Tensor((n, k), "bfloat16"),
        c: T.Tensor((m, n), "float32"),
    ):
        with T.Kernel(n // 64, m // 64, splits, threads=128) as (bx, by, bz):
            a_shared = T.alloc_shared((64, 32), "bfloat16")
            b_shared = T.alloc_shared((64, 32), "bfloat16")
            c_local = T.alloc_fragment((64, 64), "float32")
            T.clear(c_local)
            for i in T.Pipelined(part // 32, num_stages=2):
                T.copy(a[by * 64, bz * part + i * 32], a_shared)
                T.copy(b[bx * 64, bz * part + i * 32], b_shared)
                T.gemm(a_shared, b_shared, c_local, transpose_B=True)
            T.atomic_add(c[by * 64, bx * 64], c_local)

    return main


@pytest.mark.parametrize("target", TARGETS)
def test_split_k(target):
    kernel = tilelang.compile(split_gemm(64, 64, 128, 2), target=target)
    a, b, c = torch.randn(64, 128).bfloat16(), torch.randn(64, 128).bfloat16(), torch.zeros(64, 64)
    verdict = check(kernel, lambda a, b, c: a @ b.T + c, a, b, c, outputs=[2])
    assert verdict.equal, str(verdict)


def softmax(rows, columns, scale=1.0):
    @T.prim_func
    def main(x: T.Tensor((rows, columns), "float32"), y: T.Tensor((rows, columns), "bfloat16")):
        with T.Kernel(rows // 16, threads=64) as bx:
            tile = T.alloc_fragment((16, columns), "float32")
            top = T.alloc_fragment((16,), "float32")
            total = T.alloc_fragment((16,), "float32")
            T.copy(x[bx * 16, 0], tile)
            T.reduce_max(tile, top, dim=1)
            for i, j in T.Parallel(16, columns):
                tile[i, j] = T.exp(tile[i, j] - top[i]) * scale
            T.reduce_sum(tile, total, dim=1)
            for i, j in T.Parallel(16, columns):
                tile[i, j] = tile[i, j] / total[i]
            T.copy(tile, y[bx * 16, 0])

    return main


@pytest.mark.parametrize("target", TARGETS)
def test_softmax(target):
    x = torch.randn(32, 100)
    kernel = compiled(softmax(32, 100), target)
    verdict = check(kernel, lambda x: torch.softmax(x, -1), x)
    assert verdict.equal, str(verdict)
    assert [remark.instruction for remark in verdict.casts]  # to bfloat16


def attention(heads, length, dim, block=64, causal=False, mistake=""):
    """Online softmax, with exponentials to base 2."""
    scale = dim**-0.5 * 1.44269504

    @T.prim_func
    def main(
        q: T.Tensor((heads, length, dim), "bfloat16"),
        k: T.Tensor((heads, length, dim), "bfloat16"),
        v: T.Tensor((heads, length, dim), "bfloat16"),
        out: T.Tensor((heads, length, dim), "bfloat16"),
    ):
        with T.Kernel(length // 64, heads, threads=128) as (bx, by):
            q_shared = T.alloc_shared((64, dim), "bfloat16")
            k_shared = T.alloc_shared((block, dim), "bfloat16")
            v_shared = T.alloc_shared((block, dim), "bfloat16")
            scores = T.alloc_fragment((64, block), "float32")
            weights = T.alloc_fragment((64, block), "bfloat16")
            result = T.alloc_fragment((64, dim), "float32")
            top = T.alloc_fragment((64,), "float32")
            last = T.alloc_fragment((64,), "float32")
            change = T.alloc_fragment((64,), "float32")
            part = T.alloc_fragment((64,), "float32")
            total = T.alloc_fragment((64,), "float32")
            T.copy(q[by, bx * 64, 0], q_shared)
            T.clear(result)
            T.clear(total)
            T.fill(top, -T.infinity("float32"))
            for step in T.Pipelined(length // block, num_stages=1):
                T.copy(k[by, step * block, 0], k_shared)
                for i, j in T.Parallel(64, block):
                    if causal:
                        scores[i, j] = T.if_then_else(
                            bx * 64 + i >= step * block + j, 0, -T.infinity("float32")
                        )
                    else:
                        scores[i, j] = 0
                T.gemm(q_shared, k_shared, scores, transpose_B=True)
                T.copy(top, last)
                T.reduce_max(scores, top, dim=1, clear=False)
                for i in T.Parallel(64):
                    change[i] = T.exp2((last[i] - top[i]) * scale)
                for i, j in T.Parallel(64, block):
                    scores[i, j] = T.exp2((scores[i, j] - top[i]) * scale)
                T.reduce_sum(scores, part, dim=1)
                for i in T.Parallel(64):
                    total[i] = total[i] * change[i] + part[i]
                T.copy(scores, weights)
                for i, j in T.Parallel(64, dim):
                    if mistake != "rescale":
                        result[i, j] *= change[i]
                T.copy(v[by, step * block, 0], v_shared)
                T.gemm(weights, v_shared, result)
            for i, j in T.Parallel(64, dim):
                result[i, j] /= total[i]
            T.copy(result, out[by, bx * 64, 0])

    return main


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("causal", [False, True])
def test_attention(target, causal):
    kernel = compiled(attention(1, 128, 64, causal=causal), target)
    q, k, v = (torch.randn(1, 128, 64).bfloat16() for _ in range(3))
    attend = torch.nn.functional.scaled_dot_product_attention
    verdict = check(kernel, lambda q, k, v: attend(q, k, v, is_causal=causal), q, k, v)
    assert verdict.equal, str(verdict)


def test_attention_without_rescaling():
    program = attention(1, 128, 64, mistake="rescale")
    kernel = compiled(program, "sm_100a")
    q, k, v = (torch.randn(1, 128, 64).bfloat16() for _ in range(3))
    attend = torch.nn.functional.scaled_dot_product_attention
    assert not check(kernel, attend, q, k, v).equal


def rms_norm(rows, columns):
    @T.prim_func
    def main(
        x: T.Tensor((rows, columns), "bfloat16"),
        w: T.Tensor((columns,), "bfloat16"),
        y: T.Tensor((rows, columns), "bfloat16"),
    ):
        with T.Kernel(rows // 8, threads=64) as bx:
            tile = T.alloc_fragment((8, columns), "float32")
            squares = T.alloc_fragment((8, columns), "float32")
            total = T.alloc_fragment((8,), "float32")
            T.copy(x[bx * 8, 0], tile)
            for i, j in T.Parallel(8, columns):
                squares[i, j] = tile[i, j] * tile[i, j]
            T.reduce_sum(squares, total, dim=1)
            for i, j in T.Parallel(8, columns):
                tile[i, j] = tile[i, j] * T.rsqrt(total[i] / columns + 1e-6) * w[j]
            T.copy(tile, y[bx * 8, 0])

    return main


def test_rms_norm():
    kernel = compiled(rms_norm(16, 96), "sm_100a")
    x, w = torch.randn(16, 96).bfloat16(), torch.randn(96).bfloat16()
    verdict = check(kernel, lambda x, w: torch.nn.functional.rms_norm(x, (96,), w, eps=1e-6), x, w)
    assert verdict.equal, str(verdict)


FUNCTIONS = {
    "exp": torch.exp, "exp2": torch.exp2, "log": torch.log, "log2": torch.log2,
    "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "tanh": torch.tanh, "sigmoid": torch.sigmoid,
}  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name, target):
    """Also where libdevice computes them by polynomials and the bits of a float."""
    function = getattr(T, name)

    @T.prim_func
    def main(x: T.Tensor((64,), "float32"), y: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(64):
                y[i] = function(x[i]) * 3 + x[i]

    verdict = check(
        compiled(main, target), lambda x: FUNCTIONS[name](x) * 3 + x, torch.rand(64) + 0.1
    )
    assert verdict.equal, str(verdict)


def test_polynomial_exponentials():
    @T.prim_func
    def main(x: T.Tensor((64,), "float32"), y: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                y[i] = T.exp2_fma(x[i]) + T.exp2(x[i])

    x = torch.randn(64) * 4
    verdict = check(compiled(main, "sm_100a"), lambda x: torch.exp2(x) * 2, x)
    assert verdict.equal, str(verdict)


def test_the_exponential_of_flash_attention_4():
    """A polynomial of degree 3 of the fraction, whose exponent integers add to."""

    @T.prim_func
    def main(x: T.Tensor((64,), "float32"), y: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                shifted = x[i] + 12582912.0
                rest = x[i] - (shifted - 12582912.0)
                power = 0.07711908966302872 * rest + 0.22756439447402954
                power = power * rest + 0.6951461434364319
                power = power * rest + 1.0
                bits = T.reinterpret("int32", shifted) << 23
                y[i] = T.reinterpret("float32", T.reinterpret("int32", power) + bits)

    kernel = compiled(main, "sm_100a")
    verdict = check(kernel, torch.exp2, torch.randn(64))
    assert verdict.equal, str(verdict)
