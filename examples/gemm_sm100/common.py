"""What the GEMM examples share: command line, data, and the check against torch on the CPU."""

import argparse

import torch

import tilelang
import tilelang.language as T

#: element type: (accumulator, result, largest error allowed, relative to the largest result)
TYPES = {
    "bfloat16": ("float32", "bfloat16", 2**-8),
    "float16": ("float32", "float16", 2**-11),
    "float32": ("float32", "float32", 2**-9),  # the tensor core reads tf32: 10 bits of mantissa
    "float8_e4m3fn": ("float32", "float32", 2**-16),
    "float8_e5m2": ("float32", "float32", 2**-16),
    "int8": ("int32", "int32", 0.0),
}


def parse_arguments(description: str, dtypes=tuple(TYPES), **sizes: int) -> argparse.Namespace:
    """Returns the command line: one option for each of ``sizes``, dtype, target and device."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--dtype", choices=dtypes, default="bfloat16")
    parser.add_argument("--target", default="sm_100a")
    parser.add_argument("--device", default=None, help="cpu (the emulator) or cuda")
    parser.add_argument("--source", action="store_true", help="print the generated CUDA C++")
    args = parser.parse_args()
    args.accum_dtype, args.out_dtype, args.tolerance = TYPES[args.dtype]
    args.device = args.device or ("cuda" if _has_blackwell() else "cpu")
    return args


def _has_blackwell() -> bool:
    return torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 10


def random_matrix(rows: int, columns: int, args: argparse.Namespace) -> torch.Tensor:
    """Returns normal values (or integers of -8 .. 7) of the example's element type."""
    if args.dtype == "int8":
        return torch.randint(-8, 8, (rows, columns), dtype=torch.int8, device=args.device)
    return torch.randn(rows, columns).to(getattr(torch, args.dtype)).to(args.device)


def run_and_check(kernel, operands, reference, args: argparse.Namespace) -> None:
    """Runs ``kernel(*operands, result)`` and compares with ``reference``, a float64 tensor.

    Prints where it ran and the largest error; raises AssertionError if that is too large.
    """
    if args.source:
        print(kernel.get_kernel_source())
    dtype = getattr(torch, args.out_dtype)
    # A result that the kernel does not write must not pass.
    poison = float("nan") if dtype.is_floating_point else -(2**31)
    result = torch.full(reference.shape, poison, dtype=dtype, device=args.device)
    kernel(*operands, result)
    error = (result.cpu().double() - reference).abs().max().item()
    relative = error / reference.abs().max().item()
    where = torch.cuda.get_device_name() if args.device == "cuda" else "the emulator (CPU)"
    print(f"{kernel.name} for {args.target}: ran on {where}")
    print(f"{args.dtype} -> {args.out_dtype}, largest error {error:.3g} ({relative:.2g} relative)")
    assert relative <= args.tolerance, f"expected at most {args.tolerance:.2g} relative"
    print("correct")


def run_gemm(description: str, gemm) -> None:
    """Compiles ``gemm`` as the command line says, for C = A @ B^T; runs and checks it.

    ``gemm(M, N, K, block_M, block_N, block_K, in_dtype, out_dtype, accum_dtype)`` gives the
    prim_func; its blocks here are 128 x 128 and 128 bytes along K.
    """
    args = parse_arguments(description, m=256, n=256, k=256)
    blocks = (128, 128, 128 // getattr(T, args.dtype).itemsize)
    types = (args.dtype, args.out_dtype, args.accum_dtype)
    kernel = tilelang.compile(gemm(args.m, args.n, args.k, *blocks, *types), target=args.target)
    a = random_matrix(args.m, args.k, args)
    b = random_matrix(args.n, args.k, args)
    run_and_check(kernel, (a, b), a.cpu().double() @ b.cpu().double().T, args)


__all__ = ["parse_arguments", "random_matrix", "run_and_check", "run_gemm"]
