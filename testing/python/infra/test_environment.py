"""Contributors install other packages (scripts/in_env.sh) than users."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
from requirements_of import dependencies, requirements_of

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("group", ["test", "check", "docs"])
def test_groups_of_contributors_are_no_extras(group):
    reader = "tomllib" if sys.version_info >= (3, 11) else "pip._vendor.tomli"
    settings = importlib.import_module(reader).loads((ROOT / "pyproject.toml").read_text())
    assert group not in settings["project"]["optional-dependencies"]
    assert f"\n  {group}" in (ROOT / "scripts" / "in_env.sh").read_text()
    line = [sys.executable, ROOT / "scripts" / "requirements_of.py", group]
    printed = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    assert printed.splitlines() == dependencies() + requirements_of(group)


def test_checks_of_a_change_are_those_of_make_check():
    pinned = {re.split("[=<>]", line)[0]: line for line in requirements_of("test")}
    assert all(pinned[re.split("[=<>]", line)[0]] == line for line in requirements_of("check"))


def test_a_group_that_does_not_exist_is_an_error():
    with pytest.raises(KeyError):
        requirements_of("tests")
