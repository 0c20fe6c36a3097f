"""Bandwidth of kernels over rows, normalizations and softmax, beside torch and Triton.

    python benchmark/normalization.py [--rows 32768] [--columns 4096] [--kernels softmax rms_norm]
                                      [--json FOLDER]

Counts the bytes that must move (the matrix once in and once out, the vectors in) and prints TB/s of
the median run, with the L2 cache flushed before each. Results are checked against float64 first.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from typing import Any

import in_turns
import result_files
import row_kernels
import torch


def arguments(name: str, m: int, n: int) -> list[torch.Tensor]:
    """Returns random bfloat16 arguments on the GPU."""
    shapes = [(m, n), *[(n,)] * row_kernels.VECTORS[name]]
    return [torch.randn(shape, device="cuda").bfloat16() for shape in shapes]


def check(name: str, run: Callable[..., Any], args: list[torch.Tensor]) -> None:
    """Compares the first rows with the formula in float64; bfloat16 keeps 8 bits."""
    expected = row_kernels.references()[name](
        args[0][:256].double(), *[a.double() for a in args[1:]]
    )
    torch.testing.assert_close(run(*args)[:256].double(), expected, rtol=1e-2, atol=1e-2)


def terabytes_per_second(
    runs: dict[str, Callable[..., Any]], args: list[torch.Tensor]
) -> dict[str, float]:
    """Returns the bandwidths of functions whose output is as large as their first argument."""
    moved = sum(a.nbytes for a in args) + args[0].nbytes
    times = in_turns.milliseconds({n: functools.partial(run, *args) for n, run in runs.items()})
    return {name: moved / (ms * 1e-3) / 1e12 for name, ms in times.items()}


def triton_kernels() -> dict[str, Callable[..., torch.Tensor]]:
    """The peers of Triton's tutorials' kind; none where there is no Triton."""
    try:
        import row_triton
    except ImportError:
        return {}
    return row_triton.kernels(row_kernels.EPSILON)


#: kernels by their names in docs/speed.md
TITLES = {"rms_norm": "RMSNorm", "layer_norm": "LayerNorm"}


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=32768)
    parser.add_argument("--columns", type=int, default=4096)
    parser.add_argument("--kernels", nargs="*", default=list(row_kernels.KERNELS))
    result_files.add_option(parser)
    options = parser.parse_args()
    columns = ("", "this compiler", "torch", "torch.compile", "Triton")
    table = result_files.Table("normalization", columns)
    print(f"{torch.cuda.get_device_name()}, {options.rows} x {options.columns} bfloat16, TB/s")
    triton = triton_kernels()
    print("".join(f"{title:<12}" for title in ("kernel", "tilelang", "torch", "compile", "Triton")))
    for name in options.kernels:
        args = arguments(name, options.rows, options.columns)
        formula = row_kernels.references()[name]
        kernel = row_kernels.KERNELS[name](options.rows, options.columns)
        runs = {"tilelang": kernel, "torch": formula, "compile": torch.compile(formula)}
        if name in triton:
            runs["Triton"] = triton[name]
        for run in runs.values():
            check(name, run, args)
        speeds = terabytes_per_second(runs, args).values()
        print(f"{name:<12}{''.join(f'{s:<12.2f}' for s in speeds)}", flush=True)
        table.add(TITLES.get(name, name), *(f"{s:.2f}" for s in speeds))
    table.save(options.json)


if __name__ == "__main__":
    main()
