"""Medians over several runs of a benchmark."""

import runpy
from pathlib import Path

MEDIANS = runpy.run_path(str(Path(__file__).parents[3] / "benchmark" / "medians.py"))["medians"]


def run(ratio: str, tflops: str, schedule: str = "gemm(m=64)") -> str:
    """What a benchmark prints."""
    return (
        f"cuBLAS, TFLOP/s      {tflops}\nplain: 4,8\n128 threads       {ratio}  1.00   {schedule}\n"
    )


def test_numbers_are_medians():
    """Of three runs, each number by itself, as precise as it was printed; names stay."""
    lines = MEDIANS([run("0.90", "600"), run("1.00", "640"), run("0.97", "580")])
    assert lines == [
        "cuBLAS, TFLOP/s  600",
        "plain: 4,8",
        "128 threads  0.97  1.00  gemm(m=64)",
    ]


def test_words_that_differ():
    """A schedule that only some runs chose is no number to take a median of."""
    lines = MEDIANS([run("0.90", "600"), run("1.00", "640", "gemm(m=128)")])
    assert lines[-1] == "128 threads  0.95  1.00  gemm(m=64) or gemm(m=128)"


def test_row_of_some_runs():
    """A row that a run lacks says so."""
    lines = MEDIANS([run("0.90", "600"), "128 threads  1.10  1.00  gemm(m=64)\n"])
    assert lines[0] == "cuBLAS, TFLOP/s  600  (1 of 2 runs)"
    assert lines[-1] == "128 threads  1.00  1.00  gemm(m=64)"


def test_row_that_the_first_run_lacks():
    """It comes behind those of the first, with the median of the runs that have it."""
    lines = MEDIANS(["a  1", "b  4\na  3", "a  2\nb  7\nb  9"])
    assert lines == ["a  2", "b  6  (2 of 3 runs)", "b #2  9  (1 of 3 runs)"]


def test_rows_of_one_name():
    """Rows of the same name are told apart by their order."""
    assert MEDIANS(["a  1\na  5", "a  3\na  9"]) == ["a  2", "a #2  7"]
