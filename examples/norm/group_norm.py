"""Y = (X - mean) / sqrt(variance + epsilon) * W + B, the statistics those of a group of channels.

A group of an image is contiguous: channels by pixels. A block has it in registers where it fits; of
larger ones it computes mean and squared differences part by part, and goes through them again.

    python group_norm.py [--images 3] [--channels 12] [--groups 4] [--pixels 49] [--dtype bfloat16]
                         [--target sm_90a] [--device cpu]
"""

import torch
from rms_norm import EPSILON

import tilelang.language as T
from tilelang.tools.example import Case, Example, Option

SHAPES = (
    (64, 256, 32, 1024),
    (32, 512, 32, 784),
    (16, 320, 32, 4096),
    (8, 640, 32, 3136),
    (32, 128, 8, 4096),
)


def group_norm(images, channels, groups, pixels, dtype, threads=512, longest=16384):
    """Returns Y of X, both (images, groups, channels * pixels / groups), W and B (channels,)."""
    size = channels // groups * pixels
    chunk = min(longest, -(-size // 8) * 8)
    turns = -(-size // chunk)

    @T.prim_func
    def group_norm(
        X: T.Tensor((images * groups, size), dtype),
        W: T.Tensor((channels,), dtype),
        B: T.Tensor((channels,), dtype),
        Y: T.Tensor((images * groups, size), dtype),
    ):
        with T.Kernel(images * groups, threads=threads) as group:
            x, square = (T.alloc_fragment((1, chunk), "float32") for _ in range(2))
            mean, part, away, total = (T.alloc_fragment((1,), "float32") for _ in range(4))
            T.clear(mean)
            T.clear(total)
            for t in T.serial(turns):
                length = T.min(chunk, size - t * chunk)
                T.copy(X[group, t * chunk], x)
                T.reduce_sum(x, part, dim=1)
                for i in T.Parallel(1):
                    away[i] = part[i] / length - mean[i]
                    mean[i] += away[i] * length / (t * chunk + length)
                    part[i] /= length
                for i, j in T.Parallel(1, chunk):
                    square[i, j] = T.if_then_else(j < length, x[i, j] - part[i], 0)
                for i, j in T.Parallel(1, chunk):
                    square[i, j] *= square[i, j]
                T.reduce_sum(square, part, dim=1)
                for i in T.Parallel(1):
                    between = away[i] * away[i] * (t * chunk) * length / (t * chunk + length)
                    total[i] += part[i] + between
            for i in T.Parallel(1):
                total[i] = T.rsqrt(total[i] / size + EPSILON)
            for t in T.serial(turns):
                if turns > 1:
                    T.copy(X[group, t * chunk], x)
                for i, j in T.Parallel(1, chunk):
                    channel = T.min(
                        group % groups * (channels // groups) + (t * chunk + j) // pixels,
                        channels - 1,
                    )
                    x[i, j] = (x[i, j] - mean[i]) * total[i] * W[channel] + B[channel]
                T.copy(x, Y[group, t * chunk])

    return group_norm


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        images=Option("images", 3, 64),
        channels=Option("channels, all groups together", 12, 256),
        groups=Option("groups of channels", 4, 32),
        pixels=Option("pixels of an image", 49, 1024),
        dtype=Option("element type", "bfloat16", choices=("float16", "bfloat16", "float32")),
    )
    args = example.args
    divides = args.channels % args.groups == 0
    example.require(divides, f"--groups is {args.groups}: give a divisor of --channels")

    def reference(x, w, b, groups):
        return torch.nn.functional.group_norm(x, groups, w, b, EPSILON)

    compiled = example.compiled(reference)

    def case(images, channels, groups, pixels):
        kernel = example.compile(group_norm(images, channels, groups, pixels, args.dtype))
        x = example.normal(images, channels, pixels, dtype=args.dtype) + 1
        w, b = (example.normal(channels, dtype=args.dtype) for _ in range(2))
        y = example.output(images, channels, pixels, dtype=args.dtype)
        of_groups = [a.view(images * groups, -1) for a in (x, y)]
        peers = {
            "torch": lambda: reference(x, w, b, groups),
            "compile": lambda: compiled(x, w, b, groups),
        }
        run = lambda: kernel(of_groups[0], w, b, of_groups[1])  # noqa: E731
        return Case(run, peers, 2 * x.nbytes), (x, w, b, y)

    line, (x, w, b, y) = case(args.images, args.channels, args.groups, args.pixels)
    line.run()
    example.check("Y", y, reference(x.double(), w.double(), b.double(), args.groups))
    example.speed(line.run, line.peers["torch"], line.moved)
    example.table(SHAPES, lambda *shape: case(*shape)[0])


if __name__ == "__main__":
    main()
