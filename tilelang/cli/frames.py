"""``tilelang stream``: copies frames of a file into a chunked array of Zarr."""

from __future__ import annotations

import sys
import time
from typing import Any

import click

from .output import faint, good, guarded, refuse

_INTERVAL = 0.2  # seconds between two states of the line


class Numbers(click.ParamType):
    """Numbers with commas between them."""

    name = "N,N,..."

    def __init__(self, kind: type) -> None:
        self._kind = kind

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Returns a tuple of numbers."""
        if not isinstance(value, str):
            return value
        try:
            return tuple(self._kind(part) for part in value.split(","))
        except ValueError:
            self.fail(f"{value!r} is no list of numbers such as 16,128,128", param, ctx)


class _Line:
    """A line of the terminal that tells how far a stream is."""

    def __init__(self, stream: Any, first: int, total: int) -> None:
        self._stream, self._first, self._total = stream, first, total
        self._shown, self._begin = 0.0, time.monotonic()

    def show(self, last: bool = False) -> None:
        """Writes the line anew if it is time to."""
        now = time.monotonic()
        if not sys.stderr.isatty() or (now - self._shown < _INTERVAL and not last):
            return
        self._shown = now
        found = self._stream.progress
        received = self._first + found.received
        filled = 24 * received // self._total
        rate = self._stream.position * self._stream.plan.dtype.itemsize
        rate = rate / max(now - self._begin, 1e-9) / 1e6
        click.echo(
            f"\r[{'#' * filled}{'.' * (24 - filled)}] received {received}/{self._total}, in flight "
            f"{found.in_flight}, on disk {self._first + found.on_disk}, lost if killed now "
            f"{found.lost}, {rate:.0f} MB/s\x1b[K",
            err=True,
            nl=last,
        )


def _default_tile(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns tiles of some megabytes at most: 16 frames of 256 x 256 elements."""
    if len(shape) < 3:
        return tuple(min(extent, 1 << (16 if len(shape) == 1 else 10)) for extent in shape)
    ones = (1,) * (len(shape) - 3)
    return (min(shape[0], 16), *ones, min(shape[-2], 256), min(shape[-1], 256))


def _write(source: Any, target: str, options: dict[str, Any]) -> Any:
    """Copies all frames that are not in the target yet; returns the stream and the first one."""
    from ..stream import TileStream

    tile = options["tile"] or _default_tile(source.shape)
    stream = TileStream(
        (None, *source.shape[1:]),
        tile,
        source.dtype,
        options["device"],
        options["order"],
        pools=options["pools"],
        threads=options["threads"],
    )
    codec = None if options["codec"] == "none" else options["codec"]
    chosen = {"codec": codec, "sync": options["sync"], "at": "end" if options["resume"] else None}
    if options["shards"]:
        chosen["shards"] = options["shards"]
    axes = options["axes"] or source.axes
    if options["levels"] is not None:
        image = {"levels": options["levels"], "method": options["method"]}
        writer = stream.to_ome(target, axes, scale=options["scale"], **image, **chosen)[0]
    else:
        writer = stream.to(target, **chosen)
    line = _Line(stream, writer.first_row, source.shape[0])
    with stream:
        for block in source.blocks(writer.first_row):
            stream.append(block)
            line.show()
    line.show(last=True)
    return stream, writer.first_row


@click.command()
@click.argument("source")
@click.argument("target")
@click.option(
    "--tile", type=Numbers(int), help="Extents of a tile. Each tile is a chunk of the array."
)
@click.option("--dataset", help="Name of the data set in an HDF5 file.")
@click.option(
    "--axes", default="", help="Names of the axes, letters of tczyx. Default: from the file."
)
@click.option("--order", help="Order of the axes in the array, such as 'tcyx->ctyx'.")
@click.option("--codec", default="zstd", help="Compression: zstd, blosc, gzip or none.")
@click.option("--shards", type=Numbers(int), help="Extents of a shard, multiples of the tile.")
@click.option("--levels", type=int, help="Write an OME-NGFF image with a pyramid of N levels.")
@click.option("--method", default="mean", help="How the pyramid shrinks: mean, median, min or max.")
@click.option("--scale", type=Numbers(float), help="Size of an element along each axis.")
@click.option("--sync", default="never", help="When to fsync files: never, flush or batch.")
@click.option("--resume", is_flag=True, help="Append after the frames that are in the array.")
@click.option("--device", default="cpu", help="Device that cuts the tiles: cpu, cuda or emulator.")
@click.option("--threads", type=int, help="Threads that cut and compress. Default: all cores.")
@click.option("--pools", type=int, default=2, help="Number of batches in memory at a time.")
@guarded
def stream(source: str, target: str, dataset: str | None, **options: Any) -> None:
    """Copy frames of a TIFF, HDF5 or NumPy file into a Zarr array while they are read.

    A line tells how many frames were received, are on the disk, and would be lost by a kill.

    \b
      tilelang stream scan.tif scan.zarr --tile 16,128,128
      tilelang stream scan.h5 scan.zarr --dataset raw --axes tyx --levels 4 --codec blosc
      tilelang stream scan.tif scan.zarr --tile 16,128,128 --resume
    """
    from ..stream.frames import open_frames

    begin = time.monotonic()
    try:
        frames = open_frames(source, dataset)
        written, first = _write(frames, target, options)
    except ModuleNotFoundError as error:
        refuse(str(error), False)
    except KeyboardInterrupt:
        refuse(f"interrupted: {target} has the frames on the disk; --resume goes on", False)
    seconds = time.monotonic() - begin
    size = written.position * frames.dtype.itemsize / 1e6
    count = frames.shape[0] - first
    shape = "x".join(map(str, frames.shape[1:])) or "1"
    click.echo(
        f"{good(str(count))} frames of {shape} {frames.dtype} are in {target} "
        + faint(f"({size:.1f} MB in {seconds:.1f} s, {size / seconds:.0f} MB/s)")
    )
