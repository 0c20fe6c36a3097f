"""What the scripts of this folder share: formats, outputs, and their check."""

import torch

from tilelang.tools.example import Option
from tilelang.tools.scaled import FORMATS, in_atoms, of_atoms, quantised, values
from tilelang.tools.scaled_rows import shape_of_factors

#: one float32 for 128 columns, as of DeepSeek-V3; or factors that the tensor cores of sm_100a and
#: sm_120a multiply by
NAMES = ("fp8", "mxfp8", "nvfp4")
FORMAT = Option("of the result", "mxfp8", choices=NAMES)


def check_columns(example):
    """Ends the script where the columns are not divided by those that share a factor."""
    columns, shared = example.args.columns, FORMATS[example.args.format].shared
    whole = columns % shared == 0
    example.require(
        whole, f"--columns is {columns}: give a multiple of {shared}, which share a factor"
    )


def outputs(example, rows, columns):
    """Returns tensors for elements and factors of the example's format, filled with garbage."""
    form = example.args.format
    shape = shape_of_factors(rows, columns, form)
    if form == "fp8":
        return example.output(rows, columns, dtype="float8_e4m3fn"), example.output(*shape)
    kind = FORMATS[form]
    wide = columns // 2 if kind.packed else columns
    codes = example.integers(0, 256, rows, wide, dtype="uint8")
    factors = example.integers(0, 256, *shape, dtype="uint8").view(kind.factors)
    return codes if kind.packed else codes.view(torch.float8_e4m3fn), factors


def check(example, q, s, want):
    """Checks factors beside those of ``want`` (float64), and elements beside their factors."""
    form = example.args.format
    rows, columns = want.shape
    kind = FORMATS[form]
    if form == "fp8":
        factors = s.T
    else:
        factors = of_atoms(s, rows, columns // kind.shared)
        rest = in_atoms(factors).view(torch.uint8) != s.view(torch.uint8)
        assert not bool(rest.any()), "factors beyond the matrix are not zero"
    exact = quantised(want, form)[1].double()
    # A factor is at most one place from that of the exact maximum; powers of two are the same.
    example.check("factors", factors.double(), exact, {"fp8": 2**-20, "nvfp4": 2**-3}.get(form, 0))
    wide = factors.double().repeat_interleave(kind.shared, 1)
    got = values(q, factors, form)
    example.check(
        "elements",
        got / wide / kind.most,
        want / wide / kind.most,
        2**-4 if form != "nvfp4" else 0.17,
    )
