"""dX, dW and dB of GroupNorm, of groups of any size.

The first launch sums up dY, and dY times the normalized X, over the pixels of each channel of each
image. From these sums the second one has what each group needs for dX, and the third one dW and dB.

    python group_norm_backward.py [--images 3] [--channels 12] [--groups 4] [--pixels 49]
                                  [--dtype bfloat16] [--target sm_90a] [--device cpu]
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


def group_norm_backward(images, channels, groups, pixels, dtype, threads=256, tile=8192):
    """Returns dX of X, dY (images, channels, pixels), and dW and dB of W (channels,).

    The statistics mean and scale are those of each group of each image: (images, groups).
    """
    each = channels // groups
    some = max(n for n in range(1, each + 1) if each % n == 0 and (n == 1 or n * pixels <= tile))
    size = each * pixels

    @T.prim_func
    def group_norm_backward(
        X: T.Tensor((images, channels, pixels), dtype),
        DY: T.Tensor((images, channels, pixels), dtype),
        W: T.Tensor((channels,), dtype),
        mean: T.Tensor((images, groups), "float32"),
        scale: T.Tensor((images, groups), "float32"),
        DX: T.Tensor((images, channels, pixels), dtype),
        DW: T.Tensor((channels,), "float32"),
        DB: T.Tensor((channels,), "float32"),
    ):
        of_g, of_gx = (T.alloc_global((images, channels), "float32") for _ in range(2))
        with T.Kernel(channels // some, images, threads=threads) as (bx, image):
            first, group = bx * some, bx * some // each
            g, gx = (T.alloc_reducer((some,), "float32") for _ in range(2))
            for c, p in T.Parallel(some, pixels):
                x = T.cast(X[image, first + c, p], "float32") - mean[image, group]
                g[c] += T.cast(DY[image, first + c, p], "float32")
                gx[c] += T.cast(DY[image, first + c, p], "float32") * x * scale[image, group]
            T.finalize_reducer(g)
            T.finalize_reducer(gx)
            for c in T.Parallel(some):
                of_g[image, first + c] = g[c]
                of_gx[image, first + c] = gx[c]
        with T.Kernel(groups, images, threads=threads) as (group, image):
            g, gx = (T.alloc_reducer((1,), "float32") for _ in range(2))
            for c in T.Parallel(each):
                weight = T.cast(W[group * each + c], "float32")
                g[0] += weight * of_g[image, group * each + c]
                gx[0] += weight * of_gx[image, group * each + c]
            T.finalize_reducer(g)
            T.finalize_reducer(gx)
            for c, p in T.Parallel(each, pixels):
                dy = T.cast(DY[image, group * each + c, p], "float32") * W[group * each + c]
                x = T.cast(X[image, group * each + c, p], "float32") - mean[image, group]
                normal = x * scale[image, group]
                dx = (dy - (g[0] + normal * gx[0]) / size) * scale[image, group]
                DX[image, group * each + c, p] = dx
        with T.Kernel(T.ceildiv(channels, threads), threads=threads) as bx:
            w, b = (T.alloc_fragment((threads,), "float32") for _ in range(2))
            T.clear(w)
            T.clear(b)
            for image in T.serial(images):
                for c in T.Parallel(threads):
                    if bx * threads + c < channels:
                        w[c] += of_gx[image, bx * threads + c]
                        b[c] += of_g[image, bx * threads + c]
            T.copy(w, DW[bx * threads])
            T.copy(b, DB[bx * threads])

    return group_norm_backward


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

    def peer(x, dy, w, mean, scale):
        images, channels, pixels = x.shape
        return torch.ops.aten.native_group_norm_backward(
            dy, x, mean, scale, w, images, channels, pixels, mean.shape[1], [True, True, True]
        )

    def reference(x, dy, w, mean, scale):
        images, groups = mean.shape
        of_groups = [a.reshape(images, groups, -1) for a in (x, dy * w[:, None])]
        normal = (of_groups[0] - mean[..., None]) * scale[..., None]
        g = of_groups[1] - of_groups[1].mean(2, keepdim=True)
        g = (g - normal * (of_groups[1] * normal).mean(2, keepdim=True)) * scale[..., None]
        dw = (dy * normal.reshape(x.shape)).sum((0, 2))
        return g.reshape(x.shape), dw, dy.sum((0, 2))

    def case(images, channels, groups, pixels):
        kernel = example.compile(group_norm_backward(images, channels, groups, pixels, args.dtype))
        x, dy = (example.normal(images, channels, pixels, dtype=args.dtype) for _ in range(2))
        w = example.normal(channels, dtype=args.dtype)
        of_groups = x.float().reshape(images, groups, -1)
        variance, mean = torch.var_mean(of_groups, 2, correction=0)
        inputs = x, dy, w, mean, torch.rsqrt(variance + EPSILON)
        # torch wants statistics in the type of the weights
        of_torch = x, dy, w, mean.to(w.dtype), inputs[4].to(w.dtype)
        dx = example.output(images, channels, pixels, dtype=args.dtype)
        outputs = dx, example.output(channels), example.output(channels)
        line = Case(
            lambda: kernel(*inputs, *outputs), {"torch": lambda: peer(*of_torch)}, 3 * x.nbytes
        )
        return line, inputs, outputs

    line, inputs, outputs = case(args.images, args.channels, args.groups, args.pixels)
    line.run()
    wanted = reference(*(a.double() for a in inputs))
    for name, got, want in zip(("dX", "dW", "dB"), outputs, wanted, strict=True):
        example.check(name, got, want)
    example.speed(line.run, line.peers["torch"], line.moved)
    example.table(SHAPES, lambda *shape: case(*shape)[0])


if __name__ == "__main__":
    main()
