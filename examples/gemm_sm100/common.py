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
#: rows of A (of B) whose scale factors are in one atom
ATOM = 128


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


def in_atoms(factors):
    """Factors (rows, columns) as (rows / 128, columns / 4, 2, 256); the rest of atoms is zero."""
    rows, columns = factors.shape
    shape = -(-rows // 128) * 128, -(-columns // 4) * 4
    codes = torch.zeros(shape, dtype=torch.uint8, device=factors.device)
    codes[:rows, :columns] = factors.view(torch.uint8)
    atoms = codes.view(codes.shape[0] // 128, 4, 32, codes.shape[1] // 4, 4)
    atoms = atoms.permute(0, 3, 2, 1, 4).reshape(*atoms.shape[::3], 2, 256)
    return atoms.contiguous().view(factors.dtype)


def run_scaled_gemm(description, gemm, quantised, formats=(), m=256, k=256) -> None:
    """Compiles ``gemm`` as the command line says, for block-scaled A @ B^T; runs and checks it.

    Args:
        description: of the command.
        gemm: ``gemm(M, N, K)`` gives the prim_func, of A, B, their factors in atoms, and C.
        quantised: ``quantised(x)`` gives elements and factors, and what they stand for in float64.
        formats: names that the command line chooses from; both functions take the chosen one last.
        m, k: default sizes on the emulator.
    """
    choice = {"format": Option("of A and B", formats[0], choices=tuple(formats))} if formats else {}
    example = Example(
        description,
        TARGETS,
        **choice,
        m=Option("rows of A and C", m, 4096),
        n=Option("rows of B, columns of C", 256, 4096),
        k=Option("columns of A and B, a multiple of 32", k, 4096),
    )
    args = example.args
    form = (args.format,) if formats else ()
    kernel = example.compile(gemm(args.m, args.n, args.k, *form))
    (a, factors_a, exact_a), (b, factors_b, exact_b) = (
        quantised(example.normal(rows, args.k, dtype="float32"), *form) for rows in (args.m, args.n)
    )
    c = example.output(args.m, args.n, dtype="bfloat16")
    arguments = (a, b, in_atoms(factors_a), in_atoms(factors_b), c)
    kernel(*arguments)
    example.check("C", c, exact_a @ exact_b.T, 2**-16)
    x, y = exact_a.bfloat16(), exact_b.bfloat16()
    peer = {"in bfloat16": lambda: x @ y.T}
    example.speed(lambda: kernel(*arguments), peer, flops=2 * args.m * args.n * args.k)
