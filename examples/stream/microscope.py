"""A microscope appends frames; a Zarr array with chunks of several frames grows on the disk.

The camera hands over one frame after the other, in a ring of buffers that it fills again; on a GPU
the ring is pinned, so that frames go there without a copy by the host. The stream cuts them into
tiles in a memory that does not grow, and a writer compresses tiles and writes them, in a thread of
its own. Without zarr the array is a file of NumPy.

    python microscope.py [--frames 37] [--height 120] [--width 200] [--target sm_90a] [--device cpu]
"""

import tempfile
from pathlib import Path

import numpy as np
import torch
from pictures import steps

from tilelang.stream import TileStream
from tilelang.tools.example import Case, Example, Option

#: of tables: frames, their height and width
SHAPES = (
    (32, 2048, 2304),
    (32, 1024, 1024),
    (128, 512, 512),
    (16, 3000, 4000),
    (64, 1000, 1500),
)
#: extents of a tile
TILE = 8, 64, 64


class Camera:
    """Frames of a specimen that drifts; each is in one of a few buffers, which are used anew."""

    def __init__(self, args, buffers=4):
        self._shape = args.height, args.width
        self._ring = [torch.empty(self._shape, dtype=torch.uint16) for _ in range(buffers)]
        if args.device == "cuda":
            self._ring = [buffer.pin_memory() for buffer in self._ring]
        self._free = [None] * buffers
        y, x = np.mgrid[: args.height, : args.width]
        self._specimen = (2000 + 1900 * np.sin(x / 9) * np.cos(y / 7)).astype("uint16")

    def frame(self, number):
        """Returns what frame ``number`` shows."""
        return np.roll(self._specimen, (number, 2 * number), (0, 1)) + np.uint16(number)

    def grab(self, number):
        """Returns frame ``number`` in a buffer that nobody reads any more."""
        slot = number % len(self._ring)
        if self._free[slot] is not None:
            self._free[slot].synchronize()
        self._ring[slot].numpy()[:] = self.frame(number)
        return self._ring[slot]

    def reads(self, number, event):
        """Takes note of the event after which the buffer of a frame is not read."""
        self._free[number % len(self._ring)] = event


def array_file(folder, args):
    """Returns what ``to`` writes to, and a function that reads it."""
    try:
        import zarr
    except ModuleNotFoundError:
        path = folder / "frames.npy"
        shape = args.frames, args.height, args.width
        return np.lib.format.open_memmap(path, "w+", "uint16", shape), lambda: np.load(path)
    return folder / "frames.zarr", lambda: zarr.open_array(folder / "frames.zarr", mode="r")[:]


def place(args):
    """Returns the device of streams."""
    return "cuda" if args.device == "cuda" else "emulator"


def case(args, frames):
    """Cuts frames, which are there, into tiles that nobody takes."""
    if args.device == "cuda":
        frames = frames.pin_memory()
    options = {"device": place(args), "target": args.target, "batch": 1}

    def tiles():
        epochs = -(-len(frames) // TILE[0])
        TileStream(frames.shape, TILE, "uint16", pools=max(epochs, 2), **options).append(frames)

    return Case(tiles, {"torch copy": lambda: frames.to(args.device)}, frames.nbytes)


def main():
    """Records, and compares what was written with what the camera saw."""
    example = Example(
        __doc__,
        frames=Option("frames to record", 37, 200),
        height=Option("of a frame", 120, 2048),
        width=Option("of a frame", 200, 2304),
    )
    args = example.args
    camera, written = Camera(args), [(0, 0)]
    with tempfile.TemporaryDirectory() as folder:
        target, read = array_file(Path(folder), args)
        stream = TileStream(
            shape=(None, args.height, args.width),
            tile=TILE,
            dtype="uint16",
            device=place(args),
            batch=1,
            target=args.target,
        )
        with stream:
            writer = stream.to(target)
            for number in range(args.frames):
                event = stream.append(camera.grab(number))
                camera.reads(number, event)
                if number % 8 == 7:
                    stream.flush()  # a viewer sees whole chunks at once
                    written.append((number + 1, writer.rows))
        written.append((args.frames, writer.rows))
        found = torch.from_numpy(read())
    wanted = np.stack([camera.frame(number) for number in range(args.frames)])
    example.picture(
        "microscope",
        steps("Frames on the disk", "frames taken", {"frames that a reader sees": written}, {}),
    )
    example.check("frames", found, torch.from_numpy(wanted), tolerance=0)
    example.speed(*case(args, torch.from_numpy(wanted[:32])))
    example.table(SHAPES, lambda *shape: case(args, torch.randint(4000, shape, dtype=torch.uint16)))


if __name__ == "__main__":
    main()
