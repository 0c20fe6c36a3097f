"""LayerNorm of long rows of any length, also those that vectors do not divide.

The blocks of a cluster share a row: each keeps its part in registers, so that the row is read once,
and tells the others mean and squared differences of the part through shared memory (combined by the
formula of Chan, Golub and LeVeque). Parts begin at multiples of 16 bytes, so that all but their
ends are moved by vectors: the first one of a row may have some elements of the row before. W and B
would not lie so; a first launch copies them as often as there are places where a row can begin.

    python layer_norm_cluster.py [--rows 5] [--columns 3001] [--dtype bfloat16] [--target sm_90a]
                                 [--device cpu]
"""

from layer_norm import run
from rms_norm import EPSILON

import tilelang.language as T
from tilelang.tools.rows import part_of

SHAPES = ((1000, 50257), (2670, 50257), (4096, 32001), (1024, 100003))
COPIED = 1024  # elements of W and B that a block copies


@T.macro
def length_of(at, chunk, columns):
    """How many elements of its row a part has that begins ``at`` elements before it."""
    return T.max(0, T.min(chunk, at + columns) - T.max(at, 0))


@T.macro
def combine(of_all, ahead, chunk, columns, mean, scale):
    """Mean and scale of a row, of the means and squared differences of its parts."""
    size = of_all.shape[0]
    each, count = (T.alloc_fragment((1, size), "float32") for _ in range(2))
    for i, j in T.Parallel(1, size):
        count[i, j] = length_of(ahead - j * chunk, chunk, columns)
        each[i, j] = of_all[j, 0] * count[i, j] / columns
    T.reduce_sum(each, mean, dim=1)
    for i, j in T.Parallel(1, size):
        away = of_all[j, 0] - mean[i]
        each[i, j] = of_all[j, 1] + away * away * count[i, j]
    T.reduce_sum(each, scale, dim=1)
    for i in T.Parallel(1):
        scale[i] = T.rsqrt(scale[i] / columns + EPSILON)


def layer_norm_cluster(rows, columns, dtype):
    """Returns Y of X, W and B; X and Y are flat, of (rows, columns) elements of ``dtype``."""
    size, threads, chunk, vector = part_of(columns, dtype)
    width = size * chunk

    @T.prim_func
    def layer_norm_cluster(
        X: T.Tensor((rows * columns,), dtype),
        W: T.Tensor((columns,), dtype),
        B: T.Tensor((columns,), dtype),
        Y: T.Tensor((rows * columns,), dtype),
    ):
        weights, biases = (T.alloc_global((vector, width), dtype) for _ in range(2))
        with T.Kernel(width // COPIED, vector, threads=256) as (bx, ahead):
            for j in T.Parallel(COPIED):
                at = bx * COPIED + j - ahead
                inside = at >= 0 and at < columns
                weights[ahead, bx * COPIED + j] = T.if_then_else(inside, W[at], 0)
                biases[ahead, bx * COPIED + j] = T.if_then_else(inside, B[at], 0)
        with T.Kernel(size, rows, threads=threads, cluster_dims=(size, 1, 1)) as (part, row):
            T.annotate_min_blocks_per_sm(max(1, 1024 // threads))
            x, square = (T.alloc_fragment((1, chunk), "float32") for _ in range(2))
            weight, bias = (T.alloc_fragment((1, chunk), dtype) for _ in range(2))
            mean, total = (T.alloc_fragment((1,), "float32") for _ in range(2))
            own, of_all = (T.alloc_shared(shape, "float32") for shape in ((2,), (size, 2)))
            start = row * columns // vector * vector
            ahead = row * columns - start
            begin = start + part * chunk
            first = ahead - part * chunk
            for i, j in T.Parallel(1, chunk):
                inside = j >= first and j < first + columns
                x[i, j] = T.if_then_else(inside, X[begin + j], 0)
            T.copy(weights[ahead, part * chunk], weight[0, :])
            T.copy(biases[ahead, part * chunk], bias[0, :])
            T.reduce_sum(x, mean, dim=1)
            for i in T.Parallel(1):
                mean[i] /= T.max(length_of(first, chunk, columns), 1)
            for i, j in T.Parallel(1, chunk):
                inside = j >= first and j < first + columns
                square[i, j] = T.if_then_else(inside, x[i, j] - mean[i], 0)
            for i, j in T.Parallel(1, chunk):
                square[i, j] *= square[i, j]
            T.reduce_sum(square, total, dim=1)
            for i in T.Parallel(1):
                own[0] = mean[i]
                own[1] = total[i]
            for block in T.serial(size):
                T.copy_cluster(own, of_all[part, :], dst_block=block)
            T.cluster_sync()
            combine(of_all, ahead, chunk, columns, mean, total)
            for i, j in T.Parallel(1, chunk):
                if j >= first and j < first + columns:
                    Y[begin + j] = (x[i, j] - mean[i]) * total[i] * weight[i, j] + bias[i, j]

    return layer_norm_cluster


if __name__ == "__main__":
    run(
        __doc__,
        layer_norm_cluster,
        SHAPES,
        rows=(5, 1000),
        columns=(3001, 50257),
        targets=("sm_90a", "sm_100a"),
    )
