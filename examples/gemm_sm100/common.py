"""What the gemms of this folder share: element types, data, and main functions."""

import torch

import tilelang.language as T
from tilelang.tools.example import Example, Option

#: element type: (accumulator, result, largest error beside that of rounding the result)
TYPES = {
    "bfloat16": ("float32", "bfloat16", 2**-12),
    "float16": ("float32", "float16", 2**-12),
    "float32": ("float32", "float32", 2**-9),  # the tensor core reads tf32: 10 bits of mantissa
    "float8_e4m3fn": ("float32", "float32", 2**-16),
    "float8_e5m2": ("float32", "float32", 2**-16),
    "int8": ("int32", "int32", 0),
}
#: tensor memory is Blackwell's
TARGETS = ("sm_100a",)


def dtype_option(*dtypes: str) -> Option:
    """Returns the option of the element type, one of ``dtypes`` or of all."""
    return Option("element type of the operands", "bfloat16", choices=dtypes or tuple(TYPES))


def random_matrix(example: Example, rows: int, columns: int) -> torch.Tensor:
    """Returns normal values (or integers of -8 .. 7) of the example's element type."""
    if example.args.dtype == "int8":
        return example.integers(-8, 8, rows, columns, dtype="int8")
    return example.normal(rows, columns, dtype=example.args.dtype)


def run_gemm(description: str | None, gemm) -> None:
    """Compiles ``gemm`` as the command line says, for C = A @ B^T; runs and checks it.

    ``gemm(M, N, K, block_M, block_N, block_K, in_dtype, out_dtype, accum_dtype)`` gives the
    prim_func; its blocks here are 128 x 128 and 128 bytes along K.
    """
    example = Example(
        description,
        TARGETS,
        m=Option("rows of A and C", 256, 4096),
        n=Option("rows of B, columns of C", 256, 4096),
        k=Option("columns of A and B", 256, 4096),
        dtype=dtype_option(),
    )
    args = example.args
    accum_dtype, out_dtype, tolerance = TYPES[args.dtype]
    blocks = (128, 128, 128 // getattr(T, args.dtype).itemsize)
    function = gemm(args.m, args.n, args.k, *blocks, args.dtype, out_dtype, accum_dtype)
    kernel = example.compile(function)
    a = random_matrix(example, args.m, args.k)
    b = random_matrix(example, args.n, args.k)
    c = example.output(args.m, args.n, dtype=out_dtype)
    kernel(a, b, c)
    example.check("C", c, a.double() @ b.double().T, tolerance)
    x, y = (z.bfloat16() for z in (a, b))
    peer = {"in bfloat16": lambda: x @ y.T}
    example.speed(lambda: kernel(a, b, c), peer, flops=2 * args.m * args.n * args.k)
