"""A validator of traces, written from the description of Google's "Trace Event Format".

It knows the phases of timelines: complete events (X), flow events (s, t, f) and metadata (M).
"""

from __future__ import annotations

from typing import Any

_METADATA = {"process_name", "process_labels", "process_sort_index", "thread_name",
             "thread_sort_index"}  # fmt: skip


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def validate(document: Any) -> dict[str, int]:
    """Returns how many events of each phase there are; an AssertionError names what is wrong."""
    assert isinstance(document, dict), "the object form has traceEvents and other keys"
    events = document["traceEvents"]
    assert isinstance(events, list)
    assert document.get("displayTimeUnit", "ms") in ("ms", "ns")
    counts: dict[str, int] = {}
    for event in events:
        phase = event["ph"]
        counts[phase] = counts.get(phase, 0) + 1
        assert isinstance(event["pid"], int) and isinstance(event["tid"], int), event
        assert isinstance(event["name"], str) and event["name"], event
        assert phase in ("X", "s", "t", "f", "M"), f"unknown phase {phase}"
        if phase == "M":
            assert event["name"] in _METADATA, event
            assert isinstance(event["args"], dict), event
            continue
        assert _number(event["ts"]), event
        assert isinstance(event.get("cat", ""), str), event
        if phase == "X":
            assert _number(event["dur"]) and event["dur"] >= 0, event
        else:
            assert "id" in event, event
            assert event.get("bp", "e") == "e", event
    slices = [event for event in events if event["ph"] == "X"]
    _check_nesting(slices)
    _check_flows(events, slices)
    return counts


def _by_thread(events: list[dict[str, Any]]) -> dict[tuple[int, int], list[dict[str, Any]]]:
    threads: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for event in events:
        threads.setdefault((event["pid"], event["tid"]), []).append(event)
    return threads


def _check_nesting(slices: list[dict[str, Any]]) -> None:
    """Complete events of a thread nest: one ends before the other, or inside of it."""
    for own in _by_thread(slices).values():
        open_ends: list[float] = []
        for event in sorted(own, key=lambda e: (e["ts"], -e["dur"])):
            end = event["ts"] + event["dur"]
            while open_ends and open_ends[-1] <= event["ts"] + 1e-9:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1] + 1e-9, f"{event} leaves its parent"
            open_ends.append(end)


def _check_flows(events: list[dict[str, Any]], slices: list[dict[str, Any]]) -> None:
    """A flow begins once, ends once and later; both ends lie in a slice of their thread."""
    ends: dict[tuple[Any, str, str], dict[str, dict[str, Any]]] = {}
    for event in events:
        if event["ph"] in ("s", "f"):
            key = event["id"], event["name"], event.get("cat", "")
            flow = ends.setdefault(key, {})
            assert event["ph"] not in flow, f"flow {key} has two ends {event['ph']}"
            flow[event["ph"]] = event
    threads = _by_thread(slices)
    for key, flow in ends.items():
        assert set(flow) == {"s", "f"}, f"flow {key} has one end"
        assert flow["s"]["ts"] <= flow["f"]["ts"], f"flow {key} goes back in time"
        for event in flow.values():
            own = threads.get((event["pid"], event["tid"]), [])
            assert any(e["ts"] - 1e-9 <= event["ts"] <= e["ts"] + e["dur"] + 1e-9 for e in own), (
                f"{event} lies in no slice"
            )
