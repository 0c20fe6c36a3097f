"""Random programs compile, run without a report under every schedule, and give the exact numbers.

``python -m fuzz.programs --seeds 0:20000 --jobs 2`` (in testing/python) runs more of them, and
shrinks those that fail.
"""

from __future__ import annotations

import dataclasses

import pytest
import torch
from fuzz.outcome import Outcome, load
from fuzz.programs import check, generate, shrink, source

_SEEDS, _BATCH = 90, 10


@pytest.mark.budget(10)  # it finds what nobody thought of
@pytest.mark.parametrize(
    ("first", "in_pairs"),
    [(first, False) for first in range(0, _SEEDS, _BATCH)]
    + [(first, True) for first in range(0, _SEEDS // 3, _BATCH)],
)
def test_batch(first, in_pairs):
    """Of a batch hardly any is refused: what the generator makes is meant to compile."""
    refused = []
    for seed in range(first, first + _BATCH):
        program = generate.generate(seed, in_pairs=in_pairs)
        outcome = check.run(program, name=f"seed_{seed}")
        refused += [seed] * (outcome.kind == "refused")
        text = f"seed {seed}, {program.target}: {outcome}\n{source.kernel(program)}"
        assert outcome.kind in ("right", "refused"), text
    assert len(refused) <= _BATCH // 3, refused


def _first_program_with(kind, seeds=range(200)):
    for seed in seeds:
        program = generate.generate(seed)
        if any(isinstance(s, kind) for s in program.body):
            return program
    raise AssertionError(f"no program has a {kind.__name__}")


def test_wrong_numbers_are_found():
    """The comparison notices one element that the program writes and the reference does not."""
    from fuzz.programs import model

    tile = model.Buffer("f1", (8, 16), "float32", "fragment")
    out = model.Buffer("C2", (8, 16), "float32", "output")
    body = (
        model.Fill(model.whole(tile), 1),
        model.Fill(model.Region(tile, (model.Linear(3), model.Linear(5)), (1, 1)), 2),
        model.Copy(model.whole(tile), model.whole(out)),
    )
    program = model.Program("sm_100a", (1,), 32, body)
    assert check.run(program).kind == "right"
    honest = check.expected
    try:
        check.expected = lambda p: honest(dataclasses.replace(p, body=(body[0], body[2])))
        outcome = check.run(program)
    finally:
        check.expected = honest
    assert outcome.kind == "wrong"
    assert "1 of 128 elements of C2" in outcome.detail and "(3, 5)" in outcome.detail


def test_shrinking_keeps_the_cause():
    """A read beyond an argument that is refused, among statements that do not matter."""
    from fuzz.programs import model

    program = _first_program_with(model.Copy)
    given = model.Buffer("A901", (4, 4), "float32", "input")
    tile = model.Buffer("f902", (4, 8), "float32", "fragment")
    region = model.Region(given, (model.Linear(), model.Linear(4)), (4, 8))  # it begins outside
    bad = model.Copy(region, model.whole(tile))
    program = dataclasses.replace(
        program,
        body=(*program.body, bad),
        ranges={**program.ranges, "A901": (0, 3, 1.0)},
    )
    outcome = check.run(program)
    assert outcome.kind == "refused" and "BoundsError" in outcome.cause
    assert shrink.shrink(program, outcome).body == (bad,)


def test_a_reproducer_stands_alone(tmp_path):
    program = generate.generate(1)
    path = tmp_path / "reproducer.py"
    path.write_text(shrink.reproducer(program, Outcome("wrong", "cause", "detail"), 1))
    assert load(path) is not None


def test_casts_of_the_reference():
    """Rounding in float64 agrees with torch's own conversions."""
    from fuzz.programs.formats import FORMATS, TORCH, rounded

    values = (torch.randn(4000) * torch.exp2(torch.randint(-12, 8, (4000,)))).float()
    for name, form in FORMATS.items():
        if form.is_float:
            kept = values[values.abs() < form.highest / 2]
            assert torch.equal(rounded(kept.double(), name), kept.to(TORCH[name]).double()), name
