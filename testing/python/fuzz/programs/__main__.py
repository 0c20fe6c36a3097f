"""``python -m fuzz.programs --seeds 0:20000 --jobs 2``: runs programs, shrinks what fails.

The verifier of synchronization checks each of them, unless TILELANG_VERIFY_SYNCHRONIZATION is 0.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import multiprocessing.connection
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fuzz.programs import check, generate, shrink, source
from fuzz.programs.pool import Worker


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fuzz.programs", description=__doc__)
    parser.add_argument("--seeds", default="0:300", help="FIRST:LAST, LAST not included")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--size", type=int, default=5, help="statements of a program, about")
    parser.add_argument("--out", type=Path, help="folder for reproducers of finds")
    parser.add_argument(
        "--refusals", action="store_true", help="write reproducers of refusals, too"
    )
    parser.add_argument("--pairs", action="store_true", help="of blocks carry them out together")
    parser.add_argument("--print", action="store_true", help="print the programs; run nothing")
    return parser.parse_args()


def _run(options: argparse.Namespace) -> dict[int, Any]:
    first, last = map(int, options.seeds.split(":"))
    todo = iter(range(first, last))
    outcomes: dict[int, Any] = {}
    with contextlib.suppress(KeyboardInterrupt):  # what ran until then counts
        _work(todo, options, outcomes)
    return outcomes


def _work(todo: Iterator[int], options: argparse.Namespace, outcomes: dict[int, Any]) -> None:
    """Gives seeds to processes until there are none, and collects what becomes of them."""
    workers = [Worker(options.size, options.pairs) for _ in range(options.jobs)]
    busy = []
    for worker in workers:
        if (seed := next(todo, None)) is not None:
            worker.give(seed)
            busy.append(worker)
    while busy:
        multiprocessing.connection.wait([w.connection for w in busy], timeout=1)
        for worker in list(busy):
            outcome = worker.take()
            if outcome is None:
                continue
            outcomes[worker.seed] = outcome
            if outcome.is_find:
                print(f"seed {worker.seed}: {outcome.kind}: {outcome.cause}", flush=True)
            if len(outcomes) % 1000 == 0:
                print(f"{len(outcomes)} programs ran", flush=True)
            if (seed := next(todo, None)) is None:
                busy.remove(worker)
            else:
                worker.give(seed)
    for worker in workers:
        worker.connection.close()


def _summary(outcomes: dict[int, Any]) -> None:
    kinds = collections.Counter(o.kind for o in outcomes.values())
    print(", ".join(f"{count} {kind}" for kind, count in kinds.most_common()))
    causes = collections.defaultdict(list)
    for seed, outcome in sorted(outcomes.items()):
        if outcome.kind != "right":
            causes[outcome.kind, outcome.cause].append(seed)
    for (kind, cause), seeds in sorted(causes.items(), key=lambda item: -len(item[1])):
        print(f"{len(seeds):6}  {kind:9} {cause}\n        seeds {seeds[:6]}")


def _reproduce(options: argparse.Namespace, outcomes: dict[int, Any]) -> None:
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
        first, last = map(int, options.seeds.split(":"))
        for seed in range(first, last):
            program = generate.generate(seed, options.size, options.pairs)
            print(f"# seed {seed}, {program.target}\n{source.kernel(program)}")
        return 0
    os.environ.setdefault("TILELANG_VERIFY_SYNCHRONIZATION", "1")
    outcomes = _run(options)
    _summary(outcomes)
    if options.out:
        _reproduce(options, outcomes)
    return int(any(outcome.is_find for outcome in outcomes.values()))


if __name__ == "__main__":
    sys.exit(main())
