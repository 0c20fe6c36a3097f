"""What the gemms of this folder share: element types, data, and main functions."""

import torch

import tilelang.language as T
from tilelang.tools.example import Case, Example, Option

#: element type: (accumulator, result, largest error beside that of rounding the result)
TYPES = {
    "bfloat16": ("float32", "bfloat16", 2**-12),
    "float16": ("float32", "float16", 2**-12),
    "float32": ("float32", "float32", 2**-9),  # the tensor core reads tf32: 10 bits of mantissa
    "float8_e4m3fn": ("float32", "float32", 2**-16),
    "float8_e5m2": ("float32", "float32", 2**-16),
    "int8": ("int32", "int32", 0),
}
#: of tables: rows of A, rows of B, columns of both
SHAPES = (
    (4096, 4096, 4096),
    (8192, 8192, 8192),
    (4096, 14336, 4096),
    (2048, 2048, 8192),
    (5120, 3072, 4096),
)
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

    def case(m, n, k):
        kernel = example.compile(gemm(m, n, k, *blocks, args.dtype, out_dtype, accum_dtype))
        a, b = random_matrix(example, m, k), random_matrix(example, n, k)
        c = example.output(m, n, dtype=out_dtype)
        x, y = (z.bfloat16() if z.element_size() == 1 else z for z in (a, b))
        peers = {f"cuBLAS, {str(x.dtype)[6:]}": lambda: x @ y.T}
        return Case(lambda: kernel(a, b, c), peers, flops=2 * m * n * k), a, b, c

    line, a, b, c = case(args.m, args.n, args.k)
    line.run()
    example.check("C", c, a.double() @ b.double().T, tolerance)
    example.speed(*line)
    example.table(SHAPES, lambda *sizes: case(*sizes)[0])
