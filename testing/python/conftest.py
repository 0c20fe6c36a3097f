"""What all tests share: options, tiers, golden files, the folder of compiled kernels."""

from __future__ import annotations

import ctypes
import functools
import os
import sys

import durations
import kept_kernels
import pytest
import tiers
from covering import covering
from golden import golden
from kept_kernels import private_cache
from tiers import STRENGTH, TIERS, of_tier, within_budget

from tilelang import algebra, emulator

# What every compiled kernel waits for is checked (docs/ordering.md).
os.environ.setdefault("TILELANG_VERIFY_SYNCHRONIZATION", "1")
# One process a core: threads of torch beside them would only wait for each other, which takes more
# than half of the time of small tensors. Read when torch is first imported.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

__all__ = ["golden", "private_cache"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files anew")
    parser.addoption(
        "--schedule", default="late", help="when asynchronous operations act: late, eager or a seed"
    )
    parser.addoption(
        "--every-mutant", action="store_true", help="try all mutations of synchronised kernels"
    )
    parser.addoption(
        "--tier", choices=TIERS, default="all", help="which cases run; tiers.py describes the tiers"
    )
    parser.addoption(
        "--write-durations",
        action="store_true",
        help="measure the CPU seconds of the tests that run, for durations.tsv",
    )
    parser.addoption(
        "--every-case",
        action="store_true",
        help="run all cases of a test; by default those in which any two parameters' values meet",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "every_schedule: runs with operations as late and as early as legal, and between"
    )
    config.addinivalue_line("markers", "budget(seconds): CPU time of the cases at each change")
    config.addinivalue_line(
        "markers", "over_field: compares elements of a finite field, without a tolerance"
    )
    config.addinivalue_line("markers", "emulator: of the plugin tilelang_pytest, in documents")
    tiers.chosen = config.getoption("--tier")
    kept_kernels.keep(config)
    if config.getoption("--write-durations"):
        config.pluginmanager.register(durations.Recorder())


def pytest_sessionstart(session: pytest.Session) -> None:
    # Python may collect, while a test runs, a file that another one left open. pytest applies the
    # filters of the session last, so that they hold beside "error" of a module.
    session.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))


def pytest_sessionfinish(session: pytest.Session) -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        kept_kernels.remove_unused(session.config)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.definition.get_closest_marker("every_schedule"):
        metafunc.parametrize("_schedule", ["late", "eager", 1], indirect=True)


@pytest.fixture(autouse=True)
def _modules_of_temporary_folders(tmp_path_factory: pytest.TempPathFactory):
    """Modules that a test wrote and imported go with it: the next one's ``program`` is another."""
    before = set(sys.modules)
    yield
    folder = str(tmp_path_factory.getbasetemp())
    for name in sys.modules.keys() - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(folder):
            del sys.modules[name]


@pytest.fixture(autouse=True)
def _over_field(request: pytest.FixtureRequest):
    """Random inputs get elements of a field, which comparisons compare (docs/algebra.md)."""
    if request.node.get_closest_marker("over_field") is None:
        yield
        return
    import torch  # noqa: F401 - the mode follows it

    with algebra.Algebra().mode(seed=0) as followed:
        yield
    over, others = followed[1].compared
    assert over or not others, "no comparison was over the field: are the inputs random?"


@pytest.fixture(autouse=True)
def _schedule(request: pytest.FixtureRequest):
    """The schedule of launches that do not name one; kernels keep to the letter of the PTX ISA."""
    schedule = getattr(request, "param", request.config.getoption("--schedule"))
    numbered = isinstance(schedule, str) and schedule.isdigit()
    chosen = int(schedule) if numbered else schedule
    with emulator.options(schedule=chosen, letters="fail"):
        yield


@functools.cache
def _has_gpu() -> bool:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int(0)
    return (
        driver.cuInit(0) == 0
        and driver.cuDeviceGetCount(ctypes.byref(count)) == 0
        and count.value > 0
    )


@pytest.hookimpl(trylast=True)  # after -k and -m
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    tier, every_case = config.getoption("--tier"), config.getoption("--every-case")
    seconds = durations.read()
    chosen = of_tier(items, tier, seconds)
    kept = set(chosen) if every_case else covering(chosen, STRENGTH[tier])
    if not _has_gpu():
        kept -= {item for item in items if item.get_closest_marker("requires_cuda")}
    if tier == "change" and not every_case and not config.getoption("--write-durations"):
        kept = within_budget([item for item in items if item in kept], seconds)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]
