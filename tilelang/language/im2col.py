"""``T.im2col``: the pixels of an image under each place of a kernel, as a matrix."""

from __future__ import annotations

from typing import Any

from .. import errors
from ..ir import span
from ..ir.buffer import Buffer, plain, shape_text
from ..ir.expr import as_expr
from .builder import in_block
from .function import macro
from .loops import Parallel
from .region import as_tile
from .scalar import AND, if_then_else, logical
from .ws_schedule import named


@named
def im2col(
    img: Any,
    col: Any,
    nhw_step: Any,
    c_step: Any,
    kernel: int,
    stride: int,
    dilation: int,
    pad: int,
    eviction_policy: Any = None,
) -> None:
    """Loads a tile of the matrix that turns a convolution into a matrix multiplication.

    Row m of the matrix is a place of the output (batch, then height, then width), column k an
    element under the kernel (its row, its column, then the channel). Outside of the image are
    zeros.

    Args:
        img: a tensor (N, H, W, C).
        col: the tile (rows, columns), in shared memory or a fragment.
        nhw_step, c_step: which tile: its first row is ``nhw_step * rows``, its first column
            ``c_step * columns``.
        kernel: height and width of the kernel.
        stride, dilation, pad: in pixels, of both directions.
        eviction_policy: of the L2 cache; threads load, so it has none.

    Raises:
        ShapeError: ``img`` has not four dimensions, or ``col`` not two.
        UnsupportedError: an eviction policy.
    """
    in_block("T.im2col")
    tile = as_tile("col of T.im2col", col)
    if not isinstance(img, Buffer) or img.ndim != 4 or len(tile.shape) != 2:
        shape = shape_text(img.shape) if isinstance(img, Buffer) else str(img)
        raise errors.ShapeError(
            f"T.im2col takes a tensor (N, H, W, C) and a matrix, got shapes {shape} and "
            f"{shape_text(tile.shape)}",
            span=span.here(),
        )
    if eviction_policy is not None:
        raise errors.UnsupportedError(
            f"T.im2col does not support eviction_policy={eviction_policy!r}", span=span.here()
        )
    sizes = [int(plain(value)) for value in (kernel, stride, dilation, pad)]
    _gather(
        img, tile.buffer, [as_expr(low) for low in tile.mins], tile.shape, nhw_step, c_step, sizes
    )


c2d_im2col = im2col


@macro
def _gather(
    img: Any, col: Any, corner: Any, shape: Any, row_tile: Any, column_tile: Any, sizes: Any
) -> None:
    kernel, stride, dilation, pad = sizes
    height, width, channels = img.shape[1:]
    reach = dilation * (kernel - 1) + 1
    out_height = (height + 2 * pad - reach) // stride + 1
    out_width = (width + 2 * pad - reach) // stride + 1
    for i, j in Parallel(*shape):
        m = row_tile * shape[0] + i
        k = column_tile * shape[1] + j
        n = m // (out_height * out_width)
        h = m // out_width % out_height * stride + k // (kernel * channels) * dilation - pad
        w = m % out_width * stride + k // channels % kernel * dilation - pad
        inside = logical(AND, logical(AND, h >= 0, h < height), logical(AND, w >= 0, w < width))
        inside = logical(AND, inside, k < kernel * kernel * channels)
        col[corner[0] + i, corner[1] + j] = if_then_else(inside, img[n, h, w, k % channels], 0)


__all__ = ["c2d_im2col", "im2col"]
