"""What a stream holds while it runs: tiles that live, and pools that a slow consumer holds.

Tiles live from their first element to their last. Their number goes up with the first rows of an
epoch and down with its last ones, and is never above what ``live`` says, before anything is
allocated. Pools are all the memory there is: a consumer that takes its time holds them, and the
append raises WouldBlock rather than overwrite one.

    python memory_over_time.py [--rows 48] [--height 60] [--width 90] [--target sm_90a]
                               [--device cpu]
"""

import functools

import numpy as np
import torch
from pictures import steps

from tilelang.stream import TileStream, WouldBlock
from tilelang.tools.example import Case, Example, Option

#: of tables: extents of the array
SHAPES = (
    (64, 512, 512),
    (256, 512, 512),
    (64, 1024, 1024),
    (1024, 128, 128),
    (100, 600, 900),
)
#: extents of a tile
TILE = 8, 16, 32


def living(geometry, position):
    """Returns how many tiles have begun before ``position`` and do not end before it."""
    epoch = geometry.epoch_of(position)
    tiles = geometry.tiles(epoch, epoch + 1).tolist()
    return sum(geometry.first(tile) < position <= geometry.last(tile) for tile in tiles)


def cut(array, tile):
    """Returns the tiles of an array as NumPy cuts them, (count, *tile)."""
    counts = [-(-s // n) for s, n in zip(array.shape, tile, strict=True)]
    whole = np.zeros([count * n for count, n in zip(counts, tile, strict=True)], array.dtype)
    whole[tuple(slice(0, s) for s in array.shape)] = array
    split = whole.reshape([e for pair in zip(counts, tile, strict=True) for e in pair])
    return split.transpose(0, 2, 4, 1, 3, 5).reshape(-1, *tile)


def place(example):
    """Returns the device of streams."""
    return "cuda" if example.args.device == "cuda" else "emulator"


def case(example, *shape):
    """Cuts an array of a shape, which is there, into tiles that nobody takes."""
    data = torch.from_numpy(np.arange(np.prod(shape), dtype="uint32").reshape(shape))
    options = {"device": place(example), "target": example.args.target}

    def tiles():
        epochs = -(-shape[0] // TILE[0])
        TileStream(shape, TILE, "uint32", batch=epochs, **options).append(data)

    return Case(tiles, {"torch copy": lambda: data.to(example.args.device)}, data.nbytes)


def main():
    """Draws both, and checks them against what was promised."""
    example = Example(
        __doc__,
        rows=Option("along the first axis", 48, 256),
        height=Option("along the second", 60, 512),
        width=Option("along the third", 90, 512),
    )
    args = example.args
    shape, tile = (args.rows, args.height, args.width), TILE
    array = np.arange(np.prod(shape), dtype="uint32").reshape(shape)
    stream = TileStream(
        shape,
        tile,
        "uint32",
        device=place(example),
        batch=1,
        pools=3,
        target=args.target,
    )
    geometry, positions = (
        stream.plan.geometry,
        range(0, 16 * array[0].size, max(array[0].size // 8, 1)),
    )
    live = [(position / array[0].size, living(geometry, position)) for position in positions]
    assert max(count for _, count in live) <= stream.live

    held, blocked, found = [(0.0, 0)], 0, []
    batches = stream.ready()
    for row in range(args.rows):
        flat, done = array[row].reshape(-1), 0
        while done < flat.size:
            try:
                stream.append(flat[done:], timeout=0)
                break
            except WouldBlock as full:  # nothing is lost: the rest comes again
                done += full.appended
                blocked += 1
                batch = next(batches)  # which releases the one before
                found.append(torch.from_dlpack(batch).cpu().numpy().copy())
        # Finished epochs, of which all but the last batch that was taken are released.
        held.append((row + 1.0, geometry.epoch_of(stream.position) - max(len(found) - 1, 0)))
    found += [torch.from_dlpack(batch).cpu().numpy().copy() for batch in batches]
    epochs = geometry.epoch_of(array.size - 1) + 1
    assert (blocked > 0) == (epochs > stream.plan.pools)
    assert max(count for _, count in held) <= stream.plan.pools

    memory = stream.memory.pools / stream.plan.pools / 1024
    tiles = steps("Tiles that live", "rows appended", {"tiles": live}, {"stream.live": stream.live})
    example.picture("live", tiles)
    kib = {"KiB that a consumer holds": [(row, count * memory) for row, count in held]}
    limit = {"stream.memory.pools in KiB": stream.memory.pools / 1024}
    example.picture("memory_over_time", steps("Memory", "rows appended", kib, limit))

    want = torch.from_numpy(cut(array, tile))
    example.check("tiles", torch.from_numpy(np.concatenate(found)), want, tolerance=0)
    example.speed(*case(example, *shape))
    example.table(SHAPES, functools.partial(case, example))


if __name__ == "__main__":
    main()
