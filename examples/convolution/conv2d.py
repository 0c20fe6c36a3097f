"""Y = convolution of X with W, as a gemm whose A is never stored: im2col.

Row m of A is a place of the output, column k an element under the kernel there. ``T.im2col``
gathers a tile of A straight from the image; outside of it are zeros. The rest is a gemm with the
weights.

    python conv2d.py [--batch 2] [--height 13] [--width 11] [--channels 64] [--features 72]
                     [--kernel 3] [--stride 1] [--dilation 1] [--pad 1] [--dtype float16]
                     [--target sm_90a] [--device cpu]
"""

import torch

import tilelang.language as T
from tilelang.tools.example import Example, Option


def tiles(features, target):
    """Returns tiles: where one has all features, several small blocks share a multiprocessor."""
    if target != "sm_90a":
        return {}
    if features > 128:
        return {"block_K": 128}
    return {"block_M": 64, "block_N": 64 if features <= 64 else 128, "threads": 128}


def conv2d(
    batch, height, width, channels, features, kernel, stride, dilation, pad, dtype,
    block_M=128, block_N=128, block_K=64, threads=256,
):  # fmt: skip
    """Returns Y (batch * places, features) of X (batch, height, width, channels) as a prim_func.

    W is (kernel * kernel * channels, features). All are of ``dtype``.
    """
    reach = dilation * (kernel - 1) + 1
    places = [(extent + 2 * pad - reach) // stride + 1 for extent in (height, width)]
    M, N, K = batch * places[0] * places[1], features, kernel * kernel * channels

    @T.prim_func
    def conv2d(
        X: T.Tensor((batch, height, width, channels), dtype),
        W: T.Tensor((K, N), dtype),
        Y: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            X_shared = T.alloc_shared((block_M, block_K), dtype)
            W_shared = T.alloc_shared((block_K, block_N), dtype)
            Y_local = T.alloc_fragment((block_M, block_N), "float32")

            T.clear(Y_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                T.im2col(X, X_shared, by, k, kernel, stride, dilation, pad)
                T.copy(W[k * block_K, bx * block_N], W_shared)
                T.gemm(X_shared, W_shared, Y_local)
            T.copy(Y_local, Y[by * block_M, bx * block_N])

    return conv2d


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        batch=Option("images", 2, 128),
        height=Option("of an image", 13, 56),
        width=Option("of an image", 11, 56),
        channels=Option("of a pixel", 64, 128),
        features=Option("channels of the result", 72, 128),
        kernel=Option("height and width of the kernel", 3),
        stride=Option("pixels between places", 1),
        dilation=Option("pixels between elements of the kernel", 1),
        pad=Option("zeros around the image", 1),
        dtype=Option("element type", "float16", choices=("float16", "bfloat16")),
    )
    args = example.args
    image = args.batch, args.height, args.width, args.channels
    window = args.kernel, args.stride, args.dilation, args.pad
    chosen = tiles(args.features, args.target)
    compiled = example.compile(conv2d(*image, args.features, *window, args.dtype, **chosen))
    x = example.normal(*image, dtype=args.dtype)
    w = example.normal(args.kernel, args.kernel, args.channels, args.features, dtype=args.dtype)

    def by_torch(x, w):
        """As torch has it: channels first; in memory they stay last."""
        x, w = x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1)
        y = torch.nn.functional.conv2d(x, w, None, args.stride, args.pad, args.dilation)
        return y.permute(0, 2, 3, 1)

    want = by_torch(x.double(), w.double()).reshape(-1, args.features)
    y = example.output(*want.shape, dtype=args.dtype)
    columns = w.view(-1, args.features)
    compiled(x, columns, y)
    example.check("Y", y, want)
    flops = 2 * y.shape[0] * columns.numel()
    example.speed(lambda: compiled(x, columns, y), lambda: by_torch(x, w), flops=flops)


if __name__ == "__main__":
    main()
