"""A viewer's pyramid: every level is made of the tiles of the one below, while frames come.

Each level is a stream that the finer one feeds: a kernel reduces windows of 2 x 2 elements of the
tiles on the device, before they leave it. The viewer takes tiles of all levels as they are ready.

    python viewer_pyramid.py [--frames 12] [--side 128] [--levels 3] [--method mean]
                             [--target sm_90a] [--device cpu]
"""

import threading

import numpy as np
import torch
from pictures import images

from tilelang.stream import TileStream
from tilelang.tools.example import Case, Example, Option

#: of tables: frames, their height and width
SHAPES = ((64, 2048), (64, 1024), (256, 512), (16, 4096), (100, 1000))


class Viewer:
    """Puts the tiles of a level together, in a thread of its own."""

    def __init__(self, level, frames):
        self.image = np.zeros((frames, *level.plan.geometry.shape[1:]), "uint16")
        self._batches = level.ready(timeout=None)
        self._thread = threading.Thread(target=self._view)
        self._thread.start()

    def _view(self):
        for batch in self._batches:
            tiles = torch.from_dlpack(batch).cpu().numpy()
            for tile, index, extents in zip(tiles, batch.index, batch.extents, strict=True):
                begin = index * tiles.shape[1:]
                place = tuple(slice(b, b + e) for b, e in zip(begin, extents, strict=True))
                self.image[place] = tile[tuple(slice(0, e) for e in extents)]

    def wait(self):
        """Returns the whole array, when the stream has ended."""
        self._thread.join()
        return self.image


def specimen(frames, side):
    """Returns rings that grow."""
    y, x = np.mgrid[:side, :side] - side / 2
    radius = np.hypot(x, y)
    rings = [2000 + 1800 * np.cos(radius / (4 + frame / 4)) for frame in range(frames)]
    return np.stack(rings).astype("uint16")


def reduced(array, method):
    """Returns the next level as torch finds it, for even extents."""
    windows = torch.from_numpy(array.astype("float64"))
    windows = windows.unfold(1, 2, 2).unfold(2, 2, 2).flatten(3)
    if method == "mean":
        return torch.floor(windows.mean(3) + 0.5)
    return getattr(windows, method)(3).values


def main():
    """Views all levels, and compares each with that below it."""
    example = Example(
        __doc__,
        frames=Option("frames", 12, 64),
        side=Option("of a frame", 128, 2048),
        levels=Option("levels beside the finest one", 3),
        method=Option("of the pyramid", "mean", choices=("mean", "min", "max")),
    )
    args = example.args
    even = args.side % 2**args.levels == 0
    example.require(even, f"--side is {args.side}: give a multiple of {2**args.levels}")

    def record(frames):
        stream = TileStream(
            shape=frames.shape,
            tile=(4, 32, 32),
            dtype="uint16",
            device="cuda" if args.device == "cuda" else "emulator",
            target=args.target,
        )
        levels = [stream]
        for _ in range(args.levels):
            levels.append(levels[-1].pyramid(2, args.method))
        viewers = [Viewer(level, len(frames)) for level in levels]
        with stream:
            for frame in frames:
                stream.append(frame)
        return [viewer.wait() for viewer in viewers]

    def case(*shape):
        frames = specimen(*shape)
        data = torch.from_numpy(frames)
        peers = {"torch copy": lambda: data.to(args.device)}
        return Case(lambda: record(frames), peers, frames.nbytes), frames

    line, frames = case(args.frames, args.side)
    found = record(frames)
    last = {" x ".join(map(str, a.shape[1:])): (a[-1] / 4000).tolist() for a in found}
    example.picture("viewer_pyramid", images("The last frame, level by level", last))
    np.testing.assert_array_equal(found[0], frames)
    got = torch.cat([torch.from_numpy(level).flatten() for level in found[1:]])
    want = torch.cat([reduced(level, args.method).flatten() for level in found[:-1]])
    example.check("levels", got, want, tolerance=0)
    example.speed(*line)
    example.table(SHAPES, lambda *shape: case(*shape)[0])


if __name__ == "__main__":
    main()
