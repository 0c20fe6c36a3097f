"""``python -m fuzz.rewrites --seeds 0:10000 --jobs 16``: random gemms as one first writes them.

Each program runs under three schedules with the sanitizer on. The last lines tell how many were
right, and the seeds of the others. The verifier of synchronization checks each kernel, unless
TILELANG_VERIFY_SYNCHRONIZATION is 0. After an interrupt, a termination, or the time that --seconds
gives, the last lines tell of the programs that have run.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from fuzz import pool
from fuzz.outcome import Outcome
from fuzz.rewrites import check, generate, source


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fuzz.rewrites", description=__doc__)
    pool.add_options(parser)
    parser.add_argument("--out", type=Path, help="folder for the details of finds")
    parser.add_argument("--print", action="store_true", help="print the programs; run nothing")
    return parser.parse_args()


def _write(folder: Path, outcomes: dict[int, Outcome]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for seed, outcome in outcomes.items():
        if outcome.is_find:
            program = generate.generate(seed)
            made_with = f"{program.calls}\n{dict(program.options)}"
            text = f'"""{outcome.kind}\n{outcome.detail}\n{made_with}"""\n'
            (folder / f"{outcome.kind}_{seed}.py").write_text(text + source.module(program))


def main() -> int:
    options = _options()
    if options.print:
        for seed in pool.seeds_of(options):
            program = generate.generate(seed)
            print(
                f"# seed {seed}, {program.target}, {program.sm_count} SMs, "
                f"{dict(program.options)}, {program.calls}"
            )
            print(source.kernel(program))
        return 0
    os.environ.setdefault("TILELANG_VERIFY_SYNCHRONIZATION", "1")
    outcomes: dict[int, Outcome] = {}
    pool.run_all(options, check.of_seed, outcomes)
    pool.print_summary(outcomes)
    finds = sorted(seed for seed, outcome in outcomes.items() if outcome.is_find)
    print(f"{len(outcomes)} programs, {len(finds)} finds" + (f": seeds {finds}" if finds else ""))
    if options.out:
        _write(options.out, outcomes)
    return int(bool(finds))


if __name__ == "__main__":
    sys.exit(main())
