"""Rows of float8 and float4 with scale factors, as gemms take them: written and checked."""

import torch

import tilelang.language as T
from tilelang.tools.example import Option
from tilelang.tools.scaled import ATOM, FORMATS, OF_ROW, in_atoms, of_atoms, quantised, values

#: one float32 for 128 columns, as of DeepSeek-V3; or factors that the tensor cores of sm_100a and
#: sm_120a multiply by
NAMES = ("fp8", "mxfp8", "nvfp4")
FORMAT = Option("of the result", "mxfp8", choices=NAMES)


def shape_of_factors(rows, columns, form):
    """Returns the shape of the factors of (rows, columns).

    Those of fp8 are (columns / 128, rows): neighbours in memory are rows. The others lie in atoms
    of 128 rows, (ceil(rows / 128), atoms along K, 2, 256), which blocks of rows cover.
    """
    if form == "fp8":
        return columns // FORMATS[form].shared, rows
    return -(-rows // ATOM), -(-columns // FORMATS[form].depth), 2, 256


@T.macro
def powers_of_two(factor, inverse, most):
    """``factor`` / ``most`` is rounded up to a power of two; ``inverse`` is one over it."""
    for i, j in T.Parallel(*factor.shape):
        bits = T.reinterpret("uint32", factor[i, j] / most) + T.uint32(0x7FFFFF)
        code = T.max(bits >> T.uint32(23), T.uint32(1))
        factor[i, j] = T.reinterpret("float32", code << T.uint32(23))
        inverse[i, j] = T.reinterpret("float32", (T.uint32(254) - code) << T.uint32(23))


@T.macro
def nearest(factor, inverse, most, kind):
    """``factor`` / ``most`` is rounded to ``kind``, not below its least; ``inverse`` as above."""
    for i, j in T.Parallel(*factor.shape):
        wide = T.max(factor[i, j] / most, 2.0**-9 if kind != "float32" else 2.0**-126)
        factor[i, j] = T.cast(T.cast(wide, kind), "float32")
        inverse[i, j] = 1.0 / factor[i, j]


@T.macro
def store_factors(factor, S, row, column, rows, columns):
    """Stores factors from (row, column) on in atoms; beyond the matrix they are zero."""
    for i, j in T.Parallel(*factor.shape):
        r, c = row + i, column + j
        if (r < S.shape[0] * ATOM) & (c < S.shape[1] * OF_ROW):
            S[
                r // ATOM, c // OF_ROW, r % 32 // 16, r % 16 * 16 + r % ATOM // 32 * 4 + c % OF_ROW
            ] = T.if_then_else((r < rows) & (c < columns), factor[i, j], 0.0)


@T.macro
def store_quantised(x, Q, S, form, row, column):
    """Stores the tile ``x``, a float32 fragment, at (row, column) of Q, and its factors.

    Columns of ``x`` and ``column`` are multiples of those that share a factor (of atoms: of 4 times
    as many). Where rows lie in atoms, blocks of rows reach up to a multiple of 128.
    """
    rows, columns = x.shape
    kind = FORMATS[form]
    groups, first = columns // kind.shared, column // kind.shared
    q = T.alloc_fragment((rows, columns), kind.elements)
    factor, inverse = (T.alloc_fragment((rows, groups), "float32") for _ in range(2))
    T.reduce_absmax(T.reshape(x, (rows, groups, kind.shared)), factor, dim=2)
    if form == "mxfp8":
        powers_of_two(factor, inverse, kind.most)
    else:
        nearest(factor, inverse, kind.most, "float8_e4m3fn" if form == "nvfp4" else "float32")
    if form == "fp8":
        for i, j in T.Parallel(rows, groups):
            S[first + j, row + i] = factor[i, j]
    else:
        store_factors(factor, S, row, first, Q.shape[0], Q.shape[1] // kind.shared)
    for i, j in T.Parallel(rows, columns):
        q[i, j] = x[i, j] * inverse[i, j // kind.shared]
    T.copy(q, Q[row, column])


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
