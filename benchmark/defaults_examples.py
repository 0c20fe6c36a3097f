"""Examples with their defaults beside torch, as of benchmark/defaults.py --examples.

Each row of the table is an example, its numbers the time of the peer over that of the example for
each of its shapes. Tiles, splits and stages are those that the example's ``main`` chooses.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import in_turns
import result_files
import torch
from ahead import compile_ahead
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import conv2d, grouped_mm, scaled_dot_product_attention

import tilelang

sys.path.append(str(Path(__file__).parents[1] / "examples" / "convolution"))
sys.path.append(str(Path(__file__).parents[1] / "examples" / "flash_attention"))
sys.path.append(str(Path(__file__).parents[1] / "examples" / "gemm"))
sys.path.append(str(Path(__file__).parents[1] / "examples" / "gemm_sm90"))
sys.path.append(str(Path(__file__).parents[1] / "examples" / "reductions"))
import attention_backward_added
import attention_forward
import column_sums
import conv2d as convolution
import flash_decoding
import gemm_dequantize
import gemm_fp8
import gemm_multicast
import gemm_split_k
import gemm_stream_k
import grouped_gemm
import timing_tiles

TARGET = "sm_90a"
CUBES = [(4096, 4096, 4096), (8192, 8192, 8192), (4096, 14336, 4096), (8192, 1024, 8192)]
GROUPS = [[3000, 1000, 2500, 500, 0, 1192], [1024] * 8, [256] * 32, [33] * 16]
IMAGES = [(128, 56, 56, 128, 128), (64, 28, 28, 512, 512), (64, 14, 14, 1024, 1024)]
CACHES = [(64, 2048), (32, 8192), (32, 2048), (8, 32768)]
#: batch, queries, keys, heads, heads of K and V, dimensions of K and of V
LENGTHS = [(8, 512, 512), (8, 1024, 1024), (4, 4096, 4096), (4, 4096, 77)]
HEADS, KV_HEADS, DIM = 32, 4, 128
#: batch, length, heads, heads of K and V, dimension; causal
GRADIENTS = [
    (2, 2047, 16, 16, 128, False),
    (2, 2048, 32, 8, 128, True),
    (4, 2048, 16, 16, 96, False),
    (4, 4096, 16, 16, 128, False),
]
#: format of the weights, rows of A
WEIGHTS = [(kind, m) for kind in ("int4", "fp4") for m in (1, 16, 64, 256)]
#: rows and columns of the weights: those that the tiles are chosen by, and others
FOUR_BITS = [(14336, 4096), (4096, 14336)]
FOUR_BITS_HELD_BACK = [(8192, 8192), (11008, 4096), (4096, 11008), (5120, 13824)]


class Pair(NamedTuple):
    """The same by an example and by torch; what the example writes, and what it should be.

    ``tolerance`` is of the relative error in the Frobenius norm.
    """

    run: Callable[[], object]
    peer: Callable[[], object]
    got: torch.Tensor
    want: torch.Tensor
    tolerance: float = 1e-2


def normal(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """Normal random numbers on the GPU."""
    return torch.randn(shape, device="cuda").to(dtype)


def poisoned(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """Room for a result."""
    return torch.full(shape, float("nan"), device="cuda", dtype=dtype)


def float8(promote_every: int, sizes: tuple[int, int, int], kernel: Any = None) -> Any:
    """Scaled float8; the peer's sums are as accurate."""
    m, n, k = sizes
    if kernel is None:
        tiles = gemm_fp8.tiles(promote_every, TARGET)
        return gemm_fp8.gemm_fp8(*sizes, promote_every, "float8_e4m3fn", "bfloat16", **tiles), {}
    kind = torch.float8_e4m3fn
    a, scale_a = gemm_fp8.quantized(normal(m, k, dtype=torch.float32), kind)
    b, scale_b = gemm_fp8.quantized(normal(n, k, dtype=torch.float32), kind)
    c = poisoned(m, n)
    scales = scale_a[:, None], scale_b[None, :]
    options = {"out_dtype": torch.bfloat16, "use_fast_accum": not promote_every}
    want = (a.float() * scales[0]) @ (b.float() * scales[1].T).T
    return Pair(
        functools.partial(kernel, a, b, scale_a, scale_b, c),
        lambda: torch._scaled_mm(a, b.T, *scales, **options),
        c,
        want,
    )


def grouped(sizes: Sequence[int], kernel: Any = None) -> Any:
    """Gemms of different heights."""
    rows, groups, n, k = sum(sizes), len(sizes), 4096, 4096
    if kernel is None:
        tiles = grouped_gemm.tiles(n, TARGET)
        return grouped_gemm.grouped_gemm(rows, groups, n, k, "bfloat16", **tiles), {}
    a, b, c = normal(rows, k), normal(groups, k, n), poisoned(rows, n)
    ends = torch.tensor(sizes).cumsum(0).to("cuda", torch.int32)
    want = torch.cat([x @ y for x, y in zip(a.split(list(sizes)), b, strict=True)])
    return Pair(
        functools.partial(kernel, a, b, ends, c), lambda: grouped_mm(a, b, offs=ends), c, want
    )


def multicast(sizes: tuple[int, int, int], kernel: Any = None) -> Any:
    """Clusters of two."""
    m, n, k = sizes
    if kernel is None:
        return gemm_multicast.gemm_multicast(*sizes, 2), {}
    a, b, c = normal(m, k), normal(n, k), poisoned(m, n)
    return Pair(functools.partial(kernel, a, b, c), lambda: a @ b.T, c, a @ b.T)


def split_k(sizes: tuple[int, int, int], kernel: Any = None) -> Any:
    """A small result of a long K; the launch that sets it to zero counts."""
    m, n, k = sizes
    if kernel is None:
        own = gemm_split_k.tiles(m, n, TARGET)
        return gemm_split_k.gemm_split_k(*sizes, dtype="float16", **own), {}
    a, b = normal(m, k, dtype=torch.float16), normal(k, n, dtype=torch.float16)
    c = poisoned(m, n, dtype=torch.float32)
    return Pair(functools.partial(kernel, a, b, c), lambda: a @ b, c, a.float() @ b.float())


def stream_k(sizes: tuple[int, int, int], kernel: Any = None) -> Any:
    """Blocks that work equally long, one a multiprocessor."""
    m, n, k = sizes
    if kernel is None:
        own = gemm_stream_k.tiles(*sizes, 132, TARGET)
        return gemm_stream_k.gemm_stream_k(*sizes, 132, "float16", **own), {}
    a, b = normal(m, k, dtype=torch.float16), normal(k, n, dtype=torch.float16)
    c = poisoned(m, n, dtype=torch.float16)
    return Pair(functools.partial(kernel, a, b, c), lambda: a @ b, c, a.float() @ b.float())


def random_codes(n: int, k: int) -> torch.Tensor:
    """Weights of 4 bits, each in a byte."""
    return torch.randint(0, 16, (n, k), device="cuda", dtype=torch.uint8)


def four_bits(size: tuple[int, int], case: tuple[str, int], kernel: Any = None) -> Any:
    """Weights of 4 bits; the peer's are whole."""
    (kind, m), (n, k) = case, size
    blocks = gemm_dequantize.tiles(m, n, k, TARGET)
    if kernel is None:
        return gemm_dequantize.gemm_dequantize(m, n, k, kind, "float16", **blocks), {}
    half, size = torch.float16, (k // gemm_dequantize.GROUPS[kind], n)
    codes = random_codes(n, k)
    if kind == "int4":
        scales = normal(*size, dtype=half)
    else:
        scales = torch.randint(123, 131, size, device="cuda", dtype=torch.uint8)
    weights = gemm_dequantize.values_of(codes, scales, kind).to(half)
    a, c = normal(m, k, dtype=half), poisoned(m, n, dtype=half)
    sums = poisoned(blocks["parts"], m, n, dtype=torch.float32)
    run = functools.partial(kernel, a, gemm_dequantize.words_of(codes, kind), scales, sums, c)
    return Pair(run, lambda: a @ weights.T, c, a.float() @ weights.float().T)


def packed(n: int, kernel: Any = None) -> Any:
    """One row by int4 weights beside torch's kernel for them: 8192 columns of A."""
    k, group = 8192, gemm_dequantize.GROUPS["int4"]
    blocks = gemm_dequantize.tiles(1, n, k, TARGET)
    if kernel is None:
        return gemm_dequantize.gemm_dequantize(1, n, k, "int4", "bfloat16", **blocks), {}
    codes, scales = random_codes(n, k), normal(k // group, n)
    a, c = normal(1, k), poisoned(1, n)
    sums = poisoned(blocks["parts"], 1, n, dtype=torch.float32)
    # torch's are unsigned, the first of a byte in its upper bits; 8 is subtracted
    own = codes ^ 8
    theirs = torch._convert_weight_to_int4pack(own[:, 0::2] << 4 | own[:, 1::2], 8)
    both = torch.stack([scales, torch.zeros_like(scales)], 2).contiguous()
    peer = functools.partial(torch._weight_int4pack_mm, a, theirs, group, both)
    weights = gemm_dequantize.values_of(codes, scales, "int4").bfloat16()
    want = a.float() @ weights.float().T
    error = (peer().float() - want).norm() / want.norm()
    assert error < 2e-2, f"torch's int4: relative error {error.item():.2g}"
    run = functools.partial(kernel, a, gemm_dequantize.words_of(codes, "int4"), scales, sums, c)
    return Pair(run, peer, c, want)


def columns(sizes: tuple[int, int], kernel: Any = None) -> Any:
    """Sums of columns."""
    function, length = column_sums.column_sums(*sizes, "bfloat16")
    if kernel is None:
        return function, {}
    x, sums = normal(*sizes), poisoned(length, dtype=torch.float32)
    return Pair(
        functools.partial(kernel, x, sums),
        lambda: x.sum(0, dtype=torch.float32),
        sums[: sizes[1]],
        x.double().sum(0),
    )


def transposed(sizes: tuple[int, int], kernel: Any = None) -> Any:
    """As README would write it, through a shared tile."""
    if kernel is None:
        return timing_tiles.transpose.get_tir(*sizes, dtype="bfloat16"), {}
    x, y = normal(*sizes), poisoned(*sizes[::-1])
    out = torch.empty_like(y)
    return Pair(functools.partial(kernel, x, y), lambda: out.copy_(x.T), y, x.T, 0.0)


def images(sizes: tuple[int, int, int, int, int], kernel: Any = None) -> Any:
    """3 x 3 convolutions of channels-last images."""
    *image, features = sizes
    function, shape = convolution.program(image, features, (3, 1, 1, 1), "float16", TARGET)
    if kernel is None:
        return function, {}
    batch, height, width, channels = image
    x = normal(batch, height, width, channels, dtype=torch.float16)
    w = normal(3, 3, channels, features, dtype=torch.float16)
    last = {"memory_format": torch.channels_last}
    own_x, own_w = x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1).contiguous(**last)
    y = poisoned(*shape, dtype=torch.float16)
    want = conv2d(own_x, own_w, padding=1).permute(0, 2, 3, 1).reshape(y.shape)
    columns = w.view(-1, features)
    return Pair(
        functools.partial(kernel, x, columns, y), lambda: conv2d(own_x, own_w, padding=1), y, want
    )


def decoding(sizes: tuple[int, int], kernel: Any = None) -> Any:
    """One query of each sequence."""
    batch, keys = sizes
    if kernel is None:
        tiles = flash_decoding.default_tiles(TARGET, DIM, HEADS // KV_HEADS)
        shared = batch, KV_HEADS, keys, TARGET, tiles["block_N"]
        splits = flash_decoding.default_splits(*shared)
        sizes = batch, keys, HEADS, KV_HEADS, DIM
        function = flash_decoding.flash_decoding(*sizes, splits, **tiles)
        return function, attention_forward.PASS_CONFIGS
    half = torch.float16
    q = normal(batch, HEADS, DIM, dtype=half)
    k, v = (normal(batch, keys, KV_HEADS, DIM, dtype=half) for _ in range(2))
    lengths = torch.full((batch,), keys, dtype=torch.int32, device="cuda")
    out = poisoned(batch, HEADS, DIM, dtype=half)
    swapped = q[:, :, None], k.transpose(1, 2), v.transpose(1, 2)
    attend = functools.partial(scaled_dot_product_attention, *swapped, enable_gqa=True)
    run, want = functools.partial(kernel, q, k, v, lengths, out), attend()[:, :, 0]
    return Pair(run, in_turns.without_host(attend), out, want)


def attention(sizes: tuple[int, int, int], kernel: Any = None) -> Any:
    """16 heads of 64 dimensions beside cuDNN."""
    batch, queries, keys = sizes
    shape = attention_forward.Shape(batch, queries, keys, 16, 16, 64, 64)
    if kernel is None:
        tiles = attention_forward.default_tiles(TARGET, 64, 64, (queries, keys))
        function = attention_forward.attention(shape, False, "bfloat16", **tiles)
        return function, attention_forward.PASS_CONFIGS
    q, k, v = (normal(batch, length, 16, 64) for length in (queries, keys, keys))
    out, lse = poisoned(*q.shape), poisoned(batch, 16, queries, dtype=torch.float32)
    swapped = [x.transpose(1, 2) for x in (q, k, v)]

    def attend() -> torch.Tensor:
        with sdpa_kernel([SDPBackend.CUDNN_ATTENTION]):
            return scaled_dot_product_attention(*swapped)

    run, want = functools.partial(kernel, q, k, v, out, lse), attend().transpose(1, 2)
    return Pair(run, in_turns.without_host(attend), out, want)


def gradients(sizes: tuple[int, int, int, int, int, bool], kernel: Any = None) -> Any:
    """dQ, dK and dV beside cuDNN's, which are the reference as well."""
    batch, length, heads, kv_heads, dim, causal = sizes
    shape = attention_forward.Shape(batch, length, length, heads, kv_heads, dim, dim)
    if kernel is None:
        return attention_backward_added.Backward(shape, causal, target=TARGET)
    own = [normal(batch, length, h, dim) for h in (heads, kv_heads, kv_heads)]
    q, k, v = (x.transpose(1, 2).detach().requires_grad_() for x in own)
    with sdpa_kernel([SDPBackend.CUDNN_ATTENTION]):
        out = scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=heads != kv_heads)
    d_out, shared = torch.randn_like(out), k.float().repeat_interleave(heads // kv_heads, 1)
    scores = (q.float() @ shared.transpose(2, 3) / dim**0.5).detach()
    if causal:
        scores.masked_fill_(torch.ones_like(scores[0, 0], dtype=torch.bool).triu(1), -torch.inf)
    lse = scores.logsumexp(-1)
    del scores
    peer = functools.partial(torch.autograd.grad, out, (q, k, v), d_out, retain_graph=True)
    got = [torch.full_like(x, float("nan")) for x in own]
    inputs = *own, out.transpose(1, 2).detach().contiguous(), d_out.transpose(1, 2).contiguous()
    run = functools.partial(kernel.launch, *inputs, lse, kernel.workspace("cuda"), got)
    run()
    want = torch.cat([x.transpose(1, 2).flatten() for x in peer()])
    return Pair(run, peer, torch.cat([x.flatten() for x in got]), want)


#: by name: what returns a prim_func and pass options, or with a kernel a Pair; and its shapes
EXAMPLES: dict[str, tuple[Callable[..., Any], Sequence[Any]]] = {
    "float8": (functools.partial(float8, 0), CUBES),
    "float8, sums in float32": (functools.partial(float8, 128), CUBES),
    "grouped": (grouped, GROUPS),
    "multicast": (multicast, CUBES),
    "split-K": (split_k, [(128, 512, 65536), (64, 1024, 32768)]),
    "conv2d": (images, IMAGES),
    "decoding": (decoding, CACHES),
    "attention": (attention, LENGTHS),
    "gradients of attention": (gradients, GRADIENTS),
    "stream-K": (stream_k, [(1536, 1664, 8192), (4096, 4096, 4096), (3000, 2000, 6000)]),
    **{
        f"4 bits, {n} x {k}": (functools.partial(four_bits, (n, k)), WEIGHTS)
        for n, k in FOUR_BITS + FOUR_BITS_HELD_BACK
    },
    "int4 beside int4pack": (packed, [8192, 28672]),
    "sums of columns": (columns, [(65536, 4096), (1000000, 64), (16384, 1000)]),
    "transpose": (transposed, [(8192, 8192), (2904, 5656), (16384, 1000)]),
}


def build(job: tuple[str, int]) -> Any:
    """Compiles the kernel of an example for one of its shapes."""
    name, number = job
    make, shapes = EXAMPLES[name]
    made = make(shapes[number])
    if isinstance(made, attention_backward_added.Backward):
        return made
    function, configs = made
    return tilelang.compile(function, target=TARGET, pass_configs=configs)


def table(rounds: int, folder: Path | None) -> None:
    """Prints a row for each example, after checking its results, and writes the table."""
    found = result_files.Table("examples_torch", ("example", "shapes", "ratio to torch"))
    jobs = [(name, i) for name, (_, shapes) in EXAMPLES.items() for i in range(len(shapes))]
    compile_ahead(build, jobs)
    torch.backends.cudnn.benchmark = True
    for name, (make, shapes) in EXAMPLES.items():
        ratios = []
        for number, shape in enumerate(shapes):
            pair = make(shape, build((name, number)))
            pair.run()
            error = (pair.got.float() - pair.want.float()).norm() / pair.want.float().norm()
            assert error <= pair.tolerance, f"{name} {shape}: relative error {error.item():.2g}"
            times = in_turns.milliseconds({"run": pair.run, "peer": pair.peer}, rounds)
            ratios.append(f"{times['peer'] / times['run']:5.2f}")
            torch.cuda.empty_cache()
        print(f"{name:26} {'  '.join(ratios)}   {'; '.join(map(str, shapes))}", flush=True)
        found.add(name, "; ".join(map(str, shapes)), "; ".join(map(str.strip, ratios)))
    found.save(folder)
