"""Speed of streams on a GPU: kernels by layout, appends by where their arrays lie.

    python benchmark/stream.py [kernels] [appends] [--only TEXT]

kernels: traffic, which is what is read and what is written, of the kernel that puts elements which
are on the GPU into tiles; beside it that of torch's copy of as many bytes. Times are medians with
the L2 cache flushed before each run. Tiles are compared with torch first.

appends: bytes of the array a second from the first append to the last tile, with a consumer that
releases each batch at once; and what an append costs the host.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import in_turns
import numpy as np
import torch

from tilelang.stream import TileStream
from tilelang.stream.device import open_device
from tilelang.stream.ingest import Ingest
from tilelang.stream.plan import Plan


class Case(NamedTuple):
    """A stream, of a whole number of epochs."""

    name: str
    shape: tuple[int, ...]
    tile: tuple[int, ...]
    order: tuple[int, ...] | None = None
    dtype: str = "uint16"


CASES = (
    Case("tiles 16x64x64", (64, 1024, 2048), (16, 64, 64)),
    Case("two channels", (32, 2, 2048, 2304), (16, 1, 64, 128)),
    Case("channels first", (32, 2, 2048, 2304), (16, 1, 64, 128), (1, 0, 2, 3)),
    Case("ragged 30x60", (64, 1000, 1002), (4, 30, 60)),
    Case("runs of 8 bytes", (64, 1024, 2048), (16, 64, 4)),
    Case("runs of 4 bytes", (64, 1024, 2048), (16, 64, 2)),
    Case("odd width", (64, 1024, 2049), (16, 64, 64)),
    Case("small epochs", (1 << 19, 16, 16), (64, 16, 16)),
    Case("one frame a tile", (64, 1024, 2048), (1, 256, 256)),
    Case("last axis first", (64, 1024, 2048), (16, 64, 64), (2, 0, 1)),
    Case("float32", (32, 1024, 2048), (16, 64, 64), None, "float32"),
    Case("bytes", (64, 2048, 2048), (16, 64, 64), None, "uint8"),
)


def cut(array: torch.Tensor, case: Case) -> torch.Tensor:
    """Returns the tiles as torch cuts them."""
    rank = array.ndim
    counts = [-(-s // n) for s, n in zip(case.shape, case.tile, strict=True)]
    extents = [t * n for t, n in zip(counts, case.tile, strict=True)]
    if tuple(extents) != case.shape:
        whole = array.new_zeros(extents)
        whole[tuple(slice(0, s) for s in case.shape)] = array
        array = whole
    split = array.view([e for pair in zip(counts, case.tile, strict=True) for e in pair])
    order = case.order or range(rank)
    return split.permute([2 * d for d in range(rank)] + [2 * d + 1 for d in order])


def terabytes_per_second(case: Case) -> dict[str, float]:
    """Returns the traffic of our kernel, and of torch's copy of the same bytes."""
    plan = Plan.of(case.shape, case.tile, case.dtype, case.order, 1 << 30, 1, 0)
    ingest = Ingest(plan, open_device("cuda", "auto"))
    part = plan.part(0, 0, 0)
    size, count = plan.dtype.itemsize, math.prod(case.shape)
    bits = getattr(torch, f"int{8 * size}" if size > 1 else "uint8")
    elements = torch.randint(0, 127, case.shape, device="cuda", dtype=torch.int32).to(bits)
    data, copied = elements.view(-1).view(torch.uint8), torch.empty_like(elements)
    torch.cuda.synchronize()
    ingest.filler.scatter(part, data, data.data_ptr(), count, 0)
    expected = cut(elements, case)
    torch.testing.assert_close(ingest.pools.view(bits).view(expected.shape), expected)
    del expected
    times = in_turns.milliseconds(
        {
            "stream": lambda: ingest.filler.scatter(part, data, data.data_ptr(), count, 0),
            "torch copy": lambda: copied.copy_(elements),
        },
        rounds=3,
    )
    return {name: 2 * data.nbytes / (ms * 1e-3) / 1e12 for name, ms in times.items()}


def appended(arrays: Sequence[Any], total: int) -> tuple[float, float]:
    """Returns GB/s of the whole, and microseconds of the host for an append, the median."""
    shape, tile = (None, 1024, 2048), (16, 64, 64)
    stream = TileStream(shape, tile, "uint16", "cuda", batch=2, pools=4)
    bytes_of_append = int(np.prod(arrays[0].shape)) * 2
    calls = total // bytes_of_append
    stream.append(arrays[0])  # allocates, compiles
    for array in arrays[: max(1, (256 << 20) // bytes_of_append)]:
        stream.append(array)
        for _ in stream.ready():
            pass
    torch.cuda.synchronize()
    spent = np.empty(calls)
    begin = time.perf_counter()
    for call in range(calls):
        before = time.perf_counter()
        stream.append(arrays[call % len(arrays)])
        spent[call] = time.perf_counter() - before
        for _ in stream.ready():
            pass
    torch.cuda.synchronize()
    seconds = time.perf_counter() - begin
    return calls * bytes_of_append / seconds / 1e9, float(np.median(spent)) * 1e6


def sources() -> dict[str, Callable[[int], list[Any]]]:
    """Returns functions that make arrays of so many bytes in all, of frames or parts of frames."""

    def rows(size: int, array: Any) -> list[Any]:
        return list(array.reshape(-1, size // 2))

    host = np.random.default_rng(0).integers(0, 60000, (64, 1024, 2048), "uint16")
    pinned = torch.from_numpy(host).pin_memory()
    device = pinned.cuda()
    return {
        "pinned": lambda size: rows(size, pinned),
        "pageable": lambda size: rows(size, host),
        "device": lambda size: rows(size, device),
    }


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=["kernels", "appends"])
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    print(torch.cuda.get_device_name())
    if "kernels" in options.parts:
        print(f"{'TB/s, read and written':<24}{'stream':>8}{'torch copy':>12}")
        for case in CASES:
            if options.only in case.name:
                found = terabytes_per_second(case)
                print(f"{case.name:<24}{found['stream']:>8.2f}{found['torch copy']:>12.2f}")
    if "appends" in options.parts:
        print(f"{'append':<24}{'GB/s':>8}{'us of the host':>16}")
        for name, arrays in sources().items():
            for size, total in ((64 << 20, 8 << 30), (4 << 20, 4 << 30), (64 << 10, 1 << 30)):
                label = f"{name}, {size >> 10} KiB"
                rate, spent = appended(arrays(size), total)
                print(f"{label:<24}{rate:>8.1f}{spent:>16.1f}")


if __name__ == "__main__":
    main()
