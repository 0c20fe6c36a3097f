"""The timing model on kernels that nobody chose: predicted and measured in one run.

    python benchmark/timing_unseen.py [--list] [--seed 2027] [--save FILE]
                                      [--json FOLDER]

Each family of programs, of the examples and of this folder, has four times sizes drawn evenly by
their logarithms from the ranges written beside it: 40 kernels of ten families, as the compiler
makes them, with its own choice of tiles where the program leaves it that. The rule and the seed
were written before any of them was predicted or measured. No figure of the model may be chosen by
them: who does so draws by another seed. Needs a GPU of the target; the emulator predicts on its
host. A kernel that consists of several grids is measured and predicted as a whole.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), *map(str, (HERE.parent / "examples").iterdir())]
import result_files  # noqa: E402

TARGET, VARIANTS, RUNS = "sm_90a", 4, 7


class Family(NamedTuple):
    """``make`` returns a prim_func of sizes, each of [least, most] in multiples of a number."""

    make: Callable[..., Any]
    sizes: tuple[tuple[int, int, int], ...]


def _jit(module: str, name: str, *more: Any, **options: Any) -> Callable[..., Any]:
    """The prim_func of a jit function of this folder."""
    return lambda *sizes: getattr(__import__(module), name).get_tir(*sizes, *more, **options)


def _example(module: str, name: str, *more: Any) -> Callable[..., Any]:
    return lambda *sizes: getattr(__import__(module), name)(*sizes, *more)


def _plain(m: int, n: int, k: int) -> Any:
    """README's gemm."""
    options = {"m": 128, "n": 128, "stages": 3, "panel": 0, "staged": False, "order": "NN"}
    return __import__("gemm_kernels").tiled_gemm.get_tir(m, n, k, threads=128, **options)


def _hand(m: int, n: int, k: int) -> Any:
    return __import__("gemm_kernels").persistent_gemm.get_tir(m, n, k)


def _attention(queries: int, keys: int, heads: int) -> Any:
    module = __import__("attention_forward")
    tiles = module.default_tiles(TARGET, 128, lengths=(queries, keys))
    shape = module.Shape(2, queries, keys, heads, heads, 128, 128)
    return module.attention(shape, False, "bfloat16", **tiles)


def _dequantised(m: int, n: int, k: int) -> Any:
    module = __import__("gemm_dequantize")
    return module.gemm_dequantize(m, n, k, "int4", "float16", **module.tiles(m, n, k, TARGET))


FAMILIES = {
    "gemm, plain": Family(_plain, ((512, 8192, 8), (512, 8192, 8), (256, 4096, 8))),
    "gemm, persistent": Family(_hand, ((1024, 8192, 64), (1024, 8192, 64), (512, 4096, 64))),
    "gemm, int4": Family(_dequantised, ((1, 512, 1), (2048, 8192, 64), (2048, 8192, 128))),
    "attention": Family(_attention, ((256, 4096, 16), (256, 4096, 16), (4, 32, 4))),
    "softmax": Family(_jit("row_kernels", "softmax"), ((4096, 65536, 1), (256, 8192, 8))),
    "layer_norm": Family(_jit("row_kernels", "layer_norm"), ((4096, 65536, 1), (256, 8192, 8))),
    "transpose": Family(_jit("timing_tiles", "transpose"), ((1024, 8192, 4), (1024, 8192, 4))),
    "silu_mul": Family(_jit("timing_tiles", "silu_mul"), ((1 << 20, 1 << 26, 2),)),
    "prefix sums": Family(
        _example("cumsum", "cumsum", "float32"), ((2048, 32768, 1), (256, 8192, 1))
    ),
    "argmax": Family(_example("argmax", "argmax", "bfloat16"), ((2048, 32768, 1), (256, 16384, 8))),
}


def drawn(seed: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The families and sizes."""
    draw = random.Random(seed)
    for name, family in FAMILIES.items():
        for _ in range(VARIANTS):
            values = [
                max(1, round(math.exp(draw.uniform(math.log(least), math.log(most))) / step)) * step
                for least, most, step in family.sizes
            ]
            yield name, tuple(values)


def compiled(name: str, sizes: tuple[int, ...]) -> Any:
    """The kernel of a family for these sizes."""
    import tilelang

    return tilelang.compile(FAMILIES[name].make(*sizes), target=TARGET, out_idx=[])


def predicted(case: tuple[str, tuple[int, ...]]) -> float | str:
    """Microseconds by the model, of all grids; or why there are none."""
    import torch

    from tilelang import emulator

    torch.manual_seed(1)
    grids: list[float] = []
    timing = emulator.TimingOptions(sampled=True, record=False)
    try:
        kernel = compiled(*case)
        arguments = kernel.get_profiler().get_inputs("cpu")
        with (
            emulator.options(timing=timing),
            kernel.reporting(lambda report: grids.append(report.timing.grid_us)),
        ):
            kernel(*arguments)
        return sum(grids)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def measured(case: tuple[str, tuple[int, ...]]) -> float:
    """Microseconds of its grids on the GPU after 0.2 s of them, L2 flushed before each run."""
    import torch

    kernel = compiled(*case)
    arguments = kernel.get_profiler().get_inputs("cuda")
    flushed = torch.empty(64 << 20, dtype=torch.int32, device="cuda")
    end = time.monotonic() + 0.2
    while time.monotonic() < end:
        kernel(*arguments)
        torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(RUNS):
            flushed.zero_()
            kernel(*arguments)
        torch.cuda.synchronize()
    own = [
        event.device_time
        for event in profile.events()
        if not any(other in event.name for other in ("elementwise", "Memset", "fill", "Fill"))
    ]
    return sum(own) / RUNS


def errors_of(rows: list[dict[str, Any]]) -> tuple[float, float]:
    """Returns the median and the 90th percentile of |predicted / measured - 1|."""
    errors = sorted(abs(row["predicted_us"] / row["measured_us"] - 1) for row in rows)
    at = 0.9 * (len(errors) - 1)
    low, part = int(at), at - int(at)
    high = errors[low] + part * (errors[min(low + 1, len(errors) - 1)] - errors[low])
    return statistics.median(errors), high


def main() -> None:
    """Prints a line for each kernel, and the errors by family and of all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--seed", type=int, default=2027)
    parser.add_argument("--save", type=Path)
    result_files.add_option(parser)
    options = parser.parse_args()
    cases = list(drawn(options.seed))
    if options.list:
        print(*(" ".join(map(str, (name, *sizes))) for name, sizes in cases), sep="\n")
        return
    with ProcessPoolExecutor() as pool:  # before this process uses the GPU
        model = list(pool.map(predicted, cases))
    rows: list[dict[str, Any]] = []
    for (name, sizes), value in zip(cases, model, strict=True):
        case = " ".join(map(str, (name, *sizes)))
        if isinstance(value, str):
            print(f"{case:32} {value[:200]}", flush=True)
            continue
        rows.append({"family": name, "sizes": sizes, "predicted_us": value})
        rows[-1]["measured_us"] = us = measured((name, sizes))
        print(f"{case:32} {value:8.1f} {us:8.1f} us  {value / us:.2f}", flush=True)
    table = result_files.Table("drawn_kernels", ("drawn", "median error", "90th percentile"))
    groups = {name: [row for row in rows if row["family"] == name] for name in FAMILIES}
    for name, of_family in {**groups, f"all {len(rows)} of {len(cases)}": rows}.items():
        median, high = errors_of(of_family)
        print(f"{name:20} median {median:.1%}, 90th percentile {high:.1%}")
        table.add(name, f"{100 * median:.1f} %", f"{100 * high:.1f} %")
    table.save(options.json)
    if options.save:
        options.save.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
