"""The timing model on kernels of others, beside the times that their authors published for a B200.

    python benchmark/published.py [--tirx VENV/bin/python] [--gluon FOLDER] [--half looked|once]
                                  [--only TEXT] [--save FILE] [--list]
    python benchmark/published.py --show FILE

Two sources have both programs and times. The workloads of the wheel ``tirx-kernels``, and their
microseconds on a B200 beside those of a reference library, are those of its file
``bench_suite/baseline.json``; nothing here depends on it::

    python -m venv VENV && VENV/bin/pip install tirx-kernels apache-tvm nvidia-cuda-cccl torch -e .

No GPU is needed: ``published_tirx.py`` lets the wheel's own benchmarks run on the emulator. The
tutorials of Gluon (``python/tutorials/gluon`` of a checkout of triton-lang/triton) state figures of
a GB200 and of an H100, for which an H200 stands; ``published_gluon.py`` imports their kernels.

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
import hashlib
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from result_files import heading

HERE = Path(__file__).parent
KNOWN = (
    "fp16_bf16_gemm/bf16_4096x4096x4096", "flash_attention4/s1024_h32kv4",
    "nvfp4_gemm/1024x1024x1024", "nvfp4_gemm/4096x4096x4096",
    "deepgemm_sm100_fp8_gemm_1d1d/m4096_n576_k7168",
    "flashinfer_rmsnorm/rms_bf16_m32_h4096_xc_yc_pdl0",
    "act_and_mul/silu_bf16_d16384_t32768", "merge_state/bf16_s16384_h32_d128",
    "mxfp8_quantize/fp16_linear_m4096_k4096", "nvfp4_quantize/fp16_128x4_m16384_k7168",
    "gluon/03-elementwise_add", "gluon/06-blocked_matmul/64x64x64 w4",
    "gluon/06-blocked_matmul/64x64x256 w4", "gluon/06-blocked_matmul/128x128x64 w4",
    "gluon/06-blocked_matmul/128x128x128 w4", "gluon/06-blocked_matmul/128x128x256 w4",
    "gluon/06-blocked_matmul_pipelined/128x128x64 w4", "gluon/05-blocked_matmul/64x256x128 w4",
    "gluon/05-blocked_matmul/128x128x128 w4", "gluon/03-elementwise_add_cpasync",
    "gluon/03-elementwise_add_pipelined/2", "gluon/03-elementwise_add_pipelined/3",
    "gluon/07-matmul_pipelined/128x2 w4", "gluon/07-matmul_pipelined/64x4 w4",
    "gluon/07-matmul_pipelined/K=2048", "gluon/07-persistent_matmul/K=2048",
    "gluon/07-persistent_matmul_pipelined/K=2048", "gluon/08-matmul_warp_specialized/K=2048",
    "gluon/08-matmul_warp_specialized/K=512", "gluon/14-softmax/32768x1024",
    "gluon/14-softmax/32768x4096", "gluon/14-softmax/32768x16384", "gluon/14-softmax/32768x32768",
    "gluon/02-memcpy_1d/2048 R=1", "gluon/02-memcpy_1d/2048 R=2", "gluon/02-memcpy_1d/2048 R=4",
    "gluon/02-memcpy_1d/2048 R=8", "gluon/02-memcpy_1d/2048 R=16",
    "gluon/11-mma_scaled_pipelined_kernel/mxfp8 x mxfp8",
    # The power limit is fitted to it.
    "fp16_bf16_gemm/fp16_16384x16384x16384",
)  # fmt: skip
AGREE, SMALL_US = 0.03, 10.0
CLASSES = ("GEMM", "attention", "memory-bound", "small")
_ATTENTION = ("attention", "attn", "mla", "bsa", "mqa", "gdn", "kda")
_OWN = ("tirx", "tir")
_SAME_PROBLEM = (
    "02-memcpy_1d", "05-blocked_matmul", "05-blocked_matmul_pipelined", "06-blocked_matmul",
    "06-blocked_matmul_pipelined", "07-matmul_pipelined", "07-persistent_matmul", "07-grouped",
)  # fmt: skip
# Programs of the wheel for the same problem, which their configurations name.
_FAMILIES = ("selective_state_update_stp", "selective_state_update_mtp")
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
            "half": half_of(name), "gpu": "B200", "source": "tirx-kernels baseline.json",
        })  # fmt: skip
    return rows


def tutorials(folder: Path) -> list[dict[str, Any]]:
    """Returns the rows of Gluon's tutorials; each has one source."""
    command = [sys.executable, str(HERE / "published_gluon.py"), "--tutorials", str(folder)]
    found = subprocess.run([*command, "--list"], check=True, capture_output=True, text=True)
    rows = [json.loads(line[4:]) for line in found.stdout.splitlines() if line.startswith("ROW ")]
    return [
        {**row, "reference_us": None, "agree": False, "half": half_of(row["name"]),
         "source": "triton-lang/triton, python/tutorials/gluon"}
        for row in rows
    ]  # fmt: skip


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


def predictions(command: list[str], names: list[str], limit: float) -> Iterator[dict[str, Any]]:
    """Returns the prediction for each workload; one that fails ends the process of no other."""
    for name in names:
        with tempfile.TemporaryFile("w+") as output:
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run(
                    [*command, name],
                    stdout=output,
                    stderr=subprocess.DEVNULL,
                    timeout=limit,
                    check=False,
                )
            output.seek(0)
            answers = [json.loads(line[4:]) for line in output if line.startswith("ROW ")]
        yield from answers or [{"name": name, "error": f"did not end within {limit:.0f} s"}]


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
    """Median and 90th percentile of the absolute errors by GPU, half, agreement and class."""
    found = []
    groups = itertools.product(
        ("B200, GB200", "H100"), ("looked", "once"), (True, False), ("all", *CLASSES)
    )
    for gpu, half, agreed, kind in groups:
        errors = [
            abs(error_of(row)) for row in rows
            if "us" in row and "error" not in row and row["half"] == half
            and row["gpu"] in gpu.split(", ")
            and (row["agree"] or not agreed) and kind in ("all", class_of(row))
        ]  # fmt: skip
        if errors:
            found.append({
                "gpu": gpu, "half": half, "agreeing rows only": agreed, "class": kind,
                "rows": len(errors), "median": statistics.median(errors),
                "p90": percentile(errors, 0.9),
            })  # fmt: skip
    return found


def problem_of(name: str) -> str:
    """Names what a row computes if others compute the same in other ways; else ""."""
    kernel, _, config = name.removeprefix("gluon/").partition("/")
    for family in _FAMILIES:
        if kernel.startswith(family):
            return f"{family} {config}"
    if kernel.startswith("11-"):
        return f"11 {config}"
    return kernel if kernel in _SAME_PROBLEM and not config.startswith("K=") else ""


def regrets(rows: list[dict[str, Any]]) -> dict[str, tuple[int, float, float]]:
    """Counts the programs of each problem; tells their spread and what the model's pick loses."""
    problems: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if "us" in row and "error" not in row and problem_of(row["name"]):
            problems.setdefault(problem_of(row["name"]), []).append(row)
    found = {}
    for problem, group in problems.items():
        times = [row["published_us"] for row in group]
        chosen = min(group, key=lambda row: row["us"])
        if len(group) > 2:
            loss = chosen["published_us"] / min(times) - 1
            found[problem] = (len(group), max(times) / min(times), loss)
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
    for problem, (count, spread, loss) in regrets(rows).items():
        print(
            f"{problem[:40]:40} {count:3} programs, slowest / fastest {spread:.2f}: "
            f"the one of the model loses {100 * loss:.1f} %"
        )
    for each in summary(rows):
        where = "sources agree" if each["agreeing rows only"] else "every row"
        print(
            f"{each['gpu']:11} {each['half']:6} {where:14} {each['class']:13} {each['rows']:3} "
            f"rows: median {100 * each['median']:.1f} %, 90th percentile {100 * each['p90']:.1f} %"
        )


def save(path: Path, rows: list[dict[str, Any]]) -> None:
    """Writes the rows and their errors."""
    document = {
        **heading("the timing model"), "published on": "B200, GB200, H100",
        "summary": summary(rows), "regrets": regrets(rows), "rows": rows,
    }  # fmt: skip
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n")


def main() -> None:
    """Predicts what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tirx", help="Python with tirx-kernels")
    parser.add_argument("--gluon", type=Path, help="folder of the tutorials of Gluon")
    parser.add_argument("--half", choices=("looked", "once"))
    parser.add_argument("--only", default="", help="part of the names")
    parser.add_argument("--limit", type=float, default=600, help="seconds for a workload")
    parser.add_argument("--save", type=Path)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--show", type=Path, help="a file that --save wrote")
    options = parser.parse_args()
    if options.show:
        return show(json.loads(options.show.read_text())["rows"])
    suites = []
    if options.tirx:
        suites.append((workloads(options.tirx), [options.tirx, str(HERE / "published_tirx.py")]))
    if options.gluon:
        command = [sys.executable, str(HERE / "published_gluon.py"), "--tutorials"]
        suites.append((tutorials(options.gluon), [*command, str(options.gluon)]))
    results = []
    for known, command in suites:
        rows = [
            row for row in known
            if options.only in row["name"] and options.half in (None, row["half"])
        ]  # fmt: skip
        if options.list:
            print(*(f"{row['half']:6} {row['name']}" for row in rows), sep="\n")
            continue
        names = [row["name"] for row in rows]
        answers = {answer["name"]: answer for answer in predictions(command, names, options.limit)}
        results += [{**row, **answers[row["name"]]} for row in rows]
    if not options.list:
        show(results)
    if options.save:
        save(options.save, results)
    return None


if __name__ == "__main__":
    main()
