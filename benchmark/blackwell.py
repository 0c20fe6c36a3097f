"""Straightforward programs on sm_100a, predicted by the timing model: share of the speed of light.

    python benchmark/blackwell.py [NAME ...] [--drawn SEED] [--as-written] [--json FILE]

The programs are those of ``benchmark/blackwell_programs.py``: nothing in them names a barrier,
tensor memory, a pair of CTAs or a cluster. The speed of light is the longer one of two times:
the products at the dense rate of the tensor cores, and the bytes of all tensors at 7.4 TB/s (a
B200: 148 SMs at 1850 MHz). A row shows the microseconds of a whole call, all its launches
together, and its share twice: sustained, with the clock that the power limit leaves after many
calls, and fresh, at the full clock, as in the first milliseconds. The speed of light is at the
full clock. The last column is the share that is asked for.

``--as-written`` adds the share of the same program with the choices of tiles, blocks, stages,
order and exponentials turned off. ``--drawn SEED`` replaces the shapes by as many others of the
same programs: each extent of a listed shape is multiplied by a factor drawn evenly by its
logarithm from 1/2 to 2 and rounded to a multiple of 8, extents below 64 stay, and head
dimensions become 64, 96, 112 or 128. Choices of the compiler are made on the listed shapes, so
drawn ones are held back if their seed is drawn after a choice.

``benchmark/blackwell_spellings.py`` prints the same table for other spellings: attention with a
cap, a bias or a window, GEMMs with other tiles and epilogues, and rows with divisions and
functions.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import blackwell_programs as programs

import tilelang

TARGET = "sm_100a"
CLOCK, SMS, BYTES = 1.85e9, 148, 7.4e12
PRODUCTS = 4096 * SMS * CLOCK  # of 16-bit operands in a second; of 8 bits twice as many
#: without what the compiler chooses
AS_WRITTEN = {
    "tl.disable_block_fitting": True,
    "tl.disable_block_order": True,
    "tl.disable_exp2_polynomials": True,
    "tl.disable_factor_packing": True,
    "tl.disable_persistent_blocks": True,
    "tl.disable_stage_fitting": True,
    "tl.disable_tile_choice": True,
}
DIMS = (64, 96, 112, 128)


class Program(Protocol):
    """A row of a table: a program, its name, and the share that is asked for."""

    @property
    def name(self) -> str: ...

    @property
    def asked(self) -> float: ...

    @property
    def program(self) -> Callable[[], Any]: ...

    def light(self) -> float: ...


def light(products: float, moved: float, narrow: bool) -> float:
    """Seconds of so many products, of 8-bit operands if ``narrow``, and of the bytes moved."""
    return max(products / (PRODUCTS * (2 if narrow else 1)), moved / BYTES)


@dataclasses.dataclass(frozen=True)
class Case:
    """A program, its arguments, and the share of the speed of light that is asked for."""

    family: str
    sizes: tuple[int, ...]
    asked: float
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def name(self) -> str:
        """The family, the sizes, and the options that differ from the plain program."""
        options = (f" {k}={v}" if v is not True else f" {k}" for k, v in self.options)
        return f"{self.family} {'x'.join(map(str, self.sizes))}{''.join(options)}"

    def program(self) -> Any:
        """The prim_func."""
        options = dict(self.options)
        if self.family == "batched":
            batch, *sizes = self.sizes
            return programs.gemm(*sizes, batch=batch)
        make: Callable[..., Any] = getattr(programs, self.family)
        return make(*self.sizes, **options)

    def light(self) -> float:
        """Seconds at the speed of light."""
        return light(*self._work())

    def _work(self) -> tuple[float, float, bool]:
        """Products, bytes, and whether operands have 8 bits."""
        options, sizes = dict(self.options), self.sizes
        if self.family == "attention":
            batch, heads, length, dim = sizes
            kv_heads = options.get("kv_heads") or heads
            products = 2 * batch * heads * length * length * dim
            moved = 2 * batch * length * dim * (2 * heads + 2 * kv_heads)
            return products * (0.5 if options.get("causal") else 1), moved, False
        if self.family in {"rms_norm", "add", "transpose"}:
            return 0, (6 if self.family == "add" else 4) * math.prod(sizes), False
        batch, m, n, k = sizes if self.family == "batched" else (1, *sizes)
        narrow = self.family == "mxfp8" or options.get("dtype", "").startswith("float8")
        size = 1 if narrow else 2
        return batch * m * n * k, batch * (size * (m + n) * k + 2 * m * n), narrow


def listed() -> list[Case]:
    """The programs of the table."""
    gemms = {
        (8192, 8192, 8192): 0.85, (4096, 4096, 4096): 0.72, (2048, 2048, 2048): 0.55,
        (5000, 3000, 2000): 0.70, (7168, 2560, 5120): 0.70, (3072, 18432, 2048): 0.70,
        (16384, 1536, 3584): 0.70, (1, 14336, 4096): 0.80, (16, 14336, 4096): 0.80,
        (64, 7168, 7168): 0.65, (128, 4096, 4096): 0.50, (200, 6144, 4096): 0.50,
        (512, 4096, 7168): 0.60,
    }  # fmt: skip
    cube = (8192, 8192, 8192)
    cases = [Case("gemm", sizes, asked) for sizes, asked in gemms.items()]
    cases.append(Case("gemm", (4096, 4096, 4096), 0.72, (("order", "NN"),)))
    cases.append(Case("gemm", cube, 0.85, (("tile", (256, 128)), ("threads", 256))))
    cases.append(Case("gemm", cube, 0.85, (("dtype", "float8_e4m3fn"),)))
    cases.append(Case("gemm_bias_gelu", (4096, 8192, 4096), 0.70))
    cases.append(Case("batched", (16, 2048, 2048, 1024), 0.65))
    cases.append(Case("mxfp8", (4096, 4096, 4096), 0.60))
    causal = ("causal", True)
    cases.append(Case("attention", (4, 16, 4096, 128), 0.70))
    cases.append(Case("attention", (4, 16, 4096, 128), 0.62, (causal,)))
    cases.append(Case("attention", (2, 32, 8192, 128), 0.65, (causal, ("kv_heads", 8))))
    cases.append(Case("attention", (4, 32, 2048, 64), 0.45))
    cases.append(Case("attention", (1, 16, 16384, 128), 0.72))
    cases.append(Case("rms_norm", (16384, 4096), 0.88))
    cases.append(Case("add", (8192, 8192), 0.88))
    cases.append(Case("transpose", (8192, 8192), 0.88))
    return cases


def drawn(seed: int) -> list[Case]:
    """Returns the same programs with other sizes."""
    draw = random.Random(seed)

    def size(extent: int) -> int:
        if extent < 64:
            return extent
        return max(8, 8 * round(extent * math.exp(draw.uniform(-1, 1) * math.log(2)) / 8))

    cases = []
    for case in listed():
        sizes = tuple(map(size, case.sizes))
        if case.family == "attention":
            sizes = (*sizes[:3], draw.choice(DIMS))
        if case.family == "mxfp8":
            sizes = (*sizes[:2], 128 * max(1, sizes[2] // 128))
        cases.append(dataclasses.replace(case, sizes=sizes))
    return cases


def seconds(case: Program, configs: dict[str, Any]) -> tuple[float, float]:
    """Predicts a call of the program, all its launches together: sustained, and fresh."""
    kernel = tilelang.compile(case.program(), target=TARGET, pass_configs=configs)
    timings = [report.timing for report in kernel.profile().grids]
    return sum(t.grid_us for t in timings) * 1e-6, sum(t.fresh_us for t in timings) * 1e-6


def measured(case: Program, as_written: bool) -> dict[str, Any]:
    """One row of the table."""
    began = time.monotonic()
    light = case.light()
    row: dict[str, Any] = {"name": case.name, "asked": case.asked}
    try:
        call, fresh = seconds(case, {})
        row |= {"us": round(call * 1e6, 2), "share": round(light / call, 3)}
        row["fresh"] = round(light / fresh, 3)
        if as_written:
            row["as_written"] = round(light / seconds(case, AS_WRITTEN)[0], 3)
    except Exception as error:  # a program that does not compile has a row, too
        row |= {"share": 0.0, "fresh": 0.0, "error": f"{type(error).__name__}: {str(error)[:120]}"}
    return row | {"compile_s": round(time.monotonic() - began, 1)}


def line(row: dict[str, Any]) -> str:
    """A row as text."""
    if "error" in row:
        return f"{row['name']:52} {row['error']}"
    before = f"  as written {row['as_written']:5.3f}" if "as_written" in row else ""
    return (
        f"{row['name']:52} {row['us']:9.1f} us  share {row['share']:5.3f}"
        f"  fresh {row['fresh']:5.3f}  asked {row['asked']:4.2f}{before}"
    )


def arguments(doc: str | None) -> argparse.ArgumentParser:
    """The options that tables share."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="parts of the names of rows; all if none is given")
    parser.add_argument("--as-written", action="store_true")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser


def table(cases: Sequence[Program], options: argparse.Namespace) -> None:
    """Prints the rows whose names the options have."""
    if options.names:
        cases = [case for case in cases if any(name in case.name for name in options.names)]
    rows = []
    for case in cases:
        rows.append(measured(case, options.as_written))
        print(line(rows[-1]), flush=True)
    for column in ("share", "fresh") if rows else ():
        shares = [row[column] for row in rows]
        mean, reached = sum(shares) / len(shares), sum(r[column] >= r["asked"] for r in rows)
        print(
            f"{column}: mean {mean:.3f}, least {min(shares):.3f}; {reached} of {len(rows)} as asked"
        )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


def main() -> None:
    """Prints the table."""
    parser = arguments(__doc__)
    parser.add_argument("--drawn", type=int, metavar="SEED", help="draw other shapes")
    options = parser.parse_args()
    table(listed() if options.drawn is None else drawn(options.drawn), options)


if __name__ == "__main__":
    main()
