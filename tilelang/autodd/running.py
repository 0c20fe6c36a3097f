"""Runs programs one after another or several at once, each in a process of its own."""

from __future__ import annotations

import ast
import contextlib
import importlib
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path


class Runner:
    """Runs programs and returns what they print.

    Args:
        timeout: seconds after which a program is killed.
        fresh: start a new interpreter for each program. Otherwise each runs in a copy of this
            process, which has imported the modules of the program: this takes less time.
    """

    def __init__(self, timeout: float, fresh: bool) -> None:
        self.timeout = timeout
        self.fresh = fresh or not hasattr(os, "fork")
        self._folder = tempfile.TemporaryDirectory(prefix="autodd")

    def prepare(self, tree: ast.Module) -> None:
        """Imports what the program imports, for the copies of this process."""
        if self.fresh:
            return
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            for name in names:
                with contextlib.suppress(Exception):
                    importlib.import_module(name)

    def outputs(self, sources: list[str]) -> list[str]:
        """Runs programs at the same time; returns what each prints, errors too."""
        started = [self._start(n, source) for n, source in enumerate(sources)]
        end = time.monotonic() + self.timeout
        outputs = []
        for child, log in started:
            self._wait(child, end)
            outputs.append(log.read_text(errors="replace"))
        return outputs

    def _start(self, n: int, source: str) -> tuple[_Child, Path]:
        program = Path(self._folder.name) / f"program_{n}.py"
        log = program.with_suffix(".log")
        program.write_text(source)
        with log.open("w") as output:
            if self.fresh:
                command = [sys.executable, str(program)]
                child = subprocess.Popen(
                    command, stdout=output, stderr=output, start_new_session=True
                )
                return child, log
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # threads of libraries are idle
                pid = os.fork()
            if pid == 0:
                _run_here(program, output.fileno())
            return _Copy(pid), log

    def _wait(self, child: _Child, end: float) -> None:
        while child.poll() is None:
            if time.monotonic() > end:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                child.wait()
                return
            time.sleep(0.01)


class _Copy:
    """A copy of this process, with the methods of ``subprocess.Popen`` that are used here."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def poll(self) -> int | None:
        """Returns the status of a process that has ended, else None."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        return status if pid else None

    def wait(self) -> int:
        """Waits for the end of the process; returns its status."""
        return os.waitpid(self.pid, 0)[1]


# A process stays an object until it has ended: subprocess waits for the processes of lost ones.
_Child = _Copy | subprocess.Popen[bytes]


def _run_here(program: Path, output: int) -> None:
    """Runs a program in place of the rest of this process."""
    status = 1
    try:
        os.setsid()
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        sys.argv = [str(program)]
        runpy.run_path(str(program), run_name="__main__")
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
