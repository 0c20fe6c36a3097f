"""Programs as gemms are first written, as data: tensors, tiles, statements, and calls.

Indices, values and conditions are Python text in the names of the program. The source prints them;
the reference evaluates them over arrays of all iterations at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Tensor:
    """A parameter.

    Attributes:
        shape: extents as text, in numbers and symbolic dimensions.
        written: an output; it holds old values that must stay where the program stores nothing.
    """

    name: str
    shape: tuple[str, ...]
    dtype: str
    written: bool = False


@dataclass(frozen=True)
class Tile:
    name: str
    shape: tuple[int, ...]
    dtype: str
    scope: str  # "shared" or "fragment"


@dataclass(frozen=True)
class Corner:
    """Where a tile lies in a tensor: indices as text; ``moving``: the dimensions that it spans."""

    tensor: str
    indices: tuple[str, ...]
    moving: tuple[int, ...]


@dataclass(frozen=True)
class Copy:
    source: Corner | str
    target: Corner | str


@dataclass(frozen=True)
class Clear:
    tile: str


@dataclass(frozen=True)
class Gemm:
    a: str
    b: str
    c: str
    transpose_a: bool
    transpose_b: bool


@dataclass(frozen=True)
class Store:
    """``target[indices] = value`` in a parallel loop; ``adds``: atomically to what is there."""

    target: str
    indices: tuple[str, ...]
    value: str
    adds: bool = False


@dataclass(frozen=True)
class Parallel:
    """A loop over ``i`` and ``j`` that stores where all conditions hold.

    Attributes:
        names: values that the body names, in order: (name, text).
    """

    extents: tuple[int, int]
    stores: tuple[Store, ...]
    conditions: tuple[str, ...] = ()
    names: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Loop:
    """``stages``: of T.Pipelined; None: T.serial."""

    variable: str
    extent: str
    stages: int | None
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class Bind:
    name: str
    value: str


@dataclass(frozen=True)
class Barrier:
    """T.sync_threads."""


Statement = Copy | Clear | Gemm | Parallel | Loop | Bind | Barrier


@dataclass(frozen=True)
class Call:
    """Arguments of one call.

    Attributes:
        sizes: of the symbolic dimensions.
        places: tensors that lie in the memory of another one, from which element on.
    """

    sizes: dict[str, int]
    places: dict[str, tuple[str, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Program:
    """A kernel with one launch, and how it is called.

    Attributes:
        sm_count: multiprocessors of the GPU that it is compiled for; 0: as the target says.
        grid: (index, extent as text), x first.
        options: pass options that it is compiled with: tiles that the compiler may not have chosen.
        kind: "stream"; of a gemm "plain", as the compiler looks for, or what makes it another one.
    """

    seed: int
    target: str
    sm_count: int
    tensors: tuple[Tensor, ...]
    tiles: tuple[Tile, ...]
    grid: tuple[tuple[str, str], ...]
    threads: int
    body: tuple[Statement, ...]
    symbols: tuple[str, ...]
    calls: tuple[Call, ...]
    swizzle: int = 0
    kind: str = "stream"
    options: tuple[tuple[str, int], ...] = ()

    def tile(self, name: str) -> Tile:
        return next(tile for tile in self.tiles if tile.name == name)
