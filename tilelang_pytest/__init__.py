"""A plugin of pytest that runs tests of kernels on the emulator, and fails those that race.

It is a package of its own so that pytest, which loads it in every run, does not import tilelang
before a test or an option asks for it. docs/foreign_kernels.md describes it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .session import Emulator

_EMULATOR = pytest.StashKey["Emulator"]()
_SESSION = pytest.StashKey[contextlib.ExitStack]()
_DEFAULT = "sm_100a"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tilelang", "emulated GPUs")
    group.addoption(
        "--emulate",
        metavar="ARCH",
        help="run Triton programs and compiled kernels of all tests on the emulator, as sm_80, "
        "sm_90a or sm_100a; races and missing waits are failures",
    )
    group.addoption(
        "--emulate-cuda",
        action="store_true",
        help="with --emulate: torch's cuda devices mean the emulator",
    )
    group.addoption(
        "--algebra",
        action="store_true",
        help="tests on the emulator compare tensors over a finite field, without a tolerance "
        "(torch.testing.assert_close, torch.allclose)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "emulator(targets=[...], schedules=[...]): run the test on the emulator, once for each "
        "target ('sm_80', 'sm_90a', 'sm_100a') and schedule ('late', 'eager' or a seed)",
    )
    arch = config.getoption("--emulate")
    cuda = config.getoption("--emulate-cuda")
    if cuda and not arch:
        raise pytest.UsageError("--emulate-cuda needs --emulate=ARCH")
    if arch:
        from .session import device_of_session

        config.stash[_SESSION] = device_of_session(arch, cuda)


def pytest_unconfigure(config: pytest.Config) -> None:
    stack = config.stash.get(_SESSION, None)
    if stack is not None:
        stack.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marker = metafunc.definition.get_closest_marker("emulator")
    if marker is None:
        return
    unknown = sorted(set(marker.kwargs) - {"targets", "schedules"})
    if marker.args or unknown:
        raise pytest.UsageError(
            f"{metafunc.definition.nodeid}: the marker emulator takes targets= and schedules="
        )
    targets = marker.kwargs.get("targets", [metafunc.config.getoption("--emulate") or _DEFAULT])
    schedules = marker.kwargs.get("schedules", ["late"])
    metafunc.parametrize(
        "_emulated",
        [pytest.param((t, s), id=f"{t}-{s}") for t in targets for s in schedules],
        indirect=True,
    )


@pytest.fixture(autouse=True)
def _emulated(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The emulator of a test that asks for one by its marker, the fixture, or ``--emulate``."""
    arch = request.config.getoption("--emulate")
    param = getattr(request, "param", None)
    if param is None and arch is None and "emulator" not in request.fixturenames:
        yield None
        return
    from .session import Emulator

    target, schedule = param or (arch or _DEFAULT, "late")
    algebra = request.config.getoption("--algebra")
    with Emulator(target, schedule, algebra).active() as found:
        request.node.stash[_EMULATOR] = found
        yield found


@pytest.fixture
def emulator(_emulated: Any) -> Any:
    """The emulated GPU of the test: a :class:`tilelang_pytest.session.Emulator`.

    Kernels that the test launches on it, in Triton, CUDA C++, PTX or TileLang, are checked: a race,
    a missing wait or a missing fence is a failure of the test.
    """
    return _emulated


@pytest.hookimpl(hookwrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    """What was found is a failure of a test that passes, and a section of one that fails."""
    outcome: Any = yield
    found = pyfuncitem.stash.get(_EMULATOR, None)
    if found is not None and found.algebra is not None:
        pyfuncitem.add_report_section("call", "algebra", found.describe_algebra())
    if found is None or not found.findings:
        return
    if outcome.excinfo is not None:
        pyfuncitem.add_report_section("call", "emulator", found.describe())
        return
    try:
        pytest.fail(found.describe(), pytrace=False)
    except pytest.fail.Exception as failure:
        outcome.force_exception(failure)
