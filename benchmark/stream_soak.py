"""Streams many gigabytes through a memory that does not grow, and compares every tile.

    python benchmark/stream_soak.py [--gigabytes 20] [--device cuda] [--height 1024] [--width 2048]

Frames come from a ring of 61 in pinned memory, in appends of any length; a prime, so that a frame
that is lost, doubled or out of its place is seen. A consumer in a thread of its own compares tiles
with what torch cuts. Prints the rate, and the memory of the GPU and of the host before and after.
"""

from __future__ import annotations

import argparse
import random
import resource
import threading
import time

import torch

from tilelang.stream import Batch, TileStream

_RING = 61
_TILE = (16, 64, 64)


class Check:
    """A consumer that compares tiles with the frames of the ring."""

    def __init__(self, stream: TileStream, ring: torch.Tensor) -> None:
        self.frames, self.failure = 0, ""
        self._ring, self._batches = ring, stream.ready(timeout=None)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        for batch in self._batches:
            if not self.failure:
                self._compare(batch)

    def _compare(self, batch: Batch) -> None:
        first, last = (int(batch.index[place][0]) * _TILE[0] for place in (0, -1))
        numbers = torch.arange(first, last + _TILE[0], device=self._ring.device) % _RING
        frames = self._ring[numbers]
        epochs, height, width = len(numbers) // _TILE[0], *frames.shape[1:]
        split = frames.view(epochs, 16, height // 64, 64, width // 64, 64)
        expected = split.permute(0, 2, 4, 1, 3, 5).reshape(-1, *_TILE)
        tiles = torch.from_dlpack(batch).view(torch.int16)
        inside = int(batch.extents[-1][0])  # of the last epoch, in which the stream may end
        whole = expected[:, :inside] if inside < _TILE[0] else expected
        if not torch.equal(tiles[:, : whole.shape[1]], whole):
            self.failure = f"batch {batch.number} differs"
        self.frames = last + inside

    def wait(self) -> None:
        """Returns when the stream has ended."""
        self._thread.join()
        assert not self.failure, self.failure


def resident() -> float:
    """Returns MiB of the host that the process had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Streams, compares and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=20)
    parser.add_argument("--device", default="cuda", choices=("cuda", "emulator"))
    parser.add_argument("--height", type=int, default=1024)
    parser.add_argument("--width", type=int, default=2048)
    options = parser.parse_args()
    shape, on_gpu = (options.height, options.width), options.device == "cuda"
    ring = torch.randint(-(1 << 15), 1 << 15, (_RING, *shape), dtype=torch.int16)
    flat = (ring.pin_memory() if on_gpu else ring).view(torch.uint16).view(-1)
    stream = TileStream((None, *shape), _TILE, "uint16", options.device, batch=1, pools=4)
    check = Check(stream, ring.cuda() if on_gpu else ring)
    frame = shape[0] * shape[1]
    total = round(options.gigabytes * 1e9 / 2 / frame / _TILE[0]) * _TILE[0] * frame
    print(stream.schedule())
    draw, position, before = random.Random(0), 0, 0.0
    begin = time.perf_counter()
    while position < total:
        at = position % flat.numel()
        count = min(draw.randrange(1, 12 * frame), flat.numel() - at, total - position)
        stream.append(flat[at : at + count] if on_gpu else flat[at : at + count].numpy())
        position += count
        if position < total // 4:
            before = resident()
    stream.close()
    check.wait()
    seconds = time.perf_counter() - begin
    assert check.frames == total // frame, (check.frames, total // frame)
    print(
        f"{2 * total / 1e9:.1f} GB right in {seconds:.1f} s, {2 * total / seconds / 1e9:.1f} GB/s"
    )
    print(f"host: {before:.0f} MiB after a quarter, {resident():.0f} at the end")
    if on_gpu:
        stated = (stream.memory.device + ring.nbytes) / 2**20
        peak = torch.cuda.max_memory_allocated() / 2**20
        print(f"GPU: {peak:.0f} MiB at most, {stated:.0f} of them of the stream and the ring")


if __name__ == "__main__":
    main()
