#!/usr/bin/env python3
"""Measures how many checks of a small GEMM an hour takes, and that every executor agrees.

Each check runs a GEMM with three schedules in processes of its own. The sizes differ, so that no
check can use the results of another one.

Usage: python benchmark/checks.py [--jobs 1 16] [--count 20] [--same 200]

``--jobs`` are the numbers of workers, and ``--count`` the checks for each of them. The documents of
``--same`` checks by a process pool, by a Dask cluster of this machine and by four shards must be
equal byte by byte.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import tilelang

_KERNEL = """
import tilelang
import tilelang.language as T


@tilelang.jit
def gemm(A, B):
    M, N, K = T.const("M, N, K")
    A: T.Tensor[[M, K], T.float16]
    B: T.Tensor[[K, N], T.float16]
    C = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128) as (column, row):
        a, b = T.alloc_shared((64, 32), T.float16), T.alloc_shared((32, 64), T.float16)
        c = T.alloc_fragment((64, 64), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
            T.copy(A[row * 64, k * 32], a)
            T.copy(B[k * 32, column * 64], b)
            T.gemm(a, b, c)
        T.copy(c, C[row * 64, column * 64])
    return C


def reference(a, b):
    return (a.float() @ b.float()).half()
"""


def checks(count: int, first: int = 0) -> list[str]:
    """Returns checks whose sizes differ."""
    found = []
    for i in range(first, first + count):
        sizes = f"M={64 + 8 * (i % 8)},N={64 + 8 * (i // 8 % 8)},K={64 + 8 * (i // 64)}"
        found.append(
            f"gemm.py::gemm --shapes {sizes} --target sm_80 --inputs none --seeds 1 --threads 1"
        )
    return found


@contextmanager
def _folder() -> Iterator[None]:
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("gemm.py").write_text(_KERNEL)
        try:
            yield
        finally:
            os.chdir(before)


def _pool(words: list[str], workers: int) -> list[dict]:
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(workers, context) as pool:
        return tilelang.check_many(words, pool)


def _dask(words: list[str], workers: int) -> list[dict]:
    import distributed

    with (
        distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        return tilelang.check_many(words, client.get_executor())


def _shards(words: list[str], workers: int) -> list[dict]:
    Path("list.txt").write_text("\n".join(words))
    command = [sys.executable, "-m", "tilelang", "check", "@list.txt", "--json", "out/"]
    jobs = ["--jobs", str(max(workers // 4, 1))]
    running = [
        subprocess.Popen([*command, *jobs, "--shard", f"{i}/4"], stdout=subprocess.DEVNULL)
        for i in range(1, 5)
    ]
    for each in running:
        each.wait()
    merged = subprocess.run(
        [sys.executable, "-m", "tilelang", "merge", "out", "--json"], capture_output=True, text=True
    )
    return [each["document"] for each in json.loads(merged.stdout)["checks"]]


def _timed(name: str, run: Callable[[], list[dict]]) -> tuple[float, list[dict]]:
    begin = time.monotonic()
    found = run()
    seconds = time.monotonic() - begin
    right = sum(each.get("verdict") == "right" for each in found)
    print(f"{name}: {len(found)} checks in {seconds:.1f} s, {right} right, "
          f"{3600 * len(found) / seconds:.0f} an hour", flush=True)  # fmt: skip
    return len(found) / seconds, found


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser()
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--jobs", type=int, nargs="*", default=[1, cores])
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--same", type=int, default=0)
    chosen = parser.parse_args()
    with _folder():
        tilelang.check_many(checks(1, first=511), jobs=1)  # starts the process that all come from
        rates = {}
        for jobs in chosen.jobs:
            words = checks(chosen.count * jobs)
            rates[jobs], _ = _timed(
                f"{jobs} workers", lambda w=words, j=jobs: tilelang.check_many(w, jobs=j)
            )
        if rates:
            first, last = chosen.jobs[0], chosen.jobs[-1]
            print(f"{last} workers do {rates[last] / rates[first]:.2f} times the work of {first}")
        if chosen.same:
            words, texts = checks(chosen.same), {}
            for run in (_pool, _dask, _shards):
                _, found = _timed(run.__name__[1:], lambda r=run: r(words, cores))
                texts[run.__name__] = json.dumps(found)
            print("equal byte by byte" if len(set(texts.values())) == 1 else "DIFFERENT")


if __name__ == "__main__":
    main()
