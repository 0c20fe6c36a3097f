"""The slices of a timeline, few enough to be shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from ..timed import Timing


class Slices(NamedTuple):
    """Slices in the order of their beginnings, with a column for each field, as in a ``Timing``.

    Attributes:
        least: shorter ones are merged with their neighbours; 0 if all are as they were.
    """

    track: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    inst: np.ndarray
    reason: np.ndarray
    least: int


def merged_slices(timing: Timing, most: int) -> Slices:
    """Returns at most ``most`` slices that cover the same time as the slices of the launch.

    Time is divided into spans of ``least`` cycles; of the slices that are shorter and begin in one
    span of a track, one is made, with the instruction and the reason of the longest of them.
    """
    all_of = (timing.slice_track, timing.slice_begin, timing.slice_end, timing.slice_inst)
    track, begin, end, inst = (np.asarray(each) for each in all_of)
    reason = np.asarray(timing.slice_reason)
    least = 0
    if len(track) > most:
        span = int(end.max()) - int(begin.min()) + 1
        # A track has no more than one slice of every span, and no more long ones.
        least = max(2, -(-2 * span * len(np.unique(track)) // most))
        place = np.where(
            end - begin < least, (begin - begin.min()) // least, -1 - np.arange(len(track))
        )
        order = np.lexsort((begin - end, place, track))  # the longest of a span first
        track, begin, end, inst, reason, place = (
            each[order] for each in (track, begin, end, inst, reason, place)
        )
        starts = np.flatnonzero(
            np.diff(track, prepend=track[0] - 1).astype(bool)
            | np.diff(place, prepend=place[0]).astype(bool)
        )
        begin, end = np.minimum.reduceat(begin, starts), np.maximum.reduceat(end, starts)
        track, inst, reason = track[starts], inst[starts], reason[starts]
    order = np.argsort(begin, kind="stable")
    return Slices(track[order], begin[order], end[order], inst[order], reason[order], least)
