"""Predicted against measured time of kernels: the timing model of the emulator beside an H200.

    python benchmark/timing.py FOLDER [--only TEXT] [--fitted] [--save FILE] [--plot FILE.svg]
                               [--json FOLDER]

FOLDER holds what ``timing_measure.py build`` compiled when it was measured; ``timing_h200.json``
what a GPU took. Prints a line for each case, and for each kind the errors of those that the model's
figures were not fitted to: the median and the 90th percentile of |predicted / measured - 1|, and
Spearman's correlation of the variants of each family of at least four, as they are and of groups
that differ by more than the noise; beside it that of the two GPUs that were measured; Kendall's of
the pairs that both GPUs tell apart, and which of these are predicted the other way round. A case
that fails gives no number; it is listed.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import math
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import result_files
import torch
from timing_cases import Case, Foreign, cases, fitted
from timing_measure import tensors
from timing_plot import scatter
from timing_recorded import Recorded, replay

from tilelang.emulator import Device, TimingOptions

_HERE = Path(__file__).parent
_LEAST_VARIANTS = 4
#: Two GPUs differ by so much in one kernel (90th percentile): no order is expected within it.
NOISE = 0.03


def predict(case: Case, folder: Path) -> Any:
    """The Timing of a case; only the CTAs that are timed run."""
    sampled = TimingOptions(sampled=True, record=False)
    stem = folder / case.stem
    torch.manual_seed(1)
    device = Device("sm_90a")
    if stem.with_suffix(".launch").exists():
        recorded, arguments = Recorded.load(stem), tensors(case.args, "cpu")
        used = 1 + max(arg[1] for arg in recorded.args if arg[0] != "bytes")
        # What the kernel allocates is as its first argument.
        arguments += [torch.empty_like(arguments[0]) for _ in range(used - len(arguments))]
        how = dataclasses.replace(sampled, registers=recorded.registers)
        return replay(
            recorded, device, arguments, timing=how, sanitize=False, progress=False
        ).timing
    kernel = Foreign.load(stem)
    arguments = [
        # NumPy has no bfloat16; the bits are the same.
        x.view(torch.int16) if isinstance(x, torch.Tensor) and x.dtype == torch.bfloat16 else x
        for x in tensors(kernel.args, "cpu")
    ]
    function = device.load_ptx(kernel.ptx)[kernel.entry]
    report = function.launch(
        kernel.grid, kernel.threads, arguments, smem=kernel.smem, timing=sampled, sanitize=False,
        progress=False,
    )  # fmt: skip
    return report.timing


def row(case: Case, measured: dict[str, float], folder: Path) -> dict[str, Any]:
    """Predicted and measured numbers of a case."""
    start = time.monotonic()
    timing = predict(case, folder)
    return {
        "name": case.name, "kind": case.kind, "measured_us": measured["us"],
        "predicted_us": timing.grid_us, "leases_us": measured["leases_us"],
        "seconds": time.monotonic() - start,
    }  # fmt: skip


def error(entry: dict[str, Any]) -> float:
    """Relative error of a prediction, without sign."""
    return abs(entry["predicted_us"] / entry["measured_us"] - 1)


def spearman(first: list[float], second: list[float]) -> float:
    """Spearman's rank correlation; there are no ties among measured times."""
    ranks = [np.argsort(np.argsort(values)).astype(float) for values in (first, second)]
    return float(np.corrcoef(*ranks)[0, 1])


def beyond_noise(measured: list[float], predicted: list[float]) -> tuple[list[float], ...]:
    """Means of the variants whose measured times are each within the noise of the group's first."""
    groups: list[list[int]] = []
    for i in np.argsort(measured):
        if not groups or measured[i] > (1 + NOISE) * measured[groups[-1][0]]:
            groups.append([])
        groups[-1].append(int(i))
    return tuple(
        [statistics.mean(times[i] for i in group) for group in groups]
        for times in (measured, predicted)
    )


def separated(entries: list[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Pairs of variants, the faster one first, that differ by more than the noise on both GPUs."""
    return [
        (fast, slow) for fast, slow in itertools.permutations(entries, 2)
        if all(b > (1 + NOISE) * a
               for a, b in zip(fast["leases_us"], slow["leases_us"], strict=True))
    ]  # fmt: skip


def kendall(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> float:
    """Kendall's correlation of the predicted order with that of pairs, faster one first."""
    signs = [np.sign(slow["predicted_us"] - fast["predicted_us"]) for fast, slow in pairs]
    return float(np.mean(signs))


def inversions(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> list[str]:
    """A line for each pair, faster one first, that is predicted the other way round."""
    return [
        f"    {fast['name'].split('/', 1)[1]} before {slow['name'].split('/', 1)[1]}: "
        f"{100 * (slow['measured_us'] / fast['measured_us'] - 1):.1f} % apart, predicted "
        f"{100 * (slow['predicted_us'] / fast['predicted_us'] - 1):.1f} %"
        for fast, slow in pairs if slow["predicted_us"] <= fast["predicted_us"]
    ]  # fmt: skip


def _ranks(measured: list[float], other: list[float]) -> tuple[float, int, str]:
    """Correlation of all, number of groups that differ by more than the noise, that of these."""
    apart = beyond_noise(measured, other)
    groups = f"{spearman(*apart):5.2f}" if len(apart[0]) > 2 else "    -"
    return spearman(measured, other), len(apart[0]), groups


def _line(name: str, entries: list[dict[str, Any]]) -> str:
    errors = [error(entry) for entry in entries]
    return (
        f"{name:20} {len(entries):4}  median {100 * statistics.median(errors):5.1f} %  "
        f"90th {100 * np.percentile(errors, 90):5.1f} %"
    )


def summary(entries: list[dict[str, Any]], own: set[str]) -> list[str]:
    """The table of errors and correlations of cases that nothing was fitted to."""
    held = [entry for entry in entries if entry["name"] not in own]
    lines = ["", f"{len(held)} held back, {len(entries) - len(held)} fitted"]
    for kind in _kinds(held):
        lines.append(_line(kind, [entry for entry in held if entry["kind"] == kind]))
    if held:
        lines.append(_line("all held back", held))
    return [*lines, "", *_orders(entries)]


def tables(entries: list[dict[str, Any]], own: set[str]) -> list[result_files.Table]:
    """Returns the errors by kind and the rank correlations, as docs/timing_accuracy.md has them."""
    held = [entry for entry in entries if entry["name"] not in own]
    columns = ("kernels held back", "", "median error", "90th percentile")
    kinds = result_files.Table("errors_by_kind", columns)
    groups = {kind: [e for e in held if e["kind"] == kind] for kind in _kinds(held)}
    for kind, of_kind in {**groups, "all held back": held}.items():
        errors = [error(entry) for entry in of_kind]
        middle, high = statistics.median(errors), np.percentile(errors, 90)
        kinds.add(kind, str(len(errors)), f"{100 * middle:.1f} %", f"{100 * high:.1f} %")
    columns = (
        "family", "variants", "slowest / fastest", "rank correlation", "of two H200s",
        "groups 3 % apart", "of these", "of two H200s", "pairs apart", "Kendall",
    )  # fmt: skip
    ranks = result_files.Table("rank_correlations", columns)
    for family, members in _families(entries).items():
        measured, predicted = ([m[key] for m in members] for key in ("measured_us", "predicted_us"))
        every, count, apart = _ranks(measured, predicted)
        of_gpus = _ranks(*([m["leases_us"][i] for m in members] for i in (0, 1)))
        pairs = separated(members)
        ranks.add(
            family, str(len(members)), f"{max(measured) / min(measured):.2f}", f"{every:.2f}",
            f"{of_gpus[0]:.2f}", str(count), apart.strip(" -"), of_gpus[2].strip(" -"),
            f"{len(pairs)} of {math.comb(len(members), 2)}",
            f"{kendall(pairs):.2f}" if pairs else "",
        )  # fmt: skip
    return [kinds, ranks]


def _kinds(entries: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(entry["kind"] for entry in entries))


def _families(entries: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Returns the families that have enough variants for a correlation."""
    families: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        families.setdefault(entry["name"].split("/")[0], []).append(entry)
    return {name: rows for name, rows in families.items() if len(rows) >= _LEAST_VARIANTS}


def _orders(entries: list[dict[str, Any]]) -> list[str]:
    """Whether the variants of each family come in the order of the GPUs."""
    _, ranks = tables(entries, set())
    lines: list[str] = []
    for row, members in zip(ranks.rows, _families(entries).values(), strict=True):
        family, count, spread, every, of_gpus, groups, apart, apart_gpus, pairs, kendalls = row
        lines.append(f"{family:24} {count:>3} variants, slowest / fastest {spread}, rank "
                     f"correlation {every}, of {groups} that differ by {100 * NOISE:.0f} %: "
                     f"{apart or '-'}; of two GPUs {of_gpus}, {apart_gpus or '-'}")  # fmt: skip
        if kendalls:
            lines.append(f"    {pairs} pairs are apart on both GPUs, Kendall's correlation "
                         f"{kendalls}")  # fmt: skip
            lines += inversions(separated(members))
    return lines


def main() -> None:
    """Predicts, compares, prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="part of the names of cases")
    parser.add_argument("--fitted", action="store_true", help="only those that may be fitted to")
    parser.add_argument("--save")
    parser.add_argument("--plot")
    result_files.add_option(parser)
    arguments = parser.parse_args()
    truth = json.loads((_HERE / "timing_h200.json").read_text())["kernels"]
    own, entries = fitted(), []
    for case in cases():
        if arguments.only not in case.name or (arguments.fitted and case.name not in own):
            continue
        try:
            entry = row(case, truth[case.name], arguments.folder)
        except Exception as failure:  # the table shows which; none is left out silently
            print(f"{case.name}: {type(failure).__name__} {str(failure)[:200]}", flush=True)
            continue
        entries.append(entry)
        print(f"{case.name:56} {entry['measured_us']:9.1f} us, predicted "
              f"{entry['predicted_us']:9.1f}  ({entry['predicted_us'] / entry['measured_us']:.2f}"
              f")  in {entry['seconds']:.1f} s"
              f"{'  fitted' if case.name in own else ''}", flush=True)  # fmt: skip
    print("\n".join(summary(entries, own)))
    for table in tables(entries, own):
        table.save(arguments.json, "the timing model, H200")
    if arguments.save:
        Path(arguments.save).write_text(json.dumps(entries, indent=1))
    if arguments.plot:
        Path(arguments.plot).write_text(scatter(entries, own))


if __name__ == "__main__":
    main()
