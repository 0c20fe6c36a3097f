"""The swizzles that TMA and descriptors of matrices have, by their widths."""

from __future__ import annotations

import enum

from ..errors import LayoutError


class SwizzleMode(enum.Enum):
    """The width in bytes within which chunks of 16 bytes are permuted; none moves no chunk."""

    NONE = 0
    SWIZZLE_32B = 32
    SWIZZLE_64B = 64
    SWIZZLE_128B = 128

    @classmethod
    def of_bytes(cls, width: int) -> SwizzleMode:
        """Returns the mode of a width: 128, 64, 32, or at most 16 for none.

        Raises:
            LayoutError: there is no swizzle of this width.
        """
        for mode in cls:
            if mode.value == (width if width > 16 else 0):
                return mode
        raise LayoutError(f"no swizzle is {width} bytes wide: they are 128, 64 or 32 bytes wide")

    def swizzle_byte_size(self) -> int:
        """Returns the width in bytes; 16, one chunk, without a swizzle."""
        return self.value or 16

    def wgmma_layout_type(self) -> int:
        """Returns the swizzle field of a matrix descriptor of ``wgmma`` (PTX ISA)."""
        return {0: 0, 128: 1, 64: 2, 32: 3}[self.value]

    def tcgen05_layout_type(self) -> int:
        """Returns the swizzle field of a shared memory descriptor of ``tcgen05`` (PTX ISA)."""
        return {0: 0, 128: 2, 64: 4, 32: 6}[self.value]


__all__ = ["SwizzleMode"]
