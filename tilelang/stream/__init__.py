"""Arrays that arrive element by element, cut into tiles in a bounded memory (docs/stream.md)."""

from __future__ import annotations

from .errors import StreamError, WouldBlock
from .geometry import Geometry
from .plan import Memory
from .pools import Batch, Consumer
from .progress import Progress
from .stream import TileStream
from .writer import Writer

__all__ = [
    "Batch",
    "Consumer",
    "Geometry",
    "Memory",
    "Progress",
    "StreamError",
    "TileStream",
    "WouldBlock",
    "Writer",
]
