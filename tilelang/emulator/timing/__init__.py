"""Reports of timed launches: where the time of a kernel goes."""

from .comparison import Comparison, compare
from .findings import Finding
from .lines import Line
from .picture import Picture
from .profile import profile_call, profile_kernel
from .report import Report

__all__ = [
    "Comparison",
    "Finding",
    "Line",
    "Picture",
    "Report",
    "compare",
    "profile_call",
    "profile_kernel",
]
