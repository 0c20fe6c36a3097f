"""``python -m fuzz.programs --seeds 0:20000 --jobs 2``: runs programs, shrinks what fails.

The verifier of synchronization checks each of them, unless TILELANG_VERIFY_SYNCHRONIZATION is 0.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
from pathlib import Path

from fuzz import pool
from fuzz.outcome import Outcome
from fuzz.programs import check, generate, shrink, source


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fuzz.programs", description=__doc__)
    pool.add_options(parser)
    parser.add_argument("--size", type=int, default=5, help="statements of a program, about")
    parser.add_argument("--out", type=Path, help="folder for reproducers of finds")
    parser.add_argument(
        "--refusals", action="store_true", help="write reproducers of refusals, too"
    )
    parser.add_argument("--pairs", action="store_true", help="of blocks carry them out together")
    parser.add_argument("--print", action="store_true", help="print the programs; run nothing")
    return parser.parse_args()


def _reproduce(options: argparse.Namespace, outcomes: dict[int, Outcome]) -> None:
    """One shrunk reproducer of each cause."""
    options.out.mkdir(parents=True, exist_ok=True)
    seen = set()
    for seed, outcome in sorted(outcomes.items()):
        wanted = outcome.is_find or (options.refusals and outcome.kind == "refused")
        key = (outcome.kind, outcome.cause)
        if not wanted or (key in seen and outcome.kind != "wrong"):
            continue
        seen.add(key)
        program = generate.generate(seed, options.size, options.pairs)
        if outcome.kind not in ("crash", "hang"):
            program = shrink.shrink(program, outcome)
            outcome = check.run(program)
        path = options.out / f"{outcome.kind}_{seed}.py"
        path.write_text(shrink.reproducer(program, outcome, seed))
        print(f"wrote {path}")


def main() -> int:
    options = _options()
    if options.print:
        for seed in pool.seeds_of(options):
            program = generate.generate(seed, options.size, options.pairs)
            print(f"# seed {seed}, {program.target}\n{source.kernel(program)}")
        return 0
    os.environ.setdefault("TILELANG_VERIFY_SYNCHRONIZATION", "1")
    outcomes: dict[int, Outcome] = {}
    run = functools.partial(check.of_seed, size=options.size, in_pairs=options.pairs)
    pool.run_all(options, run, outcomes)
    pool.print_summary(outcomes)
    if options.out:
        _reproduce(options, outcomes)
    return int(any(outcome.is_find for outcome in outcomes.values()))


if __name__ == "__main__":
    sys.exit(main())
