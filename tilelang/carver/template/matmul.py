"""Products of matrices, and what is one: of a matrix and a vector, convolutions."""

from __future__ import annotations

import dataclasses
import itertools
import math

from ...errors import ConfigError
from ..estimate import Product, Tile, gemm_seconds, sweep_seconds
from ..hint import Hint
from ..roller.rasterization import NoRasterization, Rasterization2DRow
from .base import Template, bits_of

_ROWS, _COLUMNS, _STAGES = (64, 128, 256), (32, 64, 128, 256), (2, 3, 4, 5, 6, 8)
#: rows of tiles where there are fewer: by mma.sync, whose rows come in 16. wgmma has 64, which take
#: no longer to load, as no rows are loaded that do not exist.
_FEW_ROWS = (16, 32)
_BYTES_OF_STEP = (64, 128, 256)
_PANEL = 8


@dataclasses.dataclass
class MatmulTemplate(Template):
    """C (M, N) = A (M, K) B; ``trans_B`` says that B is stored as (N, K).

    Attributes:
        M, N, K: sizes; of one that only the call knows a typical value.
        trans_A, trans_B: how A and B are stored. Hints do not depend on it.
        in_dtype, out_dtype, accum_dtype: types of A and B, of C, and of the sums.
        with_bias: whether a row is added. Hints do not depend on it.
    """

    M: int
    N: int
    K: int
    trans_A: bool = False
    trans_B: bool = True
    in_dtype: str = "float16"
    out_dtype: str = "float16"
    accum_dtype: str = "float32"
    with_bias: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._need(M=self.M, N=self.N, K=self.K)

    def seconds(self, tile: Tile) -> float:
        """Returns the estimate for a tiling; infinite where a block does not fit."""
        return gemm_seconds(self.arch, self._size, tile)

    @property
    def _size(self) -> Product:
        bits = [bits_of(each) for each in (self.in_dtype, self.out_dtype, self.accum_dtype)]
        return Product(self.M, self.N, self.K, *bits)

    def _candidates(self) -> list[Hint]:
        hints = []
        few = () if self.arch.target.has_wgmma else _FEW_ROWS
        for tile in _tiles(self._size, few):
            seconds = self.seconds(tile)
            many = math.ceil(self.M / tile.m) * math.ceil(self.N / tile.n) > (
                2 * self.arch.compute_max_core
            )
            hints.append(
                Hint(
                    block=[tile.m, tile.n],
                    warp=_warp(tile),
                    rstep=[tile.k],
                    pipeline_stage=tile.stages,
                    use_async=True,
                    use_tc=True,
                    rasterization_plan=Rasterization2DRow(_PANEL) if many else NoRasterization(),
                    seconds=seconds,
                )
            )
        return hints


def _tiles(product: Product, few: tuple[int, ...]) -> list[Tile]:
    """Tilings that waste less than half of their rows and columns, where there are such."""
    m, n, k, bits = product[:4]
    rows = [r for r in (*few, *_ROWS) if r < 2 * m and (r >= 64 or m <= r)]
    rows = rows or [(*few, *_ROWS)[0]]
    columns = [c for c in _COLUMNS if c < 2 * n] or [_COLUMNS[0]]
    steps = [s * 8 // bits for s in _BYTES_OF_STEP]
    steps = [s for s in steps if s < 2 * k] or steps[:1]
    tiles = []
    for r, c, s, stages in itertools.product(rows, columns, steps, _STAGES):
        for threads in (128, 256):
            # A warpgroup takes 64 rows, or the columns are shared; at most half of the registers.
            if r * c // threads <= 128 and (threads == 128 or r * c >= 8192):
                tiles.append(Tile(r, c, s, stages, threads))
    return tiles


def _warp(tile: Tile) -> list[int]:
    """The part of the block's tile of a warp: whole rows as long as each has 16 of them."""
    warps = tile.threads // 32
    along_rows = min(warps, tile.m // 16)
    return [tile.m // along_rows, tile.n // (warps // along_rows)]


@dataclasses.dataclass
class ConvTemplate(Template):
    """A convolution of images of N x H x W x C as a product: its rows are the points of the result,
    its columns the channels of the result, and it adds up over K x K x C values.

    Attributes:
        N, C, H, W: images, their channels, rows and columns.
        F, K: channels of the result, and the extent of the kernel along both directions.
        S, D, P: stride, dilation and padding.
        in_dtype, out_dtype, accum_dtype: types of the operands, of the result, and of the sums.
        with_bias: whether a row is added. Hints do not depend on it.
    """

    N: int
    C: int
    H: int
    W: int
    F: int
    K: int
    S: int = 1
    D: int = 1
    P: int = 0
    in_dtype: str = "float16"
    out_dtype: str = "float16"
    accum_dtype: str = "float32"
    with_bias: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._need(N=self.N, C=self.C, H=self.H, W=self.W, F=self.F, K=self.K, S=self.S, D=self.D)
        if not isinstance(self.P, int) or self.P < 0:
            raise ConfigError(
                f"ConvTemplate(P={self.P!r}): the padding must be an integer of at least 0"
            )
        rows, columns = self._extent(self.H), self._extent(self.W)
        if rows < 1 or columns < 1:
            raise ConfigError(f"{self}: the kernel is larger than the padded image")

    def _extent(self, size: int) -> int:
        """Returns the extent of the result for an extent of the image."""
        return (size + 2 * self.P - self.D * (self.K - 1) - 1) // self.S + 1

    def _candidates(self) -> list[Hint]:
        points = self.N * self._extent(self.H) * self._extent(self.W)
        types = self.in_dtype, self.out_dtype, self.accum_dtype
        product = MatmulTemplate(points, self.F, self.K * self.K * self.C, False, False, *types)
        return product.with_arch(self.arch)._candidates()


@dataclasses.dataclass
class GEMVTemplate(Template):
    """y (N,) = x (K,) B, by threads: each row of a block is added up by ``reduce_thread`` threads.

    Attributes:
        N, K: sizes.
        trans_B: whether B is stored as (N, K), its rows one after the other.
        in_dtype, out_dtype, accum_dtype: types of x and B, of y, and of the sums.
        with_bias: whether a row is added. Hints do not depend on it.
    """

    N: int
    K: int
    trans_B: bool = True
    in_dtype: str = "float16"
    out_dtype: str = "float16"
    accum_dtype: str = "float32"
    with_bias: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._need(N=self.N, K=self.K)

    def _candidates(self) -> list[Hint]:
        bits = bits_of(self.in_dtype)
        vector = 128 // bits  # elements of a load
        hints = []
        for rows, reduce in itertools.product((1, 2, 4, 8, 16, 32), (8, 16, 32, 64, 128)):
            step = reduce * vector
            if not 32 <= rows * reduce <= 512 or step >= 2 * self.K:
                continue
            blocks = math.ceil(self.N / rows)
            moved = rows * math.ceil(self.K / step) * step * bits / 8
            seconds = sweep_seconds(self.arch, blocks, moved, rows * reduce)
            hints.append(
                Hint([rows], thread=[rows], rstep=[step], reduce_thread=[reduce], seconds=seconds)
            )
        return hints
