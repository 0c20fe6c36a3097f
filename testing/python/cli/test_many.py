"""Many checks: the same documents by every executor and by shards, kept verdicts, time limits."""

from __future__ import annotations

import concurrent.futures
import json
import multiprocessing
from pathlib import Path

import pytest
from cli.documents import command, document, validate

import tilelang
from tilelang.checks.check import check_of
from tilelang.checks.kept import KeptVerdicts
from tilelang.errors import UserError

ROOT = Path(__file__).resolve().parents[3]
KERNEL = """
import tilelang
import tilelang.language as T
from factors import TWO


@tilelang.jit
def scale(X, factor: T.float32):
    N = T.const("N")
    X: T.Tensor[[N], T.float32]
    Y = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, 64), threads=64) as block:
        for i in T.Parallel(64):
            Y[block * 64 + i] = X[block * 64 + i] * factor * TWO
    return Y


def scale_reference(x, factor):
    return 2 * x * factor
"""
#: 77 and 200 elements on two architectures; the last check cannot run.
CHECKS = [
    *(f"k.py::scale --shapes N={n},factor=3 --target {target} --inputs none --seeds 0"
      for n in (77, 200) for target in ("sm_80", "sm_90a")),
    "missing.py",
]  # fmt: skip


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("k.py").write_text(KERNEL)
    Path("factors.py").write_text("TWO = 2.0\n")
    Path("checks.txt").write_text("# all\n" + "\n".join(CHECKS))


def _texts(found: list[dict]) -> list[str]:
    return [json.dumps(validate(each), indent=1) for each in found]


def test_every_executor_gives_the_same_documents() -> None:
    """Processes of ours, of concurrent.futures, and of Dask; four shards that are merged."""
    expected = _texts(tilelang.check_many(CHECKS, jobs=2))
    verdicts = [json.loads(each).get("verdict") for each in expected]
    assert verdicts == ["right"] * 4 + [None] and "no file" in json.loads(expected[-1])["error"]
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(2, context) as pool:
        assert _texts(tilelang.check_many(CHECKS, pool)) == expected
    whole = json.loads(command("check @checks.txt --jobs 2 --json").stdout)
    assert _texts([each["document"] for each in whole["checks"]]) == expected
    for i in range(1, 5):
        command(f"check @checks.txt --shard {i}/4 --json out/")
    merged = command("merge out --json")
    assert merged.exit_code == 2 and json.loads(merged.stdout) == validate(whole)
    Path("out/checks-2-of-4.json").unlink()
    assert "1 of 5 checks are missing: numbers 2" in document("merge out", 2)["error"]


def test_dask() -> None:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as dask,
        distributed.Client(dask) as client,
    ):
        found = _texts(tilelang.check_many(CHECKS[:2], client.get_executor()))
    assert found == _texts(tilelang.check_many(CHECKS[:2], jobs=2))


def test_kept_verdicts_hold_until_a_file_changes(tmp_path: Path) -> None:
    kept, told = tmp_path / "kept", []
    first = tilelang.check_many(CHECKS[:1], cache=kept)
    assert {each["path"] for each in first[0]["files"]} == {"k.py", "factors.py"}
    (entry,) = kept.rglob("*.json")
    again = tilelang.check_many(CHECKS[:1] * 2, cache=kept, told=lambda *each: told.append(each))
    assert again == first * 2 and sorted(each[0] for each in told) == [0, 1]
    Path("factors.py").write_text("TWO = 2.5\n")
    assert tilelang.check_many(CHECKS[:1], cache=kept)[0]["verdict"] == "wrong"
    Path("factors.py").write_text("TWO = 2.0\n")
    store = KeptVerdicts(kept)
    store.put(check_of(CHECKS[0]), first[0])
    assert store.get(check_of(CHECKS[0])) == first[0]
    entry.write_text(entry.read_text().replace('"right"', '"wrong"'))
    assert store.get(check_of(CHECKS[0])) is None


def test_a_program_that_hangs_or_dies_ends_alone() -> None:
    Path("hang.py").write_text("import time\ntime.sleep(60)\n")
    Path("die.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    (hang,) = tilelang.check_many(["hang.py"], time_limit=2)
    die, right = tilelang.check_many(["die.py", CHECKS[0]], jobs=2)
    assert "no result after 2 s" in hang["error"] and right["ok"]
    assert "before there was a verdict" in die.get("error", "") or die["verdict"] == "failed"


def test_a_program_that_is_checked_cannot_start_checks() -> None:
    """It would run again in each of its checks, without end."""
    Path("self.py").write_text(
        "import tilelang\n\ntilelang.check_many(['self.py'] * 2, jobs=2)\n" + KERNEL
    )
    found = tilelang.check_many(["self.py", "self.py::scale --shapes N=9,factor=3"], jobs=2)
    assert all("cannot start checks itself" in each["error"] for each in found)


def test_the_words_of_many_checks() -> None:
    Path("s.py").write_text("import sys\nassert sys.argv[1:] == ['--x', '3']\n")
    found = json.loads(command("check s.py s.py --jobs 1 --json -- --x 3").stdout)
    assert [each["check"] for each in found["checks"]] == ["s.py -- --x 3"] * 2
    assert "launches no kernel" in found["checks"][0]["document"]["error"]
    assert "expected a number" in command("check s.py --shard 5/4").output
    assert "no results of a check in" in document("merge .", 2)["error"]
    with pytest.raises(UserError, match="command line"):
        tilelang.check_many([""])
    with pytest.raises(UserError, match="positive"):
        tilelang.check_many([], jobs=0)


def test_the_action_names_options_that_exist() -> None:
    yaml = pytest.importorskip("yaml")
    action = yaml.safe_load((ROOT / ".github/actions/check/action.yml").read_text())
    (step,) = [each for each in action["runs"]["steps"] if each.get("id") == "check"]
    text = command("check --help").output
    for option in ("--shard", "--timeout", "--cache", "--jobs", "--json"):
        assert option in step["run"] and option in text
