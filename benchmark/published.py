"""The timing model on kernels of others, beside the times that their authors published for a B200.

    python benchmark/published.py --tirx VENV/bin/python [--half looked|once] [--only TEXT]
                                  [--save FILE] [--list]
    python benchmark/published.py --show FILE

The workloads, and their microseconds on a B200 beside those of a reference library, are those of
the wheel ``tirx-kernels`` (its ``bench_suite/baseline.json``), which nothing here depends on::

    python -m venv VENV && VENV/bin/pip install tirx-kernels apache-tvm nvidia-cuda-cccl torch -e .

No GPU is needed: ``published_tirx.py`` lets the wheel's own benchmarks run on the emulator.

Half of the workloads may be looked at, and figures of the model chosen by them; the other half is
measured once, at the end. The last bit of the SHA-256 of ``kernel/config`` decides: 0 is *looked*,
1 *once*. The rule was written before an error was seen; ``KNOWN`` had been seen before, or were
looked at by mistake while figures were chosen, and count as looked at, whatever their hash. Two
sources agree on a row where the reference library's own time is within 3 % of that of the wheel's
kernel. Inputs lie in HBM: the wheel's timer flushes L2 before each run. It measures for 100 ms, so
its times are sustained ones.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import hashlib
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
KNOWN = (
    "fp16_bf16_gemm/bf16_4096x4096x4096", "flash_attention4/s1024_h32kv4",
    "nvfp4_gemm/1024x1024x1024", "nvfp4_gemm/4096x4096x4096",
    "deepgemm_sm100_fp8_gemm_1d1d/m4096_n576_k7168",
    "flashinfer_rmsnorm/rms_bf16_m32_h4096_xc_yc_pdl0",
    "act_and_mul/silu_bf16_d16384_t32768", "merge_state/bf16_s16384_h32_d128",
    "mxfp8_quantize/fp16_linear_m4096_k4096", "nvfp4_quantize/fp16_128x4_m16384_k7168",
)  # fmt: skip
AGREE, SMALL_US, CHUNK = 0.03, 10.0, 8
CLASSES = ("GEMM", "attention", "memory-bound", "small")
_ATTENTION = ("attention", "attn", "mla", "bsa", "mqa", "gdn", "kda")
_OWN = ("tirx", "tir")
_FIND = "import tirx_kernels.bench_suite as b; print(b.__path__[0])"


def half_of(name: str) -> str:
    """Whether a workload is looked at, or measured once."""
    last = int(hashlib.sha256(name.encode()).hexdigest(), 16) % 2
    return "looked" if last == 0 or name in KNOWN else "once"


def workloads(python: str) -> list[dict[str, Any]]:
    """The published rows: name, microseconds, those of the reference, whether both agree."""
    found = subprocess.run([python, "-c", _FIND], check=True, capture_output=True, text=True)
    baseline = json.loads(Path(found.stdout.split()[-1], "baseline.json").read_text())
    rows = []
    for each in baseline["results"]:
        times = dict(each["impls"])
        own = next(times.pop(key) for key in _OWN if key in times)
        reference = next(iter(times.values()), None)
        name = f"{each['kernel']}/{each['config']}"
        rows.append({
            "name": name, "published_us": own, "reference_us": reference,
            "agree": reference is not None and abs(reference / own - 1) < AGREE,
            "half": half_of(name), "source": "tirx-kernels baseline.json",
        })  # fmt: skip
    return rows


def class_of(row: dict[str, Any]) -> str:
    """The class that a row counts for."""
    if row["published_us"] < SMALL_US:
        return "small"
    busy: dict[str, float] = {}
    for grid in row.get("grids", []):
        for engine, share in grid.get("busy", {}).items():
            busy[engine] = max(busy.get(engine, 0.0), share)
    if busy.get("tensor pipe", 0.0) < 0.1:
        return "memory-bound"
    kernel = row["name"].partition("/")[0]
    return "attention" if any(each in kernel for each in _ATTENTION) else "GEMM"


def predictions(python: str, names: list[str], limit: float) -> Iterator[dict[str, Any]]:
    """Returns the prediction for each workload; one process predicts several."""
    for first in range(0, len(names), CHUNK):
        chunk = names[first : first + CHUNK]
        with tempfile.TemporaryFile("w+") as output:
            command = [python, str(HERE / "published_tirx.py"), *chunk]
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run(
                    command, stdout=output, stderr=subprocess.DEVNULL, timeout=limit, check=False
                )
            output.seek(0)
            answers = [json.loads(line[4:]) for line in output if line.startswith("ROW ")]
        yield from answers
        done = {answer["name"] for answer in answers}
        for name in chunk:
            if name not in done:
                yield {"name": name, "error": f"did not end within {limit:.0f} s"}


def percentile(values: Iterable[float], share: float) -> float:
    """Interpolated between the two nearest."""
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])


def error_of(row: dict[str, Any]) -> float:
    """Predicted over published, less 1."""
    return float(row["us"] / row["published_us"] - 1)


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Median and 90th percentile of the absolute errors by half, agreement and class."""
    found = []
    for half in ("looked", "once"):
        for agreed in (True, False):
            for kind in ("all", *CLASSES):
                errors = [
                    abs(error_of(row)) for row in rows
                    if "us" in row and "error" not in row and row["half"] == half
                    and (row["agree"] or not agreed) and kind in ("all", class_of(row))
                ]  # fmt: skip
                if errors:
                    found.append({
                        "half": half, "agreeing rows only": agreed, "class": kind,
                        "rows": len(errors), "median": statistics.median(errors),
                        "p90": percentile(errors, 0.9),
                    })  # fmt: skip
    return found


def show(rows: list[dict[str, Any]]) -> None:
    """Prints the rows, what cannot run, and the errors."""
    for row in rows:
        if "error" in row or "us" not in row:
            continue
        mark = "" if row["agree"] else "  sources differ"
        print(
            f"{row['name'][:72]:72} {row['half']:6} published {row['published_us']:9.2f} us, "
            f"model {row['us']:9.2f}, {100 * error_of(row):+6.1f} %, {row['seconds']:5.1f} s{mark}"
        )
    for row in rows:
        if "error" in row:
            print(f"{row['name'][:72]:72} cannot run: {row['error'][:160]}")
    for each in summary(rows):
        where = "sources agree" if each["agreeing rows only"] else "every row"
        print(
            f"{each['half']:6} {where:14} {each['class']:13} {each['rows']:3} rows: median "
            f"{100 * each['median']:.1f} %, 90th percentile {100 * each['p90']:.1f} %"
        )


def commit() -> str:
    """Returns the hash of the commit of this tree."""
    run = subprocess.run(
        ["git", "-C", str(HERE), "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True
    )
    return run.stdout.strip()


def save(path: Path, rows: list[dict[str, Any]]) -> None:
    """Writes the rows and their errors."""
    document = {
        "date": datetime.date.today().isoformat(), "device": "B200 by the timing model",
        "published on": "B200", "commit": commit(), "summary": summary(rows), "rows": rows,
    }  # fmt: skip
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n")


def main() -> None:
    """Predicts what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tirx", default=sys.executable, help="Python with tirx-kernels")
    parser.add_argument("--half", choices=("looked", "once"))
    parser.add_argument("--only", default="", help="part of the names")
    parser.add_argument("--limit", type=float, default=600, help="seconds for eight workloads")
    parser.add_argument("--save", type=Path)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--show", type=Path, help="a file that --save wrote")
    options = parser.parse_args()
    if options.show:
        return show(json.loads(options.show.read_text())["rows"])
    rows = [
        row for row in workloads(options.tirx)
        if options.only in row["name"] and options.half in (None, row["half"])
    ]  # fmt: skip
    if options.list:
        print(*(f"{row['half']:6} {row['name']}" for row in rows), sep="\n")
        return None
    answers = {
        answer["name"]: answer
        for answer in predictions(options.tirx, [row["name"] for row in rows], options.limit)
    }
    rows = [{**row, **answers[row["name"]]} for row in rows]
    show(rows)
    if options.save:
        save(options.save, rows)
    return None


if __name__ == "__main__":
    main()
