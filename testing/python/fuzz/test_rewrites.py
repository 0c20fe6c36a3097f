"""Random gemms as one first writes them: each compiles, and gives the exact numbers whatever other
tiles, grids and copies the compiler chooses.

``python -m fuzz.rewrites --seeds 0:10000 --jobs 16`` (in testing/python) runs more of them.
"""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest
import torch
from fuzz.outcome import load
from fuzz.rewrites import check, generate, model, source
from fuzz.rewrites.reference import Racy, expected, initial_values

from tilelang.jit.lower import lower

_SEEDS, _BATCH = 30, 5
_REACHING_SEEDS = 200
#: What remarks of rewrites contain, and how many of these seeds have such a remark at least.
_REWRITES = {
    "sm_90a": {
        "the best tiles depend": 4,
        "threads compute": 4,
        "blocks are numbered by panels": 2,
        "as by T.Persistent": 1,
        "another launch copies": 4,
        "can be copied by vectors": 2,
        "compute a block": 5,
    },
    "sm_100a": {
        "elements instead of": 10,
        "share the iterations": 1,
        "another launch copies": 4,
        "can be copied by vectors": 4,
    },
}
#: Those of rewrites that make blocks compute other elements.
_OTHER_BLOCKS = (
    "the best tiles",
    "threads compute",
    "columns compute",
    "rows instead",
    "Persistent",
    "elements instead of",
)


@pytest.mark.budget(14)  # it finds what nobody thought of
@pytest.mark.parametrize("first", range(0, _SEEDS, _BATCH))
def test_batch(first):
    for seed in range(first, first + _BATCH):
        program = generate.generate(seed)
        outcome = check.run(program, name=f"seed_{seed}")
        text = f"seed {seed}, {program.target}: {outcome}\n{source.kernel(program)}"
        assert outcome.kind == "right", text


def _program(**changes) -> model.Program:
    """C = A B^T of one block, in the first columns of a tensor like A."""
    tensors = (
        model.Tensor("A", ("64", "32"), "float16"),
        model.Tensor("B", ("32", "32"), "float16"),
        model.Tensor("C", ("64", "32"), "float16", written=True),
    )
    tiles = (
        model.Tile("a", (64, 16), "float16", "shared"),
        model.Tile("b", (32, 16), "float16", "shared"),
        model.Tile("c", (64, 32), "float32", "fragment"),
    )
    loop = (
        model.Copy(model.Corner("A", ("by * 64", "k * 16"), (0, 1)), "a"),
        model.Copy(model.Corner("B", ("bx * 32", "k * 16"), (0, 1)), "b"),
        model.Gemm("a", "b", "c", False, True),
    )
    body = (
        model.Clear("c"),
        model.Loop("k", "2", 2, loop),
        model.Copy("c", model.Corner("C", ("by * 64", "bx * 32"), (0, 1))),
    )
    fields = {
        "seed": 0, "target": "sm_90a", "sm_count": 0, "tensors": tensors, "tiles": tiles,
        "grid": (("bx", "1"), ("by", "1")), "threads": 128, "body": body, "symbols": (),
        "calls": (model.Call({}),),
    }  # fmt: skip
    return model.Program(**{**fields, **changes})


def test_the_reference_multiplies():
    program = _program()
    before = initial_values(program, program.calls[0])
    after = expected(program, program.calls[0]).views["C"].values()
    a, b = before["A"].view(64, 32), before["B"].view(32, 32)
    assert torch.equal(after, a @ b.T)


def test_programs_whose_blocks_race_are_none():
    """The second block loads rows that the first one stores over."""
    in_place = model.Call({}, {"C": ("A", 0)})
    expected(_program(calls=(in_place,)), in_place)
    shifted = model.Copy("c", model.Corner("C", ("by * 16", "0"), (0, 1)))
    two = _program(calls=(in_place,), grid=(("bx", "1"), ("by", "2")))
    two = dataclasses.replace(two, body=(*two.body[:2], shifted))
    with pytest.raises(Racy):
        expected(two, in_place)


def test_wrong_numbers_are_found(monkeypatch):
    """The comparison notices a column that a kernel does not store."""
    program = _program()
    assert check.run(program).kind == "right"
    narrow = dataclasses.replace(
        program, body=(*program.body[:2], model.Copy("c", model.Corner("C", ("0", "1"), (0, 1))))
    )
    text = source.module(narrow)
    monkeypatch.setattr(source, "module", lambda _: text)
    outcome = check.run(program)
    assert outcome.kind == "wrong" and "elements of C are wrong" in outcome.detail


@pytest.fixture(autouse=True)
def one_thread():
    """The reference works on small tensors, where threads of torch wait for one another."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def unverified(monkeypatch):
    """Compiles faster: the kernels do not run."""
    monkeypatch.setenv("TILELANG_VERIFY_SYNCHRONIZATION", "0")


def _remarks(program, folder) -> str:
    path = folder / f"seed_{program.seed}.py"
    path.write_text(source.module(program))
    remarks = lower(load(path), check.target_of(program), {}).remarks
    return "\n".join(r.message for r in remarks if r.message.startswith("T.Kernel: "))


def test_seeds_reach_rewrites(tmp_path, unverified):
    """Most plain gemms are rewritten where the target has rewrites; each rewrite takes place."""
    plain = {target: Counter() for target in _REWRITES}
    reached = {target: Counter() for target in _REWRITES}
    for seed in range(_REACHING_SEEDS):
        program = generate.generate(seed)
        if program.target not in _REWRITES:
            continue
        text = _remarks(program, tmp_path)
        wanted = _REWRITES[program.target]
        reached[program.target].update(rewrite for rewrite in wanted if rewrite in text)
        plain[program.target][bool(text)] += program.kind == "plain"
    for target, wanted in _REWRITES.items():
        assert plain[target][True] > 3 * plain[target][False], (target, plain)
        assert all(reached[target][text] >= least for text, least in wanted.items()), reached


def test_loops_as_long_as_the_block_says_keep_their_tile(tmp_path, unverified):
    """A program whose loop ends by the index of its block keeps its grid."""
    programs = map(generate.generate, range(300))
    triangular = [program for program in programs if program.kind == "triangular loop"]
    assert len(triangular) > 5
    for program in triangular:
        text = _remarks(program, tmp_path)
        assert not any(rewrite in text for rewrite in _OTHER_BLOCKS), text


def test_values_of_the_block_stay_in_other_tiles(tmp_path):
    """A program that computes with the index of its block has the same results in other tiles."""
    rewritten = 0
    for seed in range(150):
        program = generate.generate(seed)
        if program.kind != "value of block":
            continue
        if any(rewrite in _remarks(program, tmp_path) for rewrite in _OTHER_BLOCKS):
            outcome = check.run(program)
            assert outcome.kind == "right", f"seed {seed}: {outcome}"
            rewritten += 1
    assert rewritten
