"""Programs that multiply matrices."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor
from triton_programs.programs import Program, check, collect, poisoned, randn

PROGRAMS: list[Program] = []
program = collect(PROGRAMS)
TMA = ("sm_90a", "sm_100a")


@triton.jit
def leaky_relu(x):
    return tl.where(x >= 0, x, 0.01 * x)


@triton.autotune(
    configs=[
        triton.Config({"BM": 64, "BN": 64, "BK": 32, "GROUP": 2}, num_stages=3, num_warps=4),
        triton.Config({"BM": 128, "BN": 64, "BK": 64, "GROUP": 4}, num_stages=2, num_warps=8),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, bias_ptr, M, N, K, sam, sak, sbk, sbn, scm, scn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    ACTIVATION: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    first = pid // (GROUP * columns) * GROUP
    size = min(rows - first, GROUP)
    pm = first + (pid % (GROUP * columns)) % size
    pn = (pid % (GROUP * columns)) // size
    rm = (pm * BM + tl.arange(0, BM)) % M
    rn = (pn * BN + tl.arange(0, BN)) % N
    rk = tl.arange(0, BK)
    a = a_ptr + rm[:, None] * sam + rk[None, :] * sak
    b = b_ptr + rk[:, None] * sbk + rn[None, :] * sbn
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(tl.cdiv(K, BK)):
        x = tl.load(a, mask=rk[None, :] < K - k * BK, other=0.0)
        y = tl.load(b, mask=rk[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(x, y, acc)
        a += BK * sak
        b += BK * sbk
    om, on = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN)
    acc += tl.load(bias_ptr + on, mask=on < N, other=0.0)[None, :]
    if ACTIVATION == "leaky_relu":
        acc = leaky_relu(acc)
    c = c_ptr + om[:, None] * scm + on[None, :] * scn
    tl.store(c, acc.to(c_ptr.dtype.element_ty), mask=(om[:, None] < M) & (on[None, :] < N))


@program
def autotuned_matmul(arch):
    """Grouped order of tiles, ragged edges, a bias and an activation."""
    m, n, k = 150, 136, 104
    a, b = randn(m, k, dtype=torch.float16), randn(k, n, dtype=torch.float16, seed=1)
    bias, c = randn(n, seed=2), poisoned(m, n, dtype=torch.float16)
    matmul_kernel[lambda meta: (triton.cdiv(m, meta["BM"]) * triton.cdiv(n, meta["BN"]),)](
        a, b, c, bias, m, n, k, *a.stride(), *b.stride(), *c.stride(), ACTIVATION="leaky_relu"
    )
    exact = torch.nn.functional.leaky_relu(a.double() @ b.double() + bias.double())
    check(c, exact, atol=1e-2)
    times = matmul_kernel.configs_timings
    assert matmul_kernel.best_config == min(times, key=times.get)


@triton.jit
def dot_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, ACC: tl.constexpr,
    PRECISION: tl.constexpr, SPLIT: tl.constexpr,
):  # fmt: skip
    """C (M, N) of A (M, K) and B (N, K); programs of axis 2 have a part of K each."""
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), ACC)
    for k in range(tl.program_id(2) * BK, K, BK * SPLIT):
        rk = k + tl.arange(0, BK)
        a = tl.load(a_ptr + rm[:, None] * K + rk[None, :], mask=rm[:, None] < M, other=0.0)
        b = tl.load(b_ptr + rn[None, :] * K + rk[:, None], mask=rn[None, :] < N, other=0.0)
        acc = tl.dot(a, b, acc, input_precision=PRECISION, out_dtype=ACC)
    c = c_ptr + rm[:, None] * N + rn[None, :]
    inside = (rm[:, None] < M) & (rn[None, :] < N)
    if SPLIT == 1:
        tl.store(c, acc, mask=inside)
    else:
        tl.atomic_add(c, acc, mask=inside)


def dot(a, b, c, acc=tl.float32, precision="tf32", split=1, **options):
    (m, k), n = a.shape, b.shape[0]
    dot_kernel[(triton.cdiv(m, 64), triton.cdiv(n, 64), split)](
        a, b, c, m, n, k, BM=64, BN=64, BK=64, ACC=acc, PRECISION=precision, SPLIT=split, **options
    )
    return a.double() @ b.double().T


@program
def split_k_by_atomics(arch):
    a, b = randn(70, 256, dtype=torch.bfloat16), randn(90, 256, dtype=torch.bfloat16, seed=1)
    c = torch.zeros(70, 90)
    check(c, dot(a, b, c, split=3), atol=1e-4)


@program
def float8_matmul(arch):
    dtype = torch.float8_e5m2 if arch == "sm_80" else torch.float8_e4m3fn
    a, b, c = randn(64, 128, dtype=dtype), randn(64, 128, dtype=dtype, seed=1), poisoned(64, 64)
    exact = dot(a, b, c)
    # wgmma keeps 13 bits of a sum of float8.
    bound = a.double().abs() @ b.double().abs().T * (2.0**-10 if arch == "sm_90a" else 2.0**-20)
    assert ((c - exact).abs() <= bound).all()


@program
def integer_matmul(arch):
    a, b = [torch.randint(-128, 128, (64, 128)).to(torch.int8) for _ in range(2)]
    c = poisoned(64, 64, dtype=torch.int32)
    assert torch.equal(dot(a, b, c, acc=tl.int32).int(), c)


@program
def precisions_of_float32(arch):
    """tf32 on values that it keeps, three products of it on others, and fused multiply-adds."""
    a, b, c = randn(64, 64), randn(64, 64, seed=1), poisoned(64, 64)
    short = a.bfloat16().float(), b.bfloat16().float()
    check(c, dot(*short, c), atol=1e-4)
    check(c, dot(a, b, c, precision="tf32x3"), atol=1e-4)
    check(c, dot(a, b, c, precision="ieee", num_warps=8), atol=1e-4)


@triton.jit
def tma_kernel(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([m, k]), b.load([n, k]).T, acc)
    c.store([m, n], acc.to(c.dtype))


@program
def host_descriptors(arch):
    """Where there is no TMA, descriptors become pointers."""
    m, n, k = 144, 128, 160
    a, b = randn(m, k, dtype=torch.bfloat16), randn(n, k, dtype=torch.bfloat16, seed=1)
    c = poisoned(m, n, dtype=torch.bfloat16)
    blocks = {"BM": 64, "BN": 64, "BK": 64}
    tma_kernel[(triton.cdiv(m, 64), n // 64)](
        TensorDescriptor.from_tensor(a, [64, 64]),
        TensorDescriptor.from_tensor(b, [64, 64]),
        TensorDescriptor.from_tensor(c, [64, 64]),
        k,
        **blocks,
        num_stages=3,
    )
    check(c, a.double() @ b.double().T, atol=1e-2)


@collect(PROGRAMS, TMA)
def clusters(arch):
    """num_ctas: the blocks of a cluster share a tile."""
    m, n, k = 128, 128, 128
    a, b = randn(m, k, dtype=torch.float16), randn(n, k, dtype=torch.float16, seed=1)
    c = poisoned(m, n)
    check(c, dot(a, b, c, num_ctas=2), atol=1e-3)


@triton.jit
def persistent_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, BLOCKS: tl.constexpr,
    SPECIALIZED: tl.constexpr, FLATTEN: tl.constexpr,
):  # fmt: skip
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [BN, BK])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN])
    columns = tl.cdiv(N, BN)
    tiles = tl.cdiv(M, BM) * columns
    for tile in tl.range(
        tl.program_id(0), tiles, BLOCKS, flatten=FLATTEN, warp_specialize=SPECIALIZED
    ):
        m, n = tile // columns * BM, tile % columns * BN
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(a.load([m, k]), b.load([n, k]).T, acc)
        c.store([m, n], acc.to(c_ptr.dtype.element_ty))


def persistent(specialized: bool, flatten: bool) -> None:
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8))
    m, n, k, blocks = 256, 192, 128, 2
    a, b = randn(m, k, dtype=torch.float16), randn(n, k, dtype=torch.float16, seed=1)
    c = poisoned(m, n, dtype=torch.float16)
    persistent_kernel[(blocks,)](
        a, b, c, m, n, k, BM=128, BN=64, BK=64, BLOCKS=blocks, SPECIALIZED=specialized,
        FLATTEN=flatten, num_warps=4, num_stages=3,
    )  # fmt: skip
    check(c, a.double() @ b.double().T, atol=1e-2)


@program
def persistent_with_device_descriptors(arch):
    persistent(specialized=False, flatten=True)


@collect(PROGRAMS, TMA)
def persistent_with_roles(arch):
    """A producer warp, or on sm_100a also one that multiplies."""
    persistent(specialized=True, flatten=False)


@triton.jit
def grouped_kernel(
    a_ptrs, b_ptrs, c_ptrs, sizes_ptr, GROUPS: tl.constexpr, PROGRAMS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Products of several sizes; their addresses are read from memory."""
    tile, before = tl.program_id(0), 0
    for g in range(GROUPS):
        size_ptr = sizes_ptr + 3 * g
        m, n, k = tl.load(size_ptr), tl.load(size_ptr + 1), tl.load(size_ptr + 2)
        columns = tl.cdiv(n, BN)
        count = tl.cdiv(m, BM) * columns
        while tile >= before and tile < before + count:
            a_ptr = tl.load(a_ptrs + g).to(tl.pointer_type(tl.float16))
            b_ptr = tl.load(b_ptrs + g).to(tl.pointer_type(tl.float16))
            c_ptr = tl.load(c_ptrs + g).to(tl.pointer_type(tl.float16))
            rm = (tile - before) // columns * BM + tl.arange(0, BM)
            rn = (tile - before) % columns * BN + tl.arange(0, BN)
            acc = tl.zeros((BM, BN), tl.float32)
            for start in range(0, k, BK):
                rk = start + tl.arange(0, BK)
                a = tl.load(a_ptr + rm[:, None] * k + rk, mask=rm[:, None] < m, other=0.0)
                b = tl.load(b_ptr + rk[:, None] * n + rn, mask=rn < n, other=0.0)
                acc = tl.dot(a, b, acc)
            inside = (rm[:, None] < m) & (rn < n)
            tl.store(c_ptr + rm[:, None] * n + rn, acc.to(tl.float16), mask=inside)
            tile += PROGRAMS
        before += count


@program
def grouped_gemm(arch):
    sizes = [(64, 64, 64), (100, 40, 96), (32, 130, 32)]
    a = [randn(m, k, dtype=torch.float16, seed=i) for i, (m, _, k) in enumerate(sizes)]
    b = [randn(k, n, dtype=torch.float16, seed=9 + i) for i, (_, n, k) in enumerate(sizes)]
    c = [poisoned(m, n, dtype=torch.float16) for m, n, _ in sizes]
    pointers = [torch.tensor([each.data_ptr() for each in group]) for group in (a, b, c)]
    grouped_kernel[(4,)](
        *pointers, torch.tensor(sizes, dtype=torch.int32), GROUPS=3, PROGRAMS=4, BM=32, BN=32, BK=32
    )
    for x, y, z in zip(a, b, c, strict=True):
        check(z, x.double() @ y.double(), atol=1e-2)


@triton.jit
def batched_kernel(
    a_ptr, b_ptr, c_ptr, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr
):
    rb, rm = tl.arange(0, B)[:, None, None], tl.arange(0, M)[None, :, None]
    rn, rk = tl.arange(0, N)[None, None, :], tl.arange(0, K)
    a = tl.load(a_ptr + (rb * M + rm) * K + rk[None, None, :])
    b = tl.load(b_ptr + (rb * K + rk[None, :, None]) * N + rn)
    tl.store(c_ptr + (rb * M + rm) * N + rn, tl.dot(a, b))


@program
def batched_dot(arch):
    a, b = randn(4, 32, 32, dtype=torch.float16), randn(4, 32, 16, dtype=torch.float16, seed=1)
    c = poisoned(4, 32, 16)
    batched_kernel[(1,)](a, b, c, B=4, M=32, N=16, K=32)
    check(c, a.double() @ b.double(), atol=1e-4)


@triton.jit
def unpack_kernel(
    a_ptr, q_ptr, scale_ptr, c_ptr, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """C (M, N) of A (M, K) and weights of 4 bits (K / 2, N), a scale for each column."""
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        rk, half = k + tl.arange(0, BK), k // 2 + tl.arange(0, BK // 2)
        q = tl.load(q_ptr + half[:, None] * N + rn[None, :])
        both = tl.join((q & 15).to(tl.float16) - 8, (q >> 4).to(tl.float16) - 8)
        w = tl.reshape(tl.permute(both, (0, 2, 1)), (BK, BN))
        acc = tl.dot(tl.load(a_ptr + rm[:, None] * K + rk[None, :]), w, acc)
    acc *= tl.load(scale_ptr + rn)[None, :]
    tl.store(c_ptr + rm[:, None] * N + rn[None, :], acc)


@program
def four_bit_weights(arch):
    m, n, k = 64, 64, 128
    a = randn(m, k, dtype=torch.float16)
    w = torch.randint(0, 16, (k, n))
    packed = (w[0::2] | w[1::2] << 4).to(torch.uint8)
    scale, c = randn(n, seed=2), poisoned(m, n)
    unpack_kernel[(1, 1)](a, packed, scale, c, m, n, k, BM=64, BN=64, BK=64)
    check(c, a.double() @ (w.double() - 8) * scale.double(), atol=1e-3)


@triton.jit
def convolution_kernel(
    x_ptr, w_ptr, out_ptr, H, W, OW, PIXELS,
    C: tl.constexpr, F: tl.constexpr, R: tl.constexpr, BP: tl.constexpr,
):  # fmt: skip
    """Without padding; x [H, W, C], w [R, R, C, F], out [OH, OW, F]."""
    p = tl.program_id(0) * BP + tl.arange(0, BP)
    y, x = p // OW, p % OW
    rc, ro = tl.arange(0, C), tl.arange(0, F)
    acc = tl.zeros((BP, F), tl.float32)
    for tap in range(R * R):
        pixel = (y + tap // R) * W + x + tap % R
        a = tl.load(x_ptr + pixel[:, None] * C + rc, mask=p[:, None] < PIXELS, other=0.0)
        b = tl.load(w_ptr + (tap * C + rc[:, None]) * F + ro)
        acc = tl.dot(a, b, acc)
    tl.store(out_ptr + p[:, None] * F + ro, acc, mask=p[:, None] < PIXELS)


@program
def implicit_gemm_convolution(arch):
    h, w, c, o, r = 10, 9, 32, 16, 3
    x = randn(h, w, c, dtype=torch.float16)
    weight = randn(r, r, c, o, dtype=torch.float16, seed=1)
    out = poisoned(h - 2, w - 2, o)
    pixels = (h - 2) * (w - 2)
    convolution_kernel[(triton.cdiv(pixels, 32),)](
        x, weight, out, h, w, w - 2, pixels, C=c, F=o, R=r, BP=32
    )
    exact = torch.nn.functional.conv2d(
        x.double().permute(2, 0, 1)[None], weight.double().permute(3, 2, 0, 1)
    )
    check(out, exact[0].permute(1, 2, 0), atol=1e-3)


@triton.jit
def scaled_kernel(
    a_ptr, as_ptr, b_ptr, bs_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr
):
    """E4m3 with a scale (a power of two) for each 32 along K."""
    rm, rn, rk, rs = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K), tl.arange(0, K // 32)
    a = tl.load(a_ptr + rm[:, None] * K + rk)
    b = tl.load(b_ptr + rk[:, None] * N + rn)
    sa = tl.load(as_ptr + rm[:, None] * (K // 32) + rs)
    sb = tl.load(bs_ptr + rn[:, None] * (K // 32) + rs)
    acc = tl.dot_scaled(a, sa, "e4m3", b, sb, "e4m3")
    tl.store(c_ptr + rm[:, None] * N + rn, acc)


@collect(PROGRAMS, ("sm_90a", "sm_100a"))
def block_scaled_dot(arch):
    """On sm_90a Triton dequantises."""
    m, n, k = 64, 32, 64
    a = randn(m, k).to(torch.float8_e4m3fn)
    b = randn(k, n, seed=1).to(torch.float8_e4m3fn)
    sa, sb = [torch.randint(120, 134, (each, k // 32)).to(torch.uint8) for each in (m, n)]
    c = poisoned(m, n)
    kind = torch.uint8  # Triton takes the bytes where the target has no such type
    scaled_kernel[(1,)](a.view(kind), sa, b.view(kind), sb, c, M=m, N=n, K=k)

    def scale(exponents):
        return (2.0 ** (exponents.double() - 127)).repeat_interleave(32, 1)

    check(c, (a.double() * scale(sa)) @ (b.double() * scale(sb).T), rtol=1e-3, atol=1e-2)
