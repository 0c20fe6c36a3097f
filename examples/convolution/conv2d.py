"""Y = convolution of X with W, as a gemm whose A is never stored.

Row m of A is a place of the output, column k an element under the kernel there; the rest is a gemm
with the weights. Where there are many images, the rows of a tile are the same few places of all of
them: each place is a box of the tensor, which the tensor memory accelerator loads, with zeros
outside of the image. Else ``T.im2col`` gathers a tile of A from wherever its rows are.

    python conv2d.py [--batch 2] [--height 13] [--width 11] [--channels 64] [--features 72]
                     [--kernel 3] [--stride 1] [--dilation 1] [--pad 1] [--blocks 3]
                     [--dtype float16] [--target sm_90a] [--device cpu]
"""

import functools

import torch

import tilelang.language as T
from tilelang.carver.arch import CUDA
from tilelang.tools.example import Case, Example, Option

STEP = 64  # channels

#: of tables: images, their height and width, channels, features, kernel, stride; padded by half
SHAPES = (
    (128, 56, 56, 64, 64, 3, 1),
    (128, 56, 56, 128, 128, 3, 1),
    (128, 14, 14, 256, 256, 3, 1),
    (128, 7, 7, 512, 512, 3, 1),
    (128, 56, 56, 64, 256, 1, 1),
    (128, 56, 56, 128, 128, 3, 2),
    (1, 100, 150, 64, 128, 3, 1),
)


def boxes(batch, channels, features, target):
    """Returns tiles for ``conv2d_images``; none where ``T.im2col`` is better."""
    images = next((n for n in (128, 64, 32) if batch % n == 0), None)
    if target == "sm_80" or images is None or channels % STEP:
        return None
    block_N = next((n for n in (64, 128) if n >= features), 256)
    rows = 256 if block_N == 128 else 128
    stages = 4 if block_N == 64 else 3
    return {"images": images, "places": rows // images, "block_N": block_N, "num_stages": stages}


def tiles(features, target):
    """Returns tiles for ``conv2d``: of all features, several small ones share a multiprocessor."""
    if target != "sm_90a":
        return {}
    if features > 128:
        return {"block_K": 128}
    return {"block_M": 64, "block_N": 64 if features <= 64 else 128, "threads": 128}


def extents(height, width, kernel, stride, dilation, pad):
    """Returns the height and width of the output."""
    reach = dilation * (kernel - 1) + 1
    return [(extent + 2 * pad - reach) // stride + 1 for extent in (height, width)]


def conv2d(
    batch, height, width, channels, features, kernel, stride, dilation, pad, dtype,
    block_M=128, block_N=128, block_K=64, threads=256,
):  # fmt: skip
    """Returns Y (batch * places, features) of X (batch, height, width, channels) as a prim_func.

    W is (kernel * kernel * channels, features). All are of ``dtype``.
    """
    rows, columns = extents(height, width, kernel, stride, dilation, pad)
    M, N, K = batch * rows * columns, features, kernel * kernel * channels

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


def conv2d_images(
    batch, height, width, channels, features, kernel, stride, dilation, pad, dtype,
    blocks=132, images=64, places=2, block_N=128, threads=256, num_stages=3,
):  # fmt: skip
    """As ``conv2d``, of Y (batch, places of the output, features); channels are whole steps.

    A tile has ``images`` rows of each of ``places`` places. Each of ``blocks`` computes one tile
    after another, and loads for the next one while it stores the last.
    """
    rows, columns = extents(height, width, kernel, stride, dilation, pad)
    steps = channels // STEP
    groups = T.ceildiv(rows * columns, places)
    domain = groups * T.ceildiv(batch, images), T.ceildiv(features, block_N)

    @T.prim_func
    def conv2d_images(
        X: T.Tensor((batch, height, width, channels), dtype),
        W: T.Tensor((kernel * kernel * channels, features), dtype),
        Y: T.Tensor((batch, rows * columns, features), dtype),
    ):
        with T.Kernel(blocks, threads=threads) as block:
            X_shared = T.alloc_shared((places * images, STEP), dtype)
            W_shared = T.alloc_shared((STEP, block_N), dtype)
            Y_local = T.alloc_fragment((places * images, block_N), "float32")
            Y_shared = T.alloc_shared((places * images, block_N), dtype)
            for by, bx in T.Persistent(domain, blocks, block, group_size=16):
                first, image = by % groups * places, by // groups * images
                T.clear(Y_local)
                for k in T.Pipelined(kernel * kernel * steps, num_stages=num_stages):
                    down, right = k // steps // kernel * dilation, k // steps % kernel * dilation
                    channel = k % steps * STEP
                    for p in list(range(places)):
                        h = (first + p) // columns * stride + down - pad
                        w = (first + p) % columns * stride + right - pad
                        T.copy(
                            X[image : image + images, h, w, channel : channel + STEP],
                            X_shared[p * images : (p + 1) * images, :],
                        )
                    T.copy(W[k // steps * channels + channel, bx * block_N], W_shared)
                    T.gemm(X_shared, W_shared, Y_local)
                T.copy(Y_local, Y_shared)
                for p in list(range(places)):
                    T.copy(
                        Y_shared[p * images : (p + 1) * images, :],
                        Y[image : image + images, first + p, bx * block_N : (bx + 1) * block_N],
                    )

    return conv2d_images


def program(image, features, window, dtype, target, blocks=0):
    """Returns the prim_func for these sizes, and the shape of its Y.

    ``blocks`` share the tiles, where they do; 0 stands for one a multiprocessor.
    """
    batch, height, width, channels = image
    kernel, stride, dilation, pad = window
    problem = batch, height, width, channels, features, kernel, stride, dilation, pad, dtype
    rows, columns = extents(height, width, kernel, stride, dilation, pad)
    chosen = boxes(batch, channels, features, target)
    if chosen is None:
        func = conv2d(*problem, **tiles(features, target))
        return func, (batch * rows * columns, features)
    func = conv2d_images(*problem, blocks or CUDA(target).compute_max_core, **chosen)
    return func, (batch, rows * columns, features)


def by_torch(x, w, window):
    """As torch has it: channels first; in memory they stay last."""
    _, stride, dilation, pad = window
    x, w = x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1)
    return torch.nn.functional.conv2d(x, w, None, stride, pad, dilation).permute(0, 2, 3, 1)


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
        pad=Option("zeros around the image", 1, least=0),
        blocks=Option("blocks that share boxes of images; 0: one a multiprocessor", 3, 0, least=0),
        dtype=Option("element type", "float16", choices=("float16", "bfloat16")),
    )
    args = example.args
    places = extents(args.height, args.width, args.kernel, args.stride, args.dilation, args.pad)
    inside = min(places) > 0
    example.require(inside, "--kernel reaches beyond the image: give less, or more --pad")

    def case(image, features, window):
        func, shape = program(image, features, window, args.dtype, args.target, args.blocks)
        compiled = example.compile(func)
        kernel, channels = window[0], image[3]
        x = example.normal(*image, dtype=args.dtype)
        w = example.normal(kernel, kernel, channels, features, dtype=args.dtype)
        y = example.output(*shape, dtype=args.dtype)
        columns = w.view(-1, features)
        peers = {"cuDNN": functools.partial(by_torch, x, w, window)}
        flops = 2 * y.numel() * columns.shape[0]
        return Case(functools.partial(compiled, x, columns, y), peers, flops=flops), (x, w), y

    def padded(batch, height, width, channels, features, kernel, stride):
        window = kernel, stride, 1, kernel // 2
        return case((batch, height, width, channels), features, window)[0]

    window = args.kernel, args.stride, args.dilation, args.pad
    line, (x, w), y = case(
        (args.batch, args.height, args.width, args.channels), args.features, window
    )
    line.run()
    example.check("Y", y, by_torch(x.double(), w.double(), window).reshape(y.shape))
    example.speed(*line)
    example.table(SHAPES, padded)


if __name__ == "__main__":
    main()
