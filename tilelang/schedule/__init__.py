"""The schedule of a kernel, ``kernel.schedule()``, as a table and a picture.

See docs/pipelining.md, "Reading a schedule".
"""

from .cost import RATES, Engine, Rates
from .description import Channel, Epilogue, Launch, Role, Schedule, Step, TileCandidate

__all__ = [
    "RATES",
    "Channel",
    "Engine",
    "Epilogue",
    "Launch",
    "Rates",
    "Role",
    "Schedule",
    "Step",
    "TileCandidate",
]
