"""What the command line says about itself, and the options that all commands share."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli.documents import command, document, validate

from tilelang.checks import progress
from tilelang.cli import main
from tilelang.emulator.progress import TerminalLine
from tilelang.target import architectures

COMMANDS = [
    "check", "merge", "grade", "explain", "profile", "compare", "bench", "autotune", "ir",
    "export", "run", "emulate", "stream", "doctor", "cache", "completion", "schema", "mcp",
]  # fmt: skip
SCALE = """
import tilelang
import tilelang.language as T


@tilelang.jit
def scale(X):
    N = T.const("N")
    X: T.Tensor[[N], T.float32]
    Y = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, 128), threads=128) as block:
        for i in T.Parallel(128):
            Y[block * 128 + i] = X[block * 128 + i] * 2.0
    return Y
"""


def test_a_newcomer_sees_three_commands() -> None:
    result = command("")
    assert result.exit_code == 0
    for name in ("check", "profile", "doctor"):
        assert f"tilelang {name}" in result.output
    assert "tilelang grade" not in result.output and len(result.output.splitlines()) <= 10


def test_the_help_lists_all_commands_and_cuts_no_sentence() -> None:
    result = command("--help")
    assert all(f"\n  {name}" in result.output for name in COMMANDS)
    assert "..." not in result.output.partition("Options:")[2]
    assert main.list_commands(None) == COMMANDS


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "emulate"])
def test_help_of_each_command_explains_every_option(name: str) -> None:
    result = command(f"{name} --help")
    assert result.exit_code == 0
    parameters = [p for p in main.get_command(None, name).params if p.param_type_name == "option"]
    assert all(p.help for p in parameters if p.name != "target" and p.name != "targets")
    first = main.get_command(None, name).help.splitlines()[0]
    assert first.endswith(".") and not first.startswith(("Tells", "What"))


@pytest.mark.parametrize("name", ["check", "profile", "compare", "bench", "ir", "export", "run"])
def test_help_lists_every_target(name: str) -> None:
    text = command(f"{name} --help").output
    assert all(arch in text for arch in architectures())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str) -> None:
    assert "_TILELANG_COMPLETE" in command(f"completion {shell}").output


def test_targets_are_completed() -> None:
    option = next(p for p in main.get_command(None, "check").params if p.name == "targets")
    found = [item.value for item in option.type.shell_complete(None, option, "sm_1")]
    assert "sm_100a" in found and "sm_90a" not in found


@pytest.mark.parametrize("name", ["check", "profile", "bench"])
def test_a_command_ends_after_its_timeout(name: str, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(60)\n")
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "tilelang", name, "slow.py", "--timeout", "2", "--json"],
        capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert time.monotonic() - begin < 20 and done.returncode == 2
    found = validate(json.loads(done.stdout))
    assert found["schema"] == f"tilelang.{name}" and "after 2 s" in found["error"]


def test_a_timeout_needs_a_process_of_its_own() -> None:
    assert "run tilelang from a shell" in document("check k.py --timeout 3", 2)["error"]


def test_compare_takes_the_shapes_of_each_kernel(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("k.py").write_text(SCALE)
    line = "compare k.py::scale k.py::scale --target sm_90a --shapes N=1000"
    assert document(line)["ratio"] == 1
    assert document(f"{line} --shapes N=9999999")["ratio"] > 1
    assert "got 3" in document(f"{line} --shapes N=1 --shapes N=2", 2)["error"]


def test_progress_names_the_step_and_the_time_left(monkeypatch) -> None:
    monkeypatch.setattr(progress, "_DELAY", 1e9)
    shown = progress.Progress(TerminalLine(io.StringIO()))
    begin = time.monotonic()
    shown.total = 3
    shown.step("late")
    assert "late, step 1 of 3" in shown.text(begin) and "left" not in shown.text(begin + 6)
    shown.step("eager")
    assert shown.text(begin + 10).startswith("eager, step 2 of 3, 10 s, about 20 s left")
    shown.total = 0
    shown.launched(0.25)
    assert "30 s left" in shown.text(time.monotonic() + 10)
    shown.end()
