#!/usr/bin/env python3
"""Measures the power of the tests: plants one bug after another and reports which tier finds it.

    python testing/seeded_bugs/run.py                       # all bugs of table.py
    python testing/seeded_bugs/run.py --sample 8 --near      # eight of them, tests of `near` alone
    python testing/seeded_bugs/run.py "bitxor reduces by bitor"

The bugs are planted in a copy of the working tree, in build/seeded. For each, the tests near it run
first, then all tests, in the tiers quick, change and all, until one fails. A bug in C++ is compiled
by ninja in that copy. The table that is printed is Markdown.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from table import BUGS, Bug

ROOT = Path(__file__).resolve().parents[2]
TIERS = ("quick", "change", "all")
#: Seconds after which tests that hang count as failed.
LIMIT = 3600


def place(bug: Bug, root: Path) -> Path:
    """Returns the file that holds the text of a bug.

    Raises:
        ValueError: the text does not occur exactly once.
    """
    found = [
        path
        for folder in ("src", "tilelang")
        for path in sorted((root / folder).rglob("*"))
        if path.suffix in (".cc", ".h", ".py", ".cuh")
        for _ in range(path.read_text().count(bug.old))
    ]
    if len(found) != 1:
        raise ValueError(f"{bug.name!r}: its text occurs {len(found)} times in src/ and tilelang/")
    return found[0]


class Copy:
    """A copy of the working tree in which bugs are planted, with a library of its own."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        self._build = folder / "build" / "dev"
        names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
        for name in filter(None, names.stdout.decode().split("\0")):
            source, target = ROOT / name, self.root / name
            if source.exists() and not (target.exists() and _same(source, target)):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)

    def build(self) -> None:
        """Builds the library; raises CalledProcessError where it does not compile."""
        # ccache knows the objects of another checkout by paths that are relative to the base.
        environment = {**os.environ, "CCACHE_BASEDIR": str(self.root)}
        if not (self._build / "build.ninja").exists():
            line = ["cmake", "-S", str(self.root), "-B", str(self._build), "-G", "Ninja"]
            subprocess.run(
                [*line, f"-DPython_EXECUTABLE={sys.executable}"],
                check=True,
                env=environment,
                stdout=subprocess.DEVNULL,
            )
        line = ["ninja", "-C", str(self._build)]
        subprocess.run(line, check=True, env=environment, stdout=subprocess.DEVNULL)

    def environment(self, own_library: bool) -> dict[str, str]:
        """Returns the environment of the tests; the library is that of ROOT without own_library."""
        found = {**os.environ, "PYTHONPATH": str(self.root)}
        found.setdefault("TILELANG_CACHE_DIR", str(ROOT / ".pytest_cache" / "d" / "kernels"))
        if own_library:
            found["TILELANG_LIBRARY"] = str(self._build / "lib" / "libtilelang.so")
        return found

    def first_failure(self, tier: str, folders: Sequence[str], own_library: bool) -> str | None:
        """Returns the first test of a tier that fails, or None."""
        paths = [f"testing/python/{folder}" for folder in folders] or ["testing/python"]
        options = ["-x", "-q", f"--tier={tier}", "-m", "not requires_cuda", "-p", "no:randomly"]
        line = [sys.executable, "-m", "pytest", *options, *paths]
        environment = self.environment(own_library)
        try:
            done = subprocess.run(
                line, cwd=self.root, env=environment, capture_output=True, text=True, timeout=LIMIT
            )
        except subprocess.TimeoutExpired:
            return f"tests end within {LIMIT} s"
        if done.returncode in (0, 5):  # 5: the tier has no test there
            return None
        lines = [text for text in done.stdout.splitlines() if text.startswith(("FAILED", "ERROR"))]
        first = lines[0].split(" - ")[0].split(" ", 1)[1] if lines else "collection"
        return first.removeprefix("testing/python/")


def _same(one: Path, other: Path) -> bool:
    return (
        one.stat().st_mtime == other.stat().st_mtime and one.stat().st_size == other.stat().st_size
    )


def killed(bug: Bug, copy: Copy, near_only: bool) -> tuple[str, str]:
    """Plants a bug; returns the first tier that finds it, and the test, or "survives"."""
    try:
        path = place(bug, copy.root)
    except ValueError:
        return "-", "its text is gone: write the row anew"
    original, times = path.read_text(), (path.stat().st_atime, path.stat().st_mtime)
    native = path.suffix != ".py"
    path.write_text(original.replace(bug.old, bug.new))
    try:
        if native:
            copy.build()
        for folders in [bug.near.split()] if near_only else [bug.near.split(), []]:
            for tier in TIERS:
                test = copy.first_failure(tier, folders, native)
                if test is not None:
                    return tier, test
    except subprocess.CalledProcessError:
        return "-", "does not compile"
    finally:
        path.write_text(original)
        if not native:
            os.utime(path, times)  # what ninja built of a bug must be built again
    return "survives", ""


def rows(bugs: Sequence[Bug], copy: Copy, near_only: bool) -> Iterator[tuple[Bug, str, str, float]]:
    """Plants the bugs one after another; yields each with tier, test and seconds."""
    for bug in bugs:
        begin = time.monotonic()
        tier, test = killed(bug, copy, near_only)
        yield bug, tier, test, time.monotonic() - begin


def main() -> None:
    """Prints the table and how many bugs each tier finds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="bugs to plant; all of table.py by default")
    parser.add_argument("--sample", type=int, help="plant this many bugs, chosen by --seed")
    parser.add_argument("--seed", type=int, default=0, help="of --sample; 0 by default")
    parser.add_argument("--near", action="store_true", help="run the tests near a bug only")
    parser.add_argument("--python", action="store_true", help="plant bugs in Python files only")
    args = parser.parse_args()
    bugs = [bug for bug in BUGS if not args.names or bug.name in args.names]
    if args.python:
        bugs = [bug for bug in bugs if place(bug, ROOT).suffix == ".py"]
    if args.sample is not None:
        bugs = random.Random(args.seed).sample(bugs, min(args.sample, len(bugs)))
    copy = Copy(ROOT / "build" / "seeded")
    print("| bug | tier | test | seconds |\n|---|---|---|---|", flush=True)
    found: Counter[str] = Counter()
    for bug, tier, test, seconds in rows(bugs, copy, args.near):
        print(f"| {bug.name} | {tier} | {test} | {seconds:.0f} |", flush=True)
        found[tier] += 1
    print("\n" + ", ".join(f"{tier}: {found[tier]}" for tier in (*TIERS, "survives", "-")))


if __name__ == "__main__":
    main()
