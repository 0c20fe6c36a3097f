"""The command ``python -m tilelang.autodd``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .reduce import Reduction
from .running import Runner


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tilelang.autodd",
        description="Delta-debug the provided Python source: delete and simplify parts of it as "
        "long as its output contains a text.",
    )
    parser.add_argument("source", type=Path, help="the program")
    parser.add_argument("--err-msg", required=True, help="text that the output must contain")
    parser.add_argument("-o", "--output", type=Path, required=True, help="file for the result")
    parser.add_argument(
        "--backend", choices=("runner", "subproc"), default="runner",
        help="run programs in copies of one process (runner), or in new interpreters (subproc)",
    )  # fmt: skip
    parser.add_argument("--timeout", type=float, default=60, help="seconds for each program")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="programs that run at once")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Reduces a program; returns the exit status: 0, or 2 if the program does not fail."""
    options = _options(arguments)
    runner = Runner(options.timeout, fresh=options.backend == "subproc")

    def accepted(source: str) -> None:
        options.output.write_text(source)
        lines = source.count("\n")
        print(f"{lines} lines after {reduction.tried} programs", flush=True)

    source = options.source.read_text()
    reduction = Reduction(source, options.err_msg, runner, max(options.jobs, 1), accepted)
    if not reduction.reproduces():
        print(
            f"{options.source} does not print {options.err_msg!r}: there is nothing to reduce. "
            "Run it, and give a part of its error message.",
            file=sys.stderr,
        )
        return 2
    options.output.write_text(reduction.run())
    print(
        f"{options.output}: {reduction.best.count(chr(10))} lines, {reduction.tried} programs ran"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
