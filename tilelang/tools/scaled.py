"""Formats and data that block-scaled scripts in ``examples/`` share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from .example import Case, Example, Option

#: rows whose factors are in one atom, and factors of each in it
ATOM = 128
OF_ROW = 4
#: bits of types that share bytes, those of their fraction, and the bias of their exponent
SMALL = {"float4_e2m1fn": (4, 1, 1), "float6_e3m2fn": (6, 2, 3)}


class Format(NamedTuple):
    """A block-scaled format.

    Attributes:
        elements: name of the type of elements; those of four and six bits share bytes.
        factors: type of the factors.
        shared: elements of a row that share a factor.
        most: the largest element.
    """

    elements: str
    factors: torch.dtype
    shared: int
    most: float

    @property
    def packed(self) -> bool:
        """Returns whether elements share bytes."""
        return self.elements in SMALL

    @property
    def depth(self) -> int:
        """Columns whose factors are in one atom."""
        return OF_ROW * self.shared


#: of tables: rows of A, rows of B, columns of both
SHAPES = (
    (4096, 4096, 4096),
    (8192, 8192, 8192),
    (4096, 14336, 4096),
    (2048, 7168, 2048),
    (512, 8192, 8192),
)
#: fp8 has float32 factors in no atoms, as checkpoints of DeepSeek-V3
FORMATS = {
    "fp8": Format("float8_e4m3fn", torch.float32, 128, 448.0),
    "mxfp8": Format("float8_e4m3fn", torch.float8_e8m0fnu, 32, 448.0),
    "mxfp6": Format("float6_e3m2fn", torch.float8_e8m0fnu, 32, 28.0),
    "mxfp4": Format("float4_e2m1fn", torch.float8_e8m0fnu, 32, 6.0),
    "nvfp4": Format("float4_e2m1fn", torch.float8_e4m3fn, 16, 6.0),
}


def quantised(x: torch.Tensor, form: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns ``x`` (..., K) in a format: elements, factors (..., K / shared).

    A factor brings the largest of its elements to ``most``: a power of two not beyond it, one of
    type float8_e4m3fn to the nearest. K is a multiple of the elements that share one.
    """
    kind = FORMATS[form]
    groups = x.float().unflatten(-1, (-1, kind.shared))
    largest = groups.abs().amax(-1) / kind.most
    if kind.factors == torch.float8_e8m0fnu:
        exponents = torch.ceil(torch.log2(largest)).clamp(-126, 127)
        factors = (exponents + 127).to(torch.uint8).view(kind.factors)
    elif kind.factors == torch.float8_e4m3fn:
        factors = largest.clamp(2**-9, 448).to(kind.factors)
    else:
        factors = largest.clamp_min(2.0**-126)
    scaled = (groups * (1 / factors.float())[..., None]).flatten(-2)
    if kind.packed:
        return _packed(_codes(scaled, kind.elements), SMALL[kind.elements][0]), factors
    return scaled.to(getattr(torch, kind.elements)), factors


def values(elements: torch.Tensor, factors: torch.Tensor, form: str) -> torch.Tensor:
    """Returns what elements and factors stand for, in float64."""
    kind = FORMATS[form]
    if kind.packed:
        bits = SMALL[kind.elements][0]
        codes, most = _unpacked(elements, bits), 2 ** (bits - 1) - 1
        sizes = _magnitudes(kind.elements, elements.device)
        wide = sizes[codes & most] * (1 - 2 * (codes > most))
    else:
        wide = elements.double()
    return wide * factors.double().repeat_interleave(kind.shared, -1)


def _magnitudes(elements: str, device: torch.device) -> torch.Tensor:
    """The numbers of a type that are not negative, by their codes: exponent, then fraction."""
    bits, fraction, bias = SMALL[elements]
    codes = torch.arange(2 ** (bits - 1), dtype=torch.float64, device=device)
    exponent, part = codes.div(2**fraction, rounding_mode="floor"), codes % 2**fraction
    subnormal = exponent == 0
    size = part + torch.where(subnormal, 0, 2**fraction)
    return size * torch.exp2(exponent + subnormal.double() - bias - fraction)


def _codes(x: torch.Tensor, elements: str) -> torch.Tensor:
    """Codes of the nearest numbers of a type, of two as near the even one."""
    sizes = _magnitudes(elements, x.device)
    between = torch.cat([(sizes[1:] + sizes[:-1]) / 2, sizes.new_tensor([torch.inf])]).float()
    codes = torch.bucketize(x.abs(), between[:-1])
    return codes + (codes % 2 * (x.abs() == between[codes])) + len(sizes) * (x < 0)


def _packed(codes: torch.Tensor, bits: int) -> torch.Tensor:
    """Codes one after the other, in bytes."""
    places = torch.arange(max(bits, 8), device=codes.device)
    stream = (codes[..., None] >> places[:bits] & 1).flatten(-2).unflatten(-1, (-1, 8))
    return (stream << places[:8]).sum(-1).to(torch.uint8)


def _unpacked(data: torch.Tensor, bits: int) -> torch.Tensor:
    places = torch.arange(8, device=data.device)
    stream = (data.long()[..., None] >> places & 1).flatten(-2).unflatten(-1, (-1, bits))
    return (stream << places[:bits]).sum(-1)


def in_atoms(factors: torch.Tensor) -> torch.Tensor:
    """Returns factors (..., rows, columns) as (..., rows / 128, columns / 4, 2, 256).

    The factors of 128 rows and four columns are an atom of 512 bytes, as cuBLAS takes them; what
    is beyond rows and columns is zero.
    """
    rows, columns = factors.shape[-2:]
    codes = torch.nn.functional.pad(
        factors.view(torch.uint8), (0, -columns % OF_ROW, 0, -rows % ATOM)
    )
    atoms = codes.unflatten(-1, (-1, OF_ROW)).unflatten(-3, (-1, OF_ROW, 32))
    order = atoms.movedim(-2, -4).transpose(-2, -3)  # (rows / 128, columns / 4, 32, 4, 4)
    return order.flatten(-3).unflatten(-1, (2, 256)).contiguous().view(factors.dtype)


def of_atoms(atoms: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """Returns the factors (rows, columns) that lie in atoms (rows / 128, columns / 4, 2, 256)."""
    codes = atoms.view(torch.uint8).flatten(-2).unflatten(-1, (32, 4, OF_ROW))
    wide = codes.permute(0, 3, 2, 1, 4).flatten(3).flatten(0, 2)
    return wide[:rows, :columns].contiguous().view(atoms.dtype)


def by_cublas(
    a: torch.Tensor,
    b: torch.Tensor,
    factors_a: torch.Tensor,
    factors_b: torch.Tensor,
    form: str,
) -> Callable[[], torch.Tensor] | None:
    """Returns A @ B^T in bfloat16 by torch's gemm of these operands; None of other formats."""
    packed = getattr(torch, "float4_e2m1fn_x2", None)  # since torch 2.8
    kind = {"mxfp8": a.dtype, "nvfp4": packed}.get(form)
    if kind is None:
        return None
    factors = factors_a.flatten(), factors_b.flatten()

    def run() -> torch.Tensor:
        x, y = a.view(kind), b.view(kind)
        return torch._scaled_mm(x, y.T, *factors, out_dtype=torch.bfloat16)

    return run


def run_gemm(
    description: str | None,
    gemm: Callable[[int, int, int, str], Any],
    formats: Sequence[str],
    m: int = 256,
    k: int = 256,
    targets: Sequence[str] = ("sm_100a",),
) -> None:
    """Compiles ``gemm`` as the command line says, for block-scaled A @ B^T; runs and checks it.

    Args:
        description: of the command.
        gemm: ``gemm(M, N, K, format)`` gives the prim_func, of A, B, their factors in atoms, and C.
        formats: those that the command line chooses from.
        m, k: default sizes on the emulator.
        targets: (names) for which the kernel can be compiled.
    """
    example = Example(
        description,
        targets,
        format=Option("of A and B", formats[0], choices=tuple(formats)),
        m=Option("rows of A and C", m, 4096),
        n=Option("rows of B, columns of C", 256, 4096),
        k=Option("columns of A and B", k, 4096, multiple=32),
    )
    args = example.args

    def case(m: int, n: int, k: int) -> tuple[Case, list[torch.Tensor], torch.Tensor]:
        kernel = example.compile(gemm(m, n, k, args.format))
        drawn = [quantised(example.normal(rows, k), args.format) for rows in (m, n)]
        exact = [values(*matrix, args.format) for matrix in drawn]
        (a, factors_a), (b, factors_b) = ((x, in_atoms(factors)) for x, factors in drawn)
        c = example.output(m, n, dtype="bfloat16")
        run = functools.partial(kernel, a, b, factors_a, factors_b, c)
        x, y = (matrix.bfloat16() for matrix in exact)
        peers: dict[str, Callable[[], Any]] = {"cuBLAS, bfloat16": lambda: x @ y.T}
        scaled = by_cublas(a, b, factors_a, factors_b, args.format)
        if scaled is not None and args.target != "sm_90a":
            peers["cuBLAS, scaled"] = scaled
        return Case(run, peers, flops=2 * m * n * k), exact, c

    line, (a, b), c = case(args.m, args.n, args.k)
    line.run()
    example.check("C", c, a @ b.T, 2**-16)
    example.speed(*line)
    example.table(SHAPES, lambda m, n, k: case(m, n, k)[0])
