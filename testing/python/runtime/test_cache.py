"""The disk cache: what it depends on, damage, and many processes at once."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import tilelang
from tilelang.autotuner import record
from tilelang.runtime import cache, nvrtc
from tilelang.runtime.cache import DiskCache
from tilelang.runtime.nvrtc import Artifact

SOURCE = 'extern "C" __global__ void k(float* x) { x[threadIdx.x] += 1.0f; }\n'
ARTIFACT = Artifact("ptx text \u00fc\n", bytes(range(256)) * 40, "a log\0 with a zero")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("TILELANG_DISABLE_CACHE", raising=False)
    return tmp_path


def entries(folder):
    return sorted(path for path in folder.rglob("*.tlk"))


def count_compilations(monkeypatch):
    calls = []
    real = nvrtc.compile_cuda
    monkeypatch.setattr(nvrtc, "compile_cuda", lambda *args: calls.append(args) or real(*args))
    return calls


def test_an_entry_comes_back_as_it_was(tmp_path):
    store = DiskCache(tmp_path)
    assert store.get("ab12") is None
    store.put("ab12", ARTIFACT)
    assert store.get("ab12") == ARTIFACT
    assert store.get("ab13") is None


def test_the_second_compilation_is_read(folder, monkeypatch):
    calls = count_compilations(monkeypatch)
    first = cache.compile_cached(SOURCE, "sm_90a")
    second = cache.compile_cached(SOURCE, "sm_90a")
    assert first == second and len(calls) == 1 and len(entries(folder)) == 1


def test_threads_that_want_the_same_compile_it_once(folder, monkeypatch):
    calls = count_compilations(monkeypatch)
    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(cache.compile_cached, SOURCE, "sm_90a") for _ in range(4)]
        assert len({job.result().ptx for job in jobs}) == 1
    assert len(calls) == 1


def test_relative_paths_of_lines_are_those_of_the_current_folder(folder, monkeypatch):
    """Reports about a kernel would name the file of an earlier program in another folder."""
    source = f'#line 7 "kernel.py"\n{SOURCE}'
    for name in ("one", "other"):
        (folder / name).mkdir()
        monkeypatch.chdir(folder / name)
        assert str(folder / name / "kernel.py") in cache.compile_cached(source, "sm_90a").ptx
    calls = count_compilations(monkeypatch)
    monkeypatch.chdir(folder)
    absolute = source.replace("kernel.py", "/kernel.py")
    first = cache.compile_cached(absolute, "sm_90a")
    monkeypatch.chdir(folder / "one")
    assert cache.compile_cached(absolute, "sm_90a") == first and len(calls) == 1


def test_source_architecture_and_options_are_told_apart(folder, monkeypatch):
    calls = count_compilations(monkeypatch)
    cache.compile_cached(SOURCE, "sm_90a")
    cache.compile_cached(SOURCE, "sm_80")
    cache.compile_cached(SOURCE, "sm_90a", ("--use_fast_math",))
    cache.compile_cached(SOURCE + " ", "sm_90a")
    assert len(calls) == 4 and len(entries(folder)) == 4


def test_compiler_and_headers_are_part_of_the_key(monkeypatch):
    before = cache.key(SOURCE, "sm_90a", ())
    monkeypatch.setattr(nvrtc, "version", lambda: "99.9")
    other_compiler = cache.key(SOURCE, "sm_90a", ())
    monkeypatch.setattr(cache, "_headers_digest", lambda: "other")
    assert len({before, other_compiler, cache.key(SOURCE, "sm_90a", ())}) == 3


def test_headers_are_digested_by_content(tmp_path, monkeypatch):
    (tmp_path / "tl_templates").mkdir()
    header = tmp_path / "tl_templates" / "a.h"
    monkeypatch.setattr(nvrtc, "template_root", lambda: tmp_path)
    digests = set()
    for text in ("int a;", "int b;", "int a; "):
        header.write_text(text)
        digests.add(cache._headers_digest.__wrapped__())
    header.rename(header.with_name("c.h"))
    digests.add(cache._headers_digest.__wrapped__())
    assert len(digests) == 4


@pytest.mark.parametrize("how", ["truncated", "flipped", "empty", "foreign"])
def test_damage_is_a_miss_and_is_repaired(tmp_path, how):
    store = DiskCache(tmp_path)
    store.put("ab12", ARTIFACT)
    path = store.path("ab12")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    damaged = {"truncated": data[:-7], "flipped": data, "empty": b"", "foreign": b"TLK0" * 99}
    path.write_bytes(damaged[how])
    assert store.get("ab12") is None
    assert store.get_or_make("ab12", lambda: ARTIFACT) == ARTIFACT
    assert store.get("ab12") == ARTIFACT


def test_every_truncation_is_noticed(tmp_path):
    store = DiskCache(tmp_path)
    store.put("ab12", ARTIFACT)
    data = store.path("ab12").read_bytes()
    for length in [*range(120), *range(120, len(data), 97)]:
        store.path("ab12").write_bytes(data[:length])
        assert store.get("ab12") is None


def test_an_entry_under_the_name_of_another_is_a_miss(tmp_path):
    store, other = DiskCache(tmp_path), Artifact("other", b"code", "")
    store.put("ab12", ARTIFACT)
    store.put("cd34", other)
    first, second = store.path("ab12"), store.path("cd34")
    contents = first.read_bytes(), second.read_bytes()
    first.write_bytes(contents[1])
    second.write_bytes(contents[0])
    assert store.get("ab12") is None and store.get("cd34") is None
    assert store.get_or_make("ab12", lambda: ARTIFACT) == ARTIFACT == store.get("ab12")


def test_an_outcome_of_a_search_under_the_name_of_another_is_unknown(folder):
    outcomes = {name: {"latency": float(i), "reason": ""} for i, name in enumerate(("ab", "cd"))}
    for name, outcome in outcomes.items():
        record.store(name, outcome)
        assert record.load(name) == outcome
    path = record._path("ab")
    path.write_bytes(record._path("cd").read_bytes())
    assert record.load("ab") is None and record.load("cd") == outcomes["cd"]


def test_the_folder_can_be_chosen(folder, tmp_path):
    chosen = tmp_path / "chosen"
    tilelang.set_cache_dir(chosen)
    assert tilelang.get_cache_dir() == chosen and str(chosen) == tilelang.env.TILELANG_CACHE_DIR
    cache.compile_cached(SOURCE, "sm_90a")
    assert len(entries(chosen)) == len(entries(folder)) == 1
    tilelang.env.env.TILELANG_CACHE_DIR = str(tmp_path / "other")
    cache.compile_cached(SOURCE, "sm_90a")
    tilelang.env.TILELANG_CACHE_DIR = tmp_path / "third"
    cache.compile_cached(SOURCE, "sm_90a")
    assert len(entries(tmp_path / "other")) == len(entries(tmp_path / "third")) == 1
    code = "import tilelang; print(tilelang.get_cache_dir())"
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert told.stdout.strip() == str(tmp_path / "third")
    tilelang.set_cache_dir(None)
    assert tilelang.get_cache_dir().name == "tilelang-sm100"
    with pytest.raises(tilelang.errors.ConfigError, match="a text or a path, not list"):
        tilelang.set_cache_dir(["a"])
    with pytest.raises(AttributeError, match="no setting is called 'cache'"):
        tilelang.env.env.cache = 1


def test_an_unwritable_folder_only_makes_misses(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    store = DiskCache(blocked)
    assert store.get_or_make("ab12", lambda: ARTIFACT) == ARTIFACT
    assert store.get("ab12") is None


def test_switches(folder, monkeypatch):
    tilelang.disable_cache()
    try:
        assert not tilelang.is_cache_enabled()
        cache.compile_cached(SOURCE, "sm_90a")
        assert entries(folder) == []
    finally:
        tilelang.enable_cache()
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    assert not tilelang.is_cache_enabled()
    cache.compile_cached(SOURCE, "sm_90a")
    assert entries(folder) == []


def test_abandoned_files_are_removed_and_recent_ones_kept(tmp_path):
    store = DiskCache(tmp_path)
    store.put("ab12", ARTIFACT)
    old, recent = (store.path("ab12").parent / name for name in (".new-old", ".new-recent"))
    old.write_text("x")
    recent.write_text("x")
    hours_ago = time.time() - 7200
    os.utime(old, (hours_ago, hours_ago))
    store.put("ab34", ARTIFACT)
    assert not old.exists() and recent.exists()


WRITER = """
import sys
from pathlib import Path
from tilelang.runtime.cache import DiskCache
from tilelang.runtime.nvrtc import Artifact

store, seed, rounds = DiskCache(Path(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3])
print("ready", flush=True)
for i in range(rounds):
    name = f"ab{i % 7}"
    # What is stored under a name tells the name; its size differs between writers.
    store.put(name, Artifact(name, name.encode() * (20000 + seed), str(seed)))
    found = store.get(f"ab{(i + 3) % 7}")
    if found is not None:
        expected = f"ab{(i + 3) % 7}"
        assert found.ptx == expected, found.ptx
        assert found.cubin == expected.encode() * (20000 + int(found.log)), "mixed content"
"""


def start_writer(folder, seed, rounds):
    command = [sys.executable, "-c", WRITER, str(folder), str(seed), str(rounds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_many_processes_write_and_read_at_once(tmp_path):
    writers = [start_writer(tmp_path, seed, 120) for seed in range(4)]
    for writer in writers:
        _, complaints = writer.communicate(timeout=120)
        assert writer.returncode == 0, complaints
    store = DiskCache(tmp_path)
    assert all(store.get(f"ab{i}").ptx == f"ab{i}" for i in range(7))
    assert list(tmp_path.rglob(".new-*")) == []


def test_killed_writers_leave_no_damage(tmp_path):
    for attempt in range(3):
        writer = start_writer(tmp_path, attempt, 100000)
        assert writer.stdout.readline() == "ready\n"
        time.sleep(0.03 * (attempt + 1))
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
        for path in entries(tmp_path):
            assert DiskCache(tmp_path).get(path.stem) is not None
    assert entries(tmp_path)


def checked(name: str, body: bytes) -> bytes:
    """An entry with a valid checksum."""
    return b"TLK2" + hashlib.sha256(name.encode() + b"\0" + body).digest() + body


def headed(fields: object, cubin: bytes = b"") -> bytes:
    head = json.dumps(fields).encode()
    return len(head).to_bytes(8, "little") + head + cubin


BROKEN = {
    "nothing": b"",
    "a short length": b"\x01",
    "a huge length": b"\xff" * 8 + b"{}",
    "no json": headed({})[:8] + b"{]",
    "no text": (3).to_bytes(8, "little") + b"\xff\xfe\xfd",
    "a list": headed([1, 2]),
    "a number": headed(3),
    "nesting": (200000).to_bytes(8, "little") + b"[" * 200000,
    "missing fields": headed({"cubin": 0}),
    "wrong types": headed({"ptx": 3, "cubin": 0, "log": None}),
    "no integer": headed({"ptx": "", "cubin": True, "log": ""}),
    "too little code": headed({"ptx": "", "cubin": 7, "log": ""}, b"abc"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_content_with_a_valid_checksum_is_a_miss(tmp_path, kind):
    store = DiskCache(tmp_path)
    store.put("ab12", ARTIFACT)
    store.path("ab12").write_bytes(checked("ab12", BROKEN[kind]))
    assert store.get("ab12") is None
    assert store.get_or_make("ab12", lambda: ARTIFACT) == ARTIFACT == store.get("ab12")


def make_fifo(path):
    os.mkfifo(path)


def make_loop(path):
    path.symlink_to(path)


IN_PLACE = {
    "fifo": make_fifo,
    "symbolic link to itself": make_loop,
    "directory": lambda path: path.mkdir(),
    "device without end": lambda path: path.symlink_to("/dev/zero"),
    "terminal": lambda path: path.symlink_to("/dev/tty"),
    "dangling link": lambda path: path.symlink_to(path.parent / "none"),
}


@pytest.mark.parametrize("kind", IN_PLACE)
def test_what_is_no_file_in_place_of_an_entry_is_a_miss(tmp_path, kind):
    store = DiskCache(tmp_path)
    path = store.path("ab12")
    path.parent.mkdir()
    IN_PLACE[kind](path)
    files = len(os.listdir("/proc/self/fd"))
    assert store.get("ab12") is None
    assert store.get_or_make("ab12", lambda: ARTIFACT) == ARTIFACT
    assert store.get("ab12") == (None if kind == "directory" else ARTIFACT)
    assert len(os.listdir("/proc/self/fd")) == files


@pytest.mark.parametrize("kind", ["file", "fifo", "symbolic link to itself"])
def test_a_folder_that_is_none_makes_reads_misses(tmp_path, kind):
    folder = tmp_path / "cache"
    {"file": lambda path: path.write_text(""), **IN_PLACE}[kind](folder)
    store = DiskCache(folder)
    assert store.get_or_make("ab12", lambda: ARTIFACT) == ARTIFACT
    assert store.get("ab12") is None
