"""Triton kernels for sm_90a and their PTX, which the tests run: ``python triton_sm90.py`` writes
``triton_sm90_<kernel>.ptx`` beside this file. It needs Triton, and no GPU."""

from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, lda, ldb, ldc,
           BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):  # fmt: skip
    """Row-major f16, loaded with cp.async: B is MN-major."""
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    a = a_ptr + rm[:, None] * lda + rk[None, :]
    b = b_ptr + rk[:, None] * ldb + rn[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a, mask=(rm[:, None] < M) & (rk[None, :] + k < K), other=0.0)
        y = tl.load(b, mask=(rn[None, :] < N) & (rk[:, None] + k < K), other=0.0)
        acc = tl.dot(x, y, acc)
        a += BK
        b += BK * ldb
    c = c_ptr + rm[:, None] * ldc + rn[None, :]
    tl.store(c, acc.to(tl.float16), mask=(rm[:, None] < M) & (rn[None, :] < N))


@triton.jit
def matmul_tma(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """bf16, B transposed, tensor maps from the host."""
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([m, k]), b.load([n, k]).T, acc)
    c.store([m, n], acc.to(tl.bfloat16))


@triton.jit
def matmul_desc(a_ptr, b_ptr, c_ptr, M, N, K,
                BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):  # fmt: skip
    """The same with tensor maps made on the device."""
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [BN, BK])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN])
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([m, k]), b.load([n, k]).T, acc)
    c.store([m, n], acc.to(tl.bfloat16))


@triton.jit
def attention(q_ptr, k_ptr, v_ptr, o_ptr, S, scale,
              D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):  # fmt: skip
    """f16 [heads, S, D]; P goes from accumulators to registers of A. ``scale`` includes log2(e)."""
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn, rd = tl.arange(0, BN), tl.arange(0, D)
    base = tl.program_id(1) * S * D
    q = tl.load(q_ptr + base + rm[:, None] * D + rd[None, :])
    m = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for j in range(0, S, BN):
        k = tl.load(k_ptr + base + (j + rn[None, :]) * D + rd[:, None])
        v = tl.load(v_ptr + base + (j + rn[:, None]) * D + rd[None, :])
        s = tl.dot(q, k) * scale
        largest = tl.maximum(m, tl.max(s, 1))
        p = tl.exp2(s - largest[:, None])
        factor = tl.exp2(m - largest)
        total = total * factor + tl.sum(p, 1)
        acc = tl.dot(p.to(tl.float16), v, acc * factor[:, None])
        m = largest
    o = o_ptr + base + rm[:, None] * D + rd[None, :]
    tl.store(o, (acc / total[:, None]).to(tl.float16))


def build(function, types, constants, warps):
    names = function.arg_names
    signature = dict(zip(names, [*types, *["constexpr"] * len(constants)], strict=True))
    # Pointers and extents are multiples of 16.
    aligned = [i for i, t in enumerate(types) if t == "i32" or t.startswith("*")]
    source = ASTSource(
        function,
        signature=signature,
        constexprs={(names.index(n),): v for n, v in constants.items()},
        attrs={(i,): [["tt.divisibility", 16]] for i in aligned},
    )
    options = {"num_warps": warps, "num_stages": 3}
    kernel = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    here = Path(__file__)
    text = kernel.asm["ptx"]
    for folder in (here.parent, Path(triton.__file__).parents[1]):
        text = text.replace(f"{folder}/", "")
    here.with_name(f"triton_sm90_{function.__name__}.ptx").write_text(text)
    meta = kernel.metadata
    print(function.__name__, "shared", meta.shared, "scratch", meta.global_scratch_size,
          "maps", getattr(meta, "tensordesc_meta", None))  # fmt: skip


if __name__ == "__main__":
    tile = {"BM": 128, "BN": 128, "BK": 64}
    a_map, c_map = "tensordesc<bf16[128, 64]>", "tensordesc<bf16[128, 128]>"
    build(matmul, ["*fp16"] * 3 + ["i32"] * 6, {**tile, "BK": 32}, 4)
    build(matmul_tma, [a_map, a_map, c_map, "i32"], tile, 8)
    build(matmul_desc, ["*bf16"] * 3 + ["i32"] * 3, tile, 8)
    build(attention, ["*fp16"] * 4 + ["i32", "fp32"], {"D": 64, "BM": 64, "BN": 64}, 4)
