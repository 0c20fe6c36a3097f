"""How busy the tensor pipe of a B200 is in the examples, by the timing model; needs no GPU.

    python benchmark/tensor_pipe.py [--only TEXT]

GEMMs of 4096 x 4096 x 4096 and attention of 4 x 16 heads of 128 dimensions, 4096 keys, bfloat16,
in several tiles. Prints the share of the whole grid's time (products at the full rate of all SMs),
that of the time in which CTAs run, and what stands in the way.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

os.environ["TILELANG_DEFAULT_TARGET"] = "sm_100a"
_EXAMPLES = Path(__file__).parent.parent / "examples"
sys.path[:0] = [str(_EXAMPLES / "gemm_sm100"), str(_EXAMPLES / "flash_attention")]

import attention_forward as forward  # noqa: E402
from gemm_persistent import gemm_persistent  # noqa: E402
from gemm_tcgen5mma import gemm_ss  # noqa: E402

import tilelang  # noqa: E402
from tilelang.errors import TileLangError  # noqa: E402

_SIZE = 4096
#: operations of the tensor core of an SM in a cycle
_RATE = 8192
_TILES = ((128, 128, 64), (128, 256, 64), (256, 128, 64), (256, 256, 64))


def _gemms() -> Iterator[tuple[str, Callable[[], Any], list[torch.Tensor]]]:
    """Name, function that compiles, arguments."""
    a, b, c = (torch.zeros(_SIZE, _SIZE, dtype=torch.bfloat16) for _ in range(3))
    for gemm in (gemm_ss, gemm_persistent):
        for tile in _TILES:

            def make(gemm=gemm, tile=tile) -> Any:
                types = ("bfloat16", "bfloat16", "float32")
                return tilelang.compile(gemm(_SIZE, _SIZE, _SIZE, *tile, *types), target="sm_100a")

            yield f"{gemm.__name__} {' x '.join(map(str, tile))}", make, [a, b, c]


def _attentions() -> Iterator[tuple[str, Callable[[], Any], list[torch.Tensor]]]:
    shape = forward.Shape(4, _SIZE, _SIZE, 16, 16, 128, 128)
    tensors = [torch.zeros(4, _SIZE, 16, 128, dtype=torch.bfloat16) for _ in range(4)]
    tensors.append(torch.zeros(4, 16, _SIZE))
    for keys in (64, 128):
        for lazy in (False, True):
            settings = {**forward.default_tiles("sm_100a", 128), "block_N": keys, "lazy": lazy}

            def make(settings=settings) -> Any:
                function = forward.attention(shape, False, "bfloat16", **settings)
                return tilelang.compile(
                    function, target="sm_100a", pass_configs=forward.PASS_CONFIGS
                )

            rows = settings["block_M"]
            yield f"attention {rows} x {keys}{', lazy' if lazy else ''}", make, tensors


def main() -> None:
    """Prints a line for each kernel, and the findings of the model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="part of the names")
    arguments = parser.parse_args()
    for name, make, tensors in (*_gemms(), *_attentions()):
        if arguments.only not in name:
            continue
        try:
            report = make().profile(*tensors)
        except TileLangError as error:
            print(f"{name:36} {str(error).splitlines()[0][-120:]}")
            continue
        timing = report.timing
        grid = timing.tensor_flops / (_RATE * timing.sms * timing.grid_cycles)
        shares = dict(zip(timing.engine_name, timing.engine_share, strict=True))
        print(f"{name:36} {100 * grid:5.1f} % of the grid's time, "
              f"{100 * shares['tensor pipe']:5.1f} % of the CTAs'; {timing.tflops:5.0f} TFLOP/s",
              flush=True)  # fmt: skip
        for finding in report.explain():
            print(f"    {finding}")


if __name__ == "__main__":
    main()
