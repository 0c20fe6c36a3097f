"""The measured errors of predictions, by the class of a kernel.

docs/timing_accuracy.md has the table. No figure of the model was fitted to these kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ..timed import Timing

#: Launches below so many microseconds are small ones, whatever they do.
_SMALL_US = 10.0
#: Shares of the time of the tensor pipe, and of special functions beside it, from which on a kernel
#: is a product, and an attention.
_PRODUCTS, _EXPONENTIALS = 0.1, 0.15
#: The row of the classes that have none of their own.
_ANY = "all kernels"


class Accuracy(NamedTuple):
    """Absolute errors of the predictions of a class of kernels.

    Attributes:
        kind: ``"GEMM"``, ``"attention"``, ``"memory-bound"``, ``"small"`` or ``"all kernels"``.
        rows: kernels that were measured.
        median, p90: errors of half of them, and of nine of ten, as shares of the measured time.
    """

    kind: str
    rows: int
    median: float
    p90: float

    def __str__(self) -> str:
        return (
            f"{self.kind}: half of {self.rows} measured kernels are within "
            f"{100 * self.median:.0f} %, nine of ten within {100 * self.p90:.0f} %"
        )


#: Kernels of others with published times of a B200 or a GB200.
BLACKWELL = (
    Accuracy("GEMM", 38, 0.155, 0.450),
    Accuracy("attention", 7, 0.164, 0.284),
    Accuracy("memory-bound", 32, 0.067, 0.241),
    Accuracy("small", 26, 0.064, 0.141),
)
#: By GPU: (class, kernels, median, 90th percentile).
_TABLE: dict[str, tuple[Accuracy, ...]] = {
    "H200": (
        Accuracy("GEMM", 31, 0.038, 0.097),
        Accuracy("attention", 24, 0.021, 0.060),
        Accuracy(_ANY, 148, 0.041, 0.120),
    ),
    "B200": BLACKWELL,
    "GB200": BLACKWELL,
}


def class_of(timing: Timing) -> str:
    """Returns the class of a launch by its time and its engines."""
    if timing.grid_us < _SMALL_US:
        return "small"
    shares = dict(zip(timing.engine_name, map(float, timing.engine_share), strict=True))
    if shares.get("tensor pipe", 0.0) < _PRODUCTS:
        return "memory-bound"
    return "attention" if shares.get("MUFU", 0.0) > _EXPONENTIALS else "GEMM"


def accuracy_of(timing: Timing) -> Accuracy | None:
    """Returns the errors of the class of a launch; None where none have been measured."""
    rows = {each.kind: each for each in _TABLE.get(timing.gpu, ())}
    return rows.get(class_of(timing)) or rows.get(_ANY)


def accuracy_text(timing: Timing) -> str:
    """Says how far the prediction may be off."""
    found = accuracy_of(timing)
    return str(found) if found else f"{class_of(timing)}: not measured on the {timing.gpu}"
