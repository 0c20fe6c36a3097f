"""Kernels of which mutants are made: each function returns a program, its reference and inputs."""

import torch
from torch.nn import functional as F

import tilelang.language as T


def rand(*shape, dtype=torch.bfloat16):
    return torch.randn(*shape).to(dtype)


def gemm():
    @T.prim_func
    def main(
        a: T.Tensor((128, 160), "bfloat16"),
        b: T.Tensor((160, 64), "bfloat16"),
        c: T.Tensor((128, 64), "bfloat16"),
    ):
        with T.Kernel(1, 2, threads=128) as (bx, by):
            a_shared = T.alloc_shared((64, 32), "bfloat16")
            b_shared = T.alloc_shared((32, 64), "bfloat16")
            total = T.alloc_fragment((64, 64), "float32")
            T.clear(total)
            for i in T.Pipelined(5, num_stages=2):
                T.copy(a[by * 64, i * 32], a_shared)
                T.copy(b[i * 32, bx * 64], b_shared)
                T.gemm(a_shared, b_shared, total)
            T.copy(total, c[by * 64, bx * 64])

    return main, lambda a, b: a.float() @ b.float(), (rand(128, 160), rand(160, 64))


def bias_relu_gemm():
    @T.prim_func
    def main(
        a: T.Tensor((64, 512), "float16"),
        b: T.Tensor((64, 512), "float16"),
        bias: T.Tensor((64,), "float32"),
        c: T.Tensor((64, 64), "float16"),
    ):
        with T.Kernel(1, threads=128):
            a_shared = T.alloc_shared((64, 64), "float16")
            b_shared = T.alloc_shared((64, 64), "float16")
            total = T.alloc_fragment((64, 64), "float32")
            T.clear(total)
            for i in T.Pipelined(8, num_stages=2):
                T.copy(a[0, i * 64], a_shared)
                T.copy(b[0, i * 64], b_shared)
                T.gemm(a_shared, b_shared, total, transpose_B=True)
            for i, j in T.Parallel(64, 64):
                total[i, j] = T.max(total[i, j] * 0.125 + bias[j], 0)
            T.copy(total, c)

    inputs = rand(64, 512, dtype=torch.float16), rand(64, 512, dtype=torch.float16)
    bias = rand(64, dtype=torch.float32)
    return main, lambda a, b, d: torch.relu(a.float() @ b.float().T / 8 + d), (*inputs, bias)


def two_gemms():
    @T.prim_func
    def main(
        a: T.Tensor((64, 64), "bfloat16"),
        b: T.Tensor((64, 64), "bfloat16"),
        d: T.Tensor((64, 64), "bfloat16"),
        c: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a_shared = T.alloc_shared((64, 64), "bfloat16")
            b_shared = T.alloc_shared((64, 64), "bfloat16")
            d_shared = T.alloc_shared((64, 64), "bfloat16")
            first = T.alloc_fragment((64, 64), "float32")
            left = T.alloc_fragment((64, 64), "bfloat16")
            total = T.alloc_fragment((64, 64), "float32")
            T.copy(a, a_shared)
            T.copy(b, b_shared)
            T.copy(d, d_shared)
            T.clear(first)
            T.clear(total)
            T.gemm(a_shared, b_shared, first)
            for i, j in T.Parallel(64, 64):
                left[i, j] = first[i, j] * 0.5 - 0.01
            T.gemm(left, d_shared, total)
            T.copy(total, c)

    inputs = rand(64, 64) / 8, rand(64, 64) / 8, rand(64, 64) / 8
    return main, lambda a, b, d: (a.float() @ b.float() / 2 - 0.01) @ d.float(), inputs


def scaled_gemm():
    @T.prim_func
    def main(
        a: T.Tensor((64, 256), "bfloat16"),
        b: T.Tensor((64, 256), "bfloat16"),
        scale_a: T.Tensor((64, 4), "float32"),
        scale_b: T.Tensor((4,), "float32"),
        c: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a_shared = T.alloc_shared((64, 64), "bfloat16")
            b_shared = T.alloc_shared((64, 64), "bfloat16")
            part = T.alloc_fragment((64, 64), "float32")
            total = T.alloc_fragment((64, 64), "float32")
            T.clear(total)
            for i in T.Pipelined(4, num_stages=2):
                T.copy(a[0, i * 64], a_shared)
                T.copy(b[0, i * 64], b_shared)
                T.clear(part)
                T.gemm(a_shared, b_shared, part, transpose_B=True)
                for r, j in T.Parallel(64, 64):
                    total[r, j] += part[r, j] * scale_a[r, i] * scale_b[i]
            T.copy(total, c)

    def reference(a, b, scale_a, scale_b):
        a = a.float() * (scale_a * scale_b).repeat_interleave(64, 1)
        return a @ b.float().T

    scales = 1 + 0.05 * torch.rand(64, 4), 1 + 0.05 * torch.rand(4)
    return main, reference, (rand(64, 256), rand(64, 256), *scales)


def grouped_gemm():
    @T.prim_func
    def main(
        a: T.Tensor((192, 64), "bfloat16"),
        b: T.Tensor((3, 64, 64), "bfloat16"),
        ends: T.Tensor((3,), "int32"),
        c: T.Tensor((192, 64), "bfloat16"),
    ):
        with T.Kernel(3, threads=128) as group:
            a_shared = T.alloc_shared((64, 64), "bfloat16")
            b_shared = T.alloc_shared((64, 64), "bfloat16")
            total = T.alloc_fragment((64, 64), "float32")
            T.copy(a[group * 64, 0], a_shared)
            T.copy(b[group, 0, 0], b_shared)
            T.clear(total)
            T.gemm(a_shared, b_shared, total)
            for i, j in T.Parallel(64, 64):
                c[group * 64 + i, j] = T.if_then_else(i < ends[group], total[i, j], 0.0)

    ends = torch.tensor([64, 3, 40], dtype=torch.int32)

    def reference(a, b, ends):
        kept = torch.arange(64)[None, :, None] < ends[:, None, None]
        return torch.where(kept, torch.matmul(a.reshape(3, 64, 64), b), 0.0).reshape(192, 64)

    return main, reference, (rand(192, 64), rand(3, 64, 64), ends)


def softmax():
    @T.prim_func
    def main(x: T.Tensor((32, 250), "float32"), y: T.Tensor((32, 250), "bfloat16")):
        with T.Kernel(2, threads=64) as bx:
            tile = T.alloc_fragment((16, 250), "float32")
            top = T.alloc_fragment((16,), "float32")
            total = T.alloc_fragment((16,), "float32")
            T.copy(x[bx * 16, 0], tile)
            T.reduce_max(tile, top, dim=1)
            for i, j in T.Parallel(16, 250):
                tile[i, j] = T.exp2((tile[i, j] - top[i]) * 1.4426950408889634)
            T.reduce_sum(tile, total, dim=1)
            for i, j in T.Parallel(16, 250):
                y[bx * 16 + i, j] = tile[i, j] / total[i]

    return main, lambda x: torch.softmax(x, -1), (torch.randn(32, 250),)


def attention():
    @T.prim_func
    def main(
        q: T.Tensor((128, 64), "bfloat16"),
        k: T.Tensor((192, 64), "bfloat16"),
        v: T.Tensor((192, 64), "bfloat16"),
        out: T.Tensor((128, 64), "bfloat16"),
    ):
        with T.Kernel(2, threads=128) as bx:
            q_shared = T.alloc_shared((64, 64), "bfloat16")
            k_shared = T.alloc_shared((64, 64), "bfloat16")
            v_shared = T.alloc_shared((64, 64), "bfloat16")
            scores = T.alloc_fragment((64, 64), "float32")
            weights = T.alloc_fragment((64, 64), "bfloat16")
            result = T.alloc_fragment((64, 64), "float32")
            top = T.alloc_fragment((64,), "float32")
            last = T.alloc_fragment((64,), "float32")
            change = T.alloc_fragment((64,), "float32")
            part = T.alloc_fragment((64,), "float32")
            total = T.alloc_fragment((64,), "float32")
            T.copy(q[bx * 64, 0], q_shared)
            T.clear(result)
            T.clear(total)
            T.fill(top, -T.infinity("float32"))
            for step in T.Pipelined(3, num_stages=1):
                T.copy(k[step * 64, 0], k_shared)
                T.clear(scores)
                T.gemm(q_shared, k_shared, scores, transpose_B=True)
                for i, j in T.Parallel(64, 64):
                    scores[i, j] = T.if_then_else(
                        bx * 64 + i + 64 >= step * 64 + j, scores[i, j], -T.infinity("float32")
                    )
                T.copy(top, last)
                T.reduce_max(scores, top, dim=1, clear=False)
                for i in T.Parallel(64):
                    change[i] = T.exp2((last[i] - top[i]) * 0.18033688011112042)
                for i, j in T.Parallel(64, 64):
                    scores[i, j] = T.exp2((scores[i, j] - top[i]) * 0.18033688011112042)
                T.reduce_sum(scores, part, dim=1)
                for i in T.Parallel(64):
                    total[i] = total[i] * change[i] + part[i]
                T.copy(scores, weights)
                for i, j in T.Parallel(64, 64):
                    result[i, j] *= change[i]
                T.copy(v[step * 64, 0], v_shared)
                T.gemm(weights, v_shared, result)
            for i, j in T.Parallel(64, 64):
                out[bx * 64 + i, j] = result[i, j] / total[i]

    def reference(q, k, v):
        scores = (q.float() @ k.float().T) / 8
        kept = torch.arange(128)[:, None] + 64 >= torch.arange(192)[None, :]
        return torch.where(kept, scores, float("-inf")).softmax(-1) @ v.float()

    return main, reference, (rand(128, 64), rand(192, 64), rand(192, 64))


def rms_norm():
    @T.prim_func
    def main(
        x: T.Tensor((16, 192), "bfloat16"),
        w: T.Tensor((192,), "bfloat16"),
        y: T.Tensor((16, 192), "bfloat16"),
    ):
        with T.Kernel(2, threads=64) as bx:
            tile = T.alloc_fragment((8, 192), "float32")
            squares = T.alloc_fragment((8, 192), "float32")
            total = T.alloc_fragment((8,), "float32")
            T.copy(x[bx * 8, 0], tile)
            for i, j in T.Parallel(8, 192):
                squares[i, j] = tile[i, j] * tile[i, j]
            T.reduce_sum(squares, total, dim=1)
            for i, j in T.Parallel(8, 192):
                tile[i, j] = tile[i, j] * T.rsqrt(total[i] / 192 + 1e-6) * w[j]
            T.copy(tile, y[bx * 8, 0])

    return main, lambda x, w: F.rms_norm(x, (192,), w, eps=1e-6), (rand(16, 192), rand(192))


def layer_norm():
    @T.prim_func
    def main(
        x: T.Tensor((8, 320), "float32"),
        w: T.Tensor((320,), "float32"),
        b: T.Tensor((320,), "float32"),
        y: T.Tensor((8, 320), "float32"),
    ):
        with T.Kernel(1, threads=64):
            tile = T.alloc_fragment((8, 320), "float32")
            squares = T.alloc_fragment((8, 320), "float32")
            mean = T.alloc_fragment((8,), "float32")
            total = T.alloc_fragment((8,), "float32")
            T.copy(x, tile)
            T.reduce_sum(tile, mean, dim=1)
            for i, j in T.Parallel(8, 320):
                squares[i, j] = (tile[i, j] - mean[i] / 320) * (tile[i, j] - mean[i] / 320)
            T.reduce_sum(squares, total, dim=1)
            for i, j in T.Parallel(8, 320):
                centred = tile[i, j] - mean[i] / 320
                y[i, j] = centred * T.rsqrt(total[i] / 320 + 1e-5) * w[j] + b[j]

    inputs = torch.randn(8, 320), torch.randn(320), torch.randn(320)
    return main, lambda x, w, b: F.layer_norm(x, (320,), w, b), inputs


def scan():
    @T.prim_func
    def main(
        x: T.Tensor((64, 96), "float32"),
        decay: T.Tensor((96,), "float32"),
        y: T.Tensor((64, 96), "float32"),
    ):
        with T.Kernel(1, threads=64):
            state = T.alloc_fragment((64,), "float32")
            T.clear(state)
            for t in T.serial(96):
                for i in T.Parallel(64):
                    state[i] = state[i] * decay[t] + x[i, t]
                for i in T.Parallel(64):
                    y[i, t] = state[i] * 0.25

    def reference(x, decay):
        state, steps = x[:, 0], [x[:, :1]]
        for t in range(1, 96):
            state = state * decay[t] + x[:, t]
            steps.append(state.reshape(64, 1))
        return torch.cat(steps, 1) / 4

    return main, reference, (torch.randn(64, 96), 0.5 + 0.1 * torch.rand(96))


def column_sums():
    @T.prim_func
    def main(x: T.Tensor((512, 64), "bfloat16"), y: T.Tensor((64,), "float32")):
        with T.Kernel(4, threads=64) as bx:
            tile = T.alloc_fragment((64, 64), "float32")
            part = T.alloc_fragment((64,), "float32")
            total = T.alloc_fragment((64,), "float32")
            T.clear(total)
            for k in T.serial(2):
                T.copy(x[bx * 128 + k * 64, 0], tile)
                T.reduce_sum(tile, part, dim=0)
                for j in T.Parallel(64):
                    total[j] += part[j]
            T.atomic_add(y[0], total)

    return main, lambda x, y: x.float().sum(0) + y, (rand(512, 64), torch.randn(64))


def swiglu():
    @T.prim_func
    def main(
        x: T.Tensor((1000,), "float32"),
        gate: T.Tensor((1000,), "float32"),
        y: T.Tensor((1000,), "float32"),
    ):
        with T.Kernel(4, threads=128) as block:
            for i in T.Parallel(256):
                if block * 256 + i < 1000:
                    g = gate[block * 256 + i] * 1.702
                    y[block * 256 + i] = (
                        x[block * 256 + i] * gate[block * 256 + i] / (1.0 + T.exp(-g)) + 0.001
                    )

    def reference(x, gate):
        return x * gate * torch.sigmoid(gate * 1.702) + 0.001

    return main, reference, (torch.randn(1000), torch.randn(1000))


def convolution():
    @T.prim_func
    def main(
        x: T.Tensor((4, 130), "float32"),
        w: T.Tensor((3,), "float32"),
        y: T.Tensor((4, 128), "float32"),
    ):
        with T.Kernel(4, threads=128) as row:
            total = T.alloc_fragment((128,), "float32")
            T.clear(total)
            for tap in T.serial(3):
                for i in T.Parallel(128):
                    total[i] += x[row, i + tap] * w[tap]
            for i in T.Parallel(128):
                y[row, i] = total[i] - 0.5 * x[row, i + 1]

    def reference(x, w):
        total = x[:, :128] * w[0] + x[:, 1:129] * w[1] + x[:, 2:130] * w[2]
        return total - x[:, 1:129] * 0.5

    return main, reference, (torch.randn(4, 130), torch.tensor([1.0, 1.1, 0.9]))


#: Kernels by name; of those with a number, the input of that position is written.
KERNELS = {
    "gemm": (gemm, None), "bias_relu_gemm": (bias_relu_gemm, None), "two_gemms": (two_gemms, None),
    "scaled_gemm": (scaled_gemm, None), "grouped_gemm": (grouped_gemm, None),
    "softmax": (softmax, None), "attention": (attention, None), "rms_norm": (rms_norm, None),
    "layer_norm": (layer_norm, None), "scan": (scan, None), "column_sums": (column_sums, 1),
    "swiglu": (swiglu, None), "convolution": (convolution, None),
}  # fmt: skip
