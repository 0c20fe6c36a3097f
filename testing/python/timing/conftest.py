"""What tests of the timing model share."""

import importlib
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / "benchmark" / "microbench"


@pytest.fixture(scope="module")
def microbench():
    """Imports a module of the micro-benchmarks by its name: they are no package, the names common
    ones.
    """
    before = set(sys.modules)
    sys.path.insert(0, str(FOLDER))
    try:
        yield importlib.import_module
    finally:
        sys.path.remove(str(FOLDER))
        for name in set(sys.modules) - before:
            if str(FOLDER) in str(getattr(sys.modules[name], "__file__", None)):
                del sys.modules[name]
