"""The speed of light of other spellings: plain programs on sm_100a that users write beside GEMMs.

    python benchmark/blackwell_spellings.py [NAME ...] [--as-written] [--json FILE]

``benchmark/blackwell.py`` has one spelling of each program, and this table has others: attention
with a cap, a bias or a window, GEMMs with other tiles, epilogues and operands, and rows with
divisions and functions. A program that is slow only because of its spelling has a low share here.
Shares are those of ``blackwell.py``: the longer one of the time of the products and the time of the
bytes of all tensors, over the time that the model predicts for all launches of a call. Attention
with a window counts the pairs of queries and keys that the window has. The share that is asked for
is that of the ordinary spelling.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import blackwell
import spelled_attention as attention
import spelled_gemms as gemms
import spelled_rows as rows


@dataclasses.dataclass(frozen=True)
class Spelling:
    """A program, what it must multiply and move, and the share that is asked for."""

    name: str
    program: Callable[[], Any]
    asked: float
    products: float  # of numbers
    moved: float  # bytes
    narrow: bool = False  # operands of 8 bits

    def light(self) -> float:
        """Seconds at the speed of light."""
        return blackwell.light(self.products, self.moved, self.narrow)


def attentions() -> list[Spelling]:
    """Attention of 4 x 16 heads of 4096 tokens and 128 dimensions, unless the name has others."""
    plain = (4, 16, 4096, 128)
    listed: list[tuple[tuple[int, ...], tuple[str, ...], dict[str, Any], float]] = [
        (plain, ("natural",), {}, 0.70),
        (plain, ("natural", "causal"), {}, 0.62),
        (plain, ("softcap",), {}, 0.60),
        (plain, ("softcap", "natural", "causal"), {}, 0.50),
        (plain, ("bias",), {}, 0.60),
        (plain, ("bias_tile",), {}, 0.60),
        (plain, ("window",), {}, 0.55),
        (plain, ("window",), {"keys": 64}, 0.55),
        (plain, (), {"keys": 64}, 0.70),
        (plain, (), {"keys": 64, "rows": 64}, 0.65),
        ((4, 32, 2048, 64), (), {}, 0.45),
        ((4, 32, 2048, 64), ("natural", "causal"), {}, 0.40),
        ((4, 32, 2048, 64), (), {"keys": 64}, 0.45),
        ((4, 32, 2048, 32), (), {}, 0.25),
        ((2, 8, 4096, 256), (), {"keys": 64}, 0.60),
        ((1, 2, 4096, 128), (), {}, 0.40),
        ((1, 8, 1024, 128), (), {}, 0.30),
        (plain, ("natural",), {"threads": 256}, 0.70),
    ]
    found = []
    for sizes, forms, options, asked in listed:
        batch, heads, length, dim = sizes
        pairs = length * length
        if "causal" in forms:
            pairs //= 2
        if "window" in forms:
            pairs = length * min(length, 1024)
        bias = 2 * heads * length * length if {"bias", "bias_tile"} & set(forms) else 0
        name = " ".join(("attention", "x".join(map(str, sizes)), *forms, *_said(options)))
        found.append(
            Spelling(
                name,
                lambda sizes=sizes, forms=forms, options=options: attention.attention(
                    *sizes, *forms, **options
                ),
                asked,
                2 * batch * heads * pairs * dim,
                8 * batch * length * heads * dim + bias,
            )
        )
    return found


def products() -> list[Spelling]:
    """GEMMs with other tiles, operands and epilogues."""
    found = []

    def add(
        name: str, sizes: tuple[int, ...], asked: float, moved: float | None = None,
        times: int = 1, narrow: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        m, n, k = sizes[:3]
        if moved is None:
            moved = 2 * (m * k + times * n * k + m * n)
        make = getattr(gemms, name)
        title = " ".join((name, "x".join(map(str, sizes)), *_said(options)))
        program = lambda: make(*sizes, **options)  # noqa: E731
        found.append(Spelling(title, program, asked, times * m * n * k, moved, narrow))

    cube = (4096, 4096, 4096)
    for tile in ({"rows": 32, "columns": 32}, {"rows": 96, "columns": 96, "depth": 32}):
        add("gemm", cube, 0.72, **tile)
    add("gemm", cube, 0.72, rows=64, columns=64)
    add("gemm", cube, 0.72, depth=128, stages=2)
    add("swiglu", (4096, 11008, 4096), 0.70, times=2)
    for function in ("gelu", "sigmoid", "silu", "softplus", "tanh"):
        add("epilogue", (4096, 8192, 4096), 0.70, function=function)
    for m in (16, 4096):
        moved = 2 * m * 4096 + 4096 * 4096 // 2 + 2 * 4096 * 32 + 2 * m * 4096
        add("dequantised", (m, 4096, 4096), 0.50, moved=moved)
    for m in (128, 4096):
        moved = (m + 7168) * 2048 + 2 * m * 7168 + 4 * 16 * (m + 56)
        add("scaled_fp8", (m, 7168, 2048), 0.50, moved=moved, narrow=True)
    add("split_k", (128, 4096, 16384, 8), 0.50, moved=2 * (128 + 4096) * 16384 + 8 * 128 * 4096)
    places, taps = 32 * 56 * 56, 9 * 128
    found.append(
        Spelling(
            "convolution 32x56x56x128 128",
            lambda: gemms.convolution(32, 56, 128, 128),
            0.50,
            places * taps * 128,
            2 * (places * 128 + taps * 128 + places * 128),
        )
    )
    m, n, k = 8 * 512, 4096, 2048
    found.append(
        Spelling(
            "grouped 8x512x4096x2048",
            lambda: gemms.grouped(8, 512, n, k),
            0.65,
            m * n * k,
            2 * (m * k + 8 * n * k + m * n),
        )
    )
    return found


def streams() -> list[Spelling]:
    """Rows and elements, whose bytes bound them."""
    found = []

    def add(asked: float, make: Callable[..., Any], *sizes: Any, moved: float) -> None:
        title = " ".join((make.__name__, *map(str, sizes)))
        found.append(Spelling(title, lambda: make(*sizes), asked, 0, moved))

    for columns in (64, 128, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536):
        count = 2**26 // columns
        add(0.80, rows.softmax, count, columns, moved=4 * count * columns)
    for columns in (1000, 1023, 3000, 4096, 5120, 8191):
        count = 2**26 // columns
        add(0.80, rows.layer_norm, count, columns, moved=4 * count * columns)
    add(0.85, rows.residual_norm, 16384, 4096, moved=8 * 2**26)
    add(0.80, rows.quantised_rows, 16384, 4096, moved=3 * 2**26)
    add(0.80, rows.quantised_groups, 16384, 4096, moved=3 * 2**26)
    functions = ("gelu", "gelu_tanh", "log", "pow", "sigmoid", "silu", "sin", "softplus", "sqrt")
    for function in (*functions, "tanh"):
        add(0.85, rows.elementwise, 8192, 8192, function, moved=6 * 2**26)
    add(0.80, rows.transpose, 8192, 8192, moved=4 * 2**26)
    return found


def _said(options: dict[str, Any]) -> list[str]:
    """Options as the name of a row has them."""
    return [f"{key}={value}" for key, value in options.items()]


def listed() -> list[Spelling]:
    """The programs of the table."""
    return [*attentions(), *products(), *streams()]


if __name__ == "__main__":
    parser = blackwell.arguments(__doc__)
    options = parser.parse_args()
    blackwell.table(listed(), options)
