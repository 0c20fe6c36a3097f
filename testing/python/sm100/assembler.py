"""The assembler of the CUDA toolkit as a second opinion on what NVRTC has assembled."""

from __future__ import annotations

import functools
import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

from tilelang.runtime import resources
from tilelang.runtime.toolchain import ToolNotFoundError, find_ptxas


class Assembler:
    """Runs ``ptxas -v``; what it said about a text is kept in a folder.

    Attributes:
        path: the program, or None where it is not installed: then every text is accepted.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            self.path: Path | None = find_ptxas()
        except ToolNotFoundError:
            self.path = None

    @functools.cached_property
    def _version(self) -> bytes:
        return subprocess.run([self.path, "--version"], capture_output=True, check=True).stdout

    def usage(self, ptx: str, arch: str) -> dict[str, resources.ResourceUsage]:
        """Returns what each kernel uses, by name.

        Raises:
            AssertionError: ptxas refuses the text; holds what it said.
        """
        return resources.parse(self._output(ptx, arch))

    def losses(self, ptx: str, arch: str) -> list[str]:
        """Returns where ptxas serialises wgmma, and why (C7510 and others). A wait or a fence
        that it adds (C7517, C7519) costs nothing where one stands already.

        Raises:
            AssertionError: ptxas refuses the text; holds what it said.
        """
        return [line for line in self._output(ptx, arch).splitlines() if "Performance Loss" in line]

    def _output(self, ptx: str, arch: str) -> str:
        if self.path is None:
            return ""
        name = hashlib.sha256(self._version + arch.encode() + ptx.encode()).hexdigest()
        entry = self._folder / name
        if not entry.exists():
            said = self._run(ptx, arch)
            with tempfile.NamedTemporaryFile("w", dir=self._folder, delete=False) as file:
                file.write(said)
            os.replace(file.name, entry)  # workers share the folder: all of an entry or nothing
        return entry.read_text()

    def _run(self, ptx: str, arch: str) -> str:
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "kernel.ptx")
            source.write_text(ptx)
            command = [str(self.path), "-v", f"-arch={arch}", str(source), "-o", "/dev/null"]
            result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.returncode == 0, f"ptxas refuses the kernel\n{result.stderr}"
        return result.stderr
