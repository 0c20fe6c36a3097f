"""What turns gain that need not wait until the tensor has what the turn before stored.

    python benchmark/ordering.py [--target sm_90a] [--turns 64]

Blocks scale tiles of 64 x 64 float16, loaded ahead, through a ring of slots, stored by the tensor
memory accelerator to rows that the compiler cannot know to be apart; with ``T.assume_disjoint`` and
without. Prints microseconds: measured on a GPU, predicted by the timing model without one.
"""

from __future__ import annotations

import argparse

import torch

import tilelang
import tilelang.language as T
from tilelang.emulator import TimingOptions
from tilelang.profiler import do_bench

ROWS, COLUMNS, BLOCKS = 64, 64, 132


def scaled(turns: int, slots: int, promise: bool):
    rows = BLOCKS * turns * ROWS

    @T.prim_func
    def main(
        X: T.Tensor((rows, COLUMNS), "float16"),
        Y: T.Tensor((rows, COLUMNS), "float16"),
        step: T.int32,
    ):
        with T.Kernel(BLOCKS, threads=128) as block:
            ins = [T.alloc_shared((ROWS, COLUMNS), "float16") for _ in range(slots)]
            outs = [T.alloc_shared((ROWS, COLUMNS), "float16") for _ in range(slots)]
            for i in T.Pipelined(turns // slots, num_stages=3):
                if promise:
                    T.assume_disjoint(Y, i)
                for slot, tile in enumerate(ins):
                    T.copy(X[(block * turns + i * slots + slot) * ROWS, 0], tile)
                group = T.clamp(i * step, 0, turns // slots - 1)
                for slot, (tile, out) in enumerate(zip(ins, outs, strict=True)):
                    for r, c in T.Parallel(ROWS, COLUMNS):
                        out[r, c] = tile[r, c] * 2
                    T.copy(out, Y[(block * turns + group * slots + slot) * ROWS, 0])

    return main


def microseconds(kernel, args) -> float:
    if torch.cuda.is_available():
        return 1e3 * do_bench(lambda: kernel(*args), return_mode="median")
    report = kernel.profile(*args, timing=TimingOptions(sampled=True, record=False))
    return sum(each.timing.grid_us for each in report.grids)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--turns", type=int, default=64)
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.randn(BLOCKS * options.turns * ROWS, COLUMNS, device=device).half()
    y = torch.zeros_like(x)
    print(f"{'slots':5} {'waits for the tensor':>22} {'waits for the tile':>20}")
    for slots in (1, 2, 4):
        times = []
        for promise in (False, True):
            kernel = tilelang.compile(scaled(options.turns, slots, promise), target=options.target)
            y.zero_()
            if device == "cuda":
                kernel(x, y, 1)
            times.append(microseconds(kernel, (x, y, 1)))
            assert device == "cpu" or torch.equal(y, x * 2)
        print(f"{slots:5} {times[0]:19.1f} us {times[1]:17.1f} us", flush=True)


if __name__ == "__main__":
    main()
