"""loss = log(sum(exp(X))) - X[label] by rows, and its gradient: cross-entropy of many classes.

The first kernel reads each row once, chunk by chunk, with a running maximum and a sum that is
rescaled when a larger element comes. It keeps the logarithm of the sum, with which the second one
computes dX = (softmax(X) - 1 at the label) * d loss, element by element.

    python cross_entropy.py [--rows 33] [--columns 3001] [--dtype bfloat16] [--target sm_90a]
                            [--device cpu]
"""

import math

import torch

import tilelang.language as T
from tilelang.tools.example import Case, Example, Option

LOG2E = math.log2(math.e)  # powers of two in place of e
SHAPES = ((32768, 1000), (16384, 8192), (8192, 32000), (4096, 50257), (4096, 128256))


def cross_entropy(rows, columns, dtype, threads=256):
    """Returns loss and the logarithms, both (rows,), of X (rows, columns) and labels (rows,)."""
    chunk = min(16 * threads, -(-columns // threads) * threads)

    @T.prim_func
    def cross_entropy(
        X: T.Tensor((rows, columns), dtype),
        label: T.Tensor((rows,), "int32"),
        loss: T.Tensor((rows,), "float32"),
        log_sum: T.Tensor((rows,), "float32"),
    ):
        with T.Kernel(rows, threads=threads) as row:
            T.annotate_safe_value({X: -T.infinity(dtype)})  # beyond a row: without weight
            x = T.alloc_fragment((1, chunk), "float32")
            largest, previous, total, part = (T.alloc_fragment((1,), "float32") for _ in range(4))
            T.fill(largest, -T.infinity("float32"))
            T.clear(total)
            for c in T.Pipelined(T.ceildiv(columns, chunk), num_stages=2):
                T.copy(X[row, c * chunk], x)
                T.copy(largest, previous)
                T.reduce_max(x, largest, dim=1, clear=False)
                for i, j in T.Parallel(1, chunk):
                    x[i, j] = T.exp2((x[i, j] - largest[i]) * LOG2E)
                T.reduce_sum(x, part, dim=1)
                for i in T.Parallel(1):
                    total[i] = total[i] * T.exp2((previous[i] - largest[i]) * LOG2E) + part[i]
            for i in T.Parallel(1):
                log_sum[row + i] = largest[i] + T.log(total[i])
                loss[row + i] = (
                    largest[i] + T.log(total[i]) - T.cast(X[row, label[row + i]], "float32")
                )

    return cross_entropy


def cross_entropy_backward(rows, columns, dtype, chunk=2048, threads=256):
    """Returns dX of X, labels, the logarithms of the first kernel and the gradient of the loss."""

    @T.prim_func
    def cross_entropy_backward(
        X: T.Tensor((rows, columns), dtype),
        label: T.Tensor((rows,), "int32"),
        log_sum: T.Tensor((rows,), "float32"),
        DLOSS: T.Tensor((rows,), "float32"),
        DX: T.Tensor((rows, columns), dtype),
    ):
        with T.Kernel(T.ceildiv(columns, chunk), rows, threads=threads) as (part, row):
            x = T.alloc_fragment((chunk,), "float32")
            T.copy(X[row, part * chunk], x)
            for j in T.Parallel(chunk):
                hit = T.if_then_else(part * chunk + j == label[row], 1.0, 0.0)
                x[j] = (T.exp2((x[j] - log_sum[row]) * LOG2E) - hit) * DLOSS[row]
            T.copy(x, DX[row, part * chunk])

    return cross_entropy_backward


def main():
    """Runs both kernels, checks them, and on a GPU compares their speed with torch."""
    example = Example(
        __doc__,
        rows=Option("rows of X", 33, 8192),
        columns=Option("classes", 3001, 32000),
        dtype=Option("element type", "bfloat16", choices=("float16", "bfloat16", "float32")),
    )
    args = example.args

    def arguments(rows, columns):
        x = example.normal(rows, columns, dtype=args.dtype, scale=3)
        return x, example.integers(0, columns, rows), example.normal(rows)

    def reference(x, label, dloss):
        x = x.detach().requires_grad_()
        loss = torch.nn.functional.cross_entropy(x, label.long(), reduction="none")
        (dx,) = torch.autograd.grad(loss, x, dloss.to(loss.dtype))
        return loss.detach(), dx

    def case(rows, columns):
        forward = example.compile(cross_entropy(rows, columns, args.dtype))
        backward = example.compile(cross_entropy_backward(rows, columns, args.dtype))
        x, label, dloss = arguments(rows, columns)
        loss, log_sum = example.output(rows), example.output(rows)
        dx = example.output(rows, columns, dtype=args.dtype)

        def run():
            forward(x, label, loss, log_sum)
            backward(x, label, log_sum, dloss, dx)

        compiled = example.compiled(reference)
        peers = {
            "torch": lambda: reference(x, label, dloss),
            "compile": lambda: compiled(x, label, dloss),
        }
        return (run, peers, 3 * x.nbytes), (x, label, dloss, loss, dx)

    (run, peers, moved), (x, label, dloss, loss, dx) = case(args.rows, args.columns)
    run()
    want_loss, want = reference(x.double(), label, dloss)
    example.check("loss", loss, want_loss)
    example.check("dX", dx, want)
    example.speed(run, peers["torch"], moved=moved)
    example.table(SHAPES, lambda *shape: Case(*case(*shape)[0]))


if __name__ == "__main__":
    main()
