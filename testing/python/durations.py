"""CPU seconds of each test: ``pytest --write-durations`` measures, the tiers read.

CPU time, in contrast to wall time, is nearly the same on a busy machine. It counts all threads of
the process, and child processes that have ended.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

#: The table: CPU seconds of all cases of a test, and the node id of the test; slowest first.
TABLE = Path(__file__).with_name("durations.tsv")
#: Tests that take fewer seconds are not in the table.
LEAST = 0.1
_SECONDS = "cpu_seconds"


def test_of(nodeid: str) -> str:
    """Returns the node id of the test that a case belongs to."""
    return nodeid.partition("[")[0]


def read(path: Path = TABLE) -> dict[str, float]:
    """Returns the CPU seconds of slow tests by node id."""
    rows = [line.split("\t") for line in path.read_text().splitlines()] if path.exists() else []
    return {name: float(seconds) for seconds, name in rows}


def write(measured: dict[str, float], path: Path = TABLE) -> None:
    """Replaces the entries of the measured tests; drops entries of files that are gone."""
    root = Path(__file__).resolve().parents[2]
    kept = {name: value for name, value in read(path).items() if name not in measured}
    kept = {name: value for name, value in kept.items() if (root / name.split("::")[0]).exists()}
    slow = {name: value for name, value in measured.items() if value >= LEAST}
    rows = sorted((kept | slow).items(), key=lambda row: (-row[1], row[0]))
    path.write_text("".join(f"{seconds:.2f}\t{name}\n" for name, seconds in rows))


def _cpu_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class Recorder:
    """A pytest plugin that measures the tests of a session and updates the table at its end."""

    def __init__(self) -> None:
        self.measured: dict[str, float] = defaultdict(float)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._before = _cpu_seconds()
        yield

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        if call.when == "teardown":  # the properties of an item are those of its next report
            item.user_properties.append((_SECONDS, _cpu_seconds() - self._before))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """In the process that a user started, also where the tests run in workers."""
        if report.when == "teardown":
            self.measured[test_of(report.nodeid)] += dict(report.user_properties)[_SECONDS]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if "PYTEST_XDIST_WORKER" not in os.environ:
            write(self.measured)
