"""How busy the tensor pipe of a B200 is in the examples, by the timing model; needs no GPU.

    python benchmark/tensor_pipe.py [--only TEXT] [--json FOLDER]

GEMMs of 4096 x 4096 x 4096 (the persistent one also of 8192) and attention of 4 x 16 heads of 128
dimensions, 4096 keys, bfloat16, in several tiles, and the pass of its gradients. Prints the share
of the whole grid's time (products at the full rate of all SMs), how busy the pipe is while CTAs run
(gemms of 64 columns occupy it longer than their products), and what stands in the way.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import result_files
import torch

os.environ["TILELANG_DEFAULT_TARGET"] = "sm_100a"
_EXAMPLES = Path(__file__).parent.parent / "examples"
sys.path[:0] = [str(_EXAMPLES / "gemm_sm100"), str(_EXAMPLES / "flash_attention")]

import attention_backward  # noqa: E402
import attention_backward_added  # noqa: E402
import attention_forward as forward  # noqa: E402
from gemm_persistent import gemm_persistent  # noqa: E402
from gemm_persistent_pairs import gemm_persistent_pairs  # noqa: E402
from gemm_tcgen5mma import gemm_ss  # noqa: E402

import tilelang  # noqa: E402
from tilelang.errors import TileLangError  # noqa: E402

_SIZE = 4096
#: operations of the tensor core of an SM in a cycle
_RATE = 8192
_TILES = ((128, 128, 64), (128, 256, 64), (256, 128, 64), (256, 256, 64))
#: tile, stages, and columns of C that are stored at a time: what shared memory has room for
_PERSISTENT = (
    ((128, 128, 64), 4, 128),
    ((128, 256, 64), 4, 128),
    ((256, 128, 64), 4, 64),
    ((256, 256, 32), 6, 64),
)
#: the same of pairs of blocks: the tile of one
_PAIRS = (((128, 128, 64), 7, 64), ((128, 256, 64), 6, 64), ((256, 256, 64), 3, 64))
_TYPES = ("bfloat16", "bfloat16", "float32")


def _gemms() -> Iterator[tuple[str, Callable[[], Any], list[torch.Tensor]]]:
    """Name, function that compiles, arguments."""
    cases: list[tuple[str, int, Any]] = []
    for tile in _TILES:
        name = f"gemm_ss {' x '.join(map(str, tile))}, {_SIZE} cubed"
        cases.append((name, _SIZE, gemm_ss(_SIZE, _SIZE, _SIZE, *tile, *_TYPES)))
    for size in (_SIZE, 2 * _SIZE):
        for make, choices in ((gemm_persistent, _PERSISTENT), (gemm_persistent_pairs, _PAIRS)):
            for tile, stages, columns in choices:
                name = f"{make.__name__} {' x '.join(map(str, tile))}, {size} cubed"
                function = make(
                    size, size, size, *tile, *_TYPES, num_stages=stages, columns=columns
                )
                cases.append((name, size, function))
    for name, size, function in cases:
        tensors = [torch.zeros(size, size, dtype=torch.bfloat16) for _ in range(3)]
        yield name, lambda function=function: tilelang.compile(function, target="sm_100a"), tensors


def _attentions() -> Iterator[tuple[str, Callable[[], Any], list[torch.Tensor]]]:
    shape = forward.Shape(4, _SIZE, _SIZE, 16, 16, 128, 128)
    # Which rows are rescaled depends on the data.
    torch.manual_seed(0)
    tensors = [torch.randn(4, _SIZE, 16, 128, dtype=torch.bfloat16) for _ in range(4)]
    tensors.append(torch.zeros(4, 16, _SIZE))
    for keys, stages, polynomial in ((64, 3, 1), (80, 3, 2), (128, 2, 1)):
        for lazy in (False, True):
            tiles = {"block_N": keys, "num_stages": stages, "lazy": lazy, "polynomial": polynomial}
            settings = {**forward.default_tiles("sm_100a", 128), **tiles}

            def make(settings=settings) -> Any:
                function = forward.attention(shape, False, "bfloat16", **settings)
                return tilelang.compile(
                    function, target="sm_100a", pass_configs=forward.PASS_CONFIGS
                )

            rows = settings["block_M"]
            yield f"attention {rows} x {keys}{', lazy' if lazy else ''}", make, tensors


def _gradients() -> Iterator[tuple[str, Callable[[], Any], list[torch.Tensor]]]:
    shape = forward.Shape(4, _SIZE, _SIZE, 16, 16, 128, 128)
    tiles = attention_backward_added.Backward.default_tiles(128, "sm_100a")
    part = attention_backward_added.part_of(tiles, 128, "sm_100a")
    function = attention_backward_added.gradients(shape, False, tiles, part)
    of_heads = [torch.zeros(4, _SIZE, 16, 128, dtype=torch.bfloat16) for _ in range(6)]
    passed_on = [
        torch.zeros(attention_backward.extents(shape)[-1]),
        torch.zeros(attention_backward_added.extents_of_sums(shape, part)),
    ]

    def make() -> Any:
        return tilelang.compile(function, target="sm_100a", pass_configs=forward.PASS_CONFIGS)

    name = f"attention_backward_added {tiles.kept} x {tiles.step}"
    yield name, make, [*of_heads[:4], *passed_on, *of_heads[4:]]


def main() -> None:
    """Prints a line for each kernel, and the findings of the model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="part of the names")
    result_files.add_option(parser)
    arguments = parser.parse_args()
    columns = ("kernel", "of the grid", "busy while CTAs run", "TFLOP/s")
    table = result_files.Table("tensor_pipe", columns)
    for name, make, tensors in (*_gemms(), *_attentions(), *_gradients()):
        if arguments.only not in name:
            continue
        try:
            report = make().profile(*tensors)
        except TileLangError as error:
            print(f"{name:42} {str(error).splitlines()[0][-120:]}")
            continue
        timing = report.timing
        grid = timing.tensor_flops / (_RATE * timing.sms * timing.grid_cycles)
        shares = dict(zip(timing.engine_name, timing.engine_share, strict=True))
        busy = shares["tensor pipe"]
        table.add(name, f"{100 * grid:.1f} %", f"{100 * busy:.1f} %", f"{timing.tflops:.0f}")
        print(f"{name:42} {100 * grid:5.1f} % of the grid's time, "
              f"{100 * busy:5.1f} % of the CTAs'; {timing.tflops:5.0f} TFLOP/s",
              flush=True)  # fmt: skip
        for finding in report.explain():
            print(f"    {finding}")
    table.save(arguments.json, "the timing model, B200")


if __name__ == "__main__":
    main()
