"""Target descriptions and the architecture table."""

from __future__ import annotations

import pytest

from tilelang import target
from tilelang.errors import TargetError


@pytest.mark.parametrize(
    ("description", "arch"),
    [
        ("sm_80", "sm_80"),
        ("sm_90a", "sm_90a"),
        ("sm_90", "sm_90a"),
        ("sm_100", "sm_100a"),
        (" sm_100a ", "sm_100a"),
        ("cuda -arch=sm_90a", "sm_90a"),
        ({"kind": "cuda", "arch": "sm_90a", "code": ["sm_90a"]}, "sm_90a"),
    ],
)
def test_descriptions(description, arch):
    assert str(target.resolve(description)) == arch


@pytest.mark.parametrize("description", ["sm_70", "hip", "", 90, {"kind": "llvm"}, "cuda -arch=x"])
def test_unknown_targets_list_the_known_ones(description):
    with pytest.raises(TargetError, match="unknown target") as caught:
        target.resolve(description)
    assert '"sm_100a"' in str(caught.value)


@pytest.mark.parametrize("description", ["auto", "cuda", None, {"kind": "cuda"}])
def test_automatic_choice_follows_the_environment(description, monkeypatch):
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "sm_80")
    assert str(target.resolve(description)) == "sm_80"


def test_automatic_choice_without_a_gpu_is_blackwell(monkeypatch):
    monkeypatch.delenv("TILELANG_DEFAULT_TARGET", raising=False)
    monkeypatch.setattr(target, "device_target", lambda: None)
    assert str(target.resolve("auto")) == "sm_100a"


@pytest.mark.parametrize(
    ("capability", "arch"),
    [
        ((8, 0), "sm_80"),
        ((8, 9), "sm_80"),
        ((9, 0), "sm_90a"),
        ((10, 0), "sm_100a"),
        ((10, 3), "sm_103a"),
        ((7, 5), None),
        ((12, 0), "sm_120a"),
        ((12, 1), None),
        ((0, 0), None),
    ],
)
def test_device_capability_selects_the_target(capability, arch):
    fitting = [
        name for name, row in target.architectures().items() if target._runs_on(row, capability)
    ]
    assert fitting == ([arch] if arch else [])


def test_limits_of_the_programming_guide():
    table = target.architectures()
    kib = {name: row.shared_memory_per_block // 1024 for name, row in table.items()}
    data_center = dict.fromkeys(("sm_90a", "sm_100a", "sm_103a"), 227)
    assert kib == {"sm_80": 163, **data_center, "sm_120a": 99}
    assert [name for name, row in table.items() if row.has_tcgen05] == ["sm_100a", "sm_103a"]
    assert [name for name, row in table.items() if row.has_tcgen05_integers] == ["sm_100a"]
    assert [name for name, row in table.items() if row.has_wgmma] == ["sm_90a"]
    blackwells = ["sm_100a", "sm_103a", "sm_120a"]
    assert [name for name, row in table.items() if row.has_swizzle_atomicity] == blackwells
    assert table["sm_100a"].tmem_columns == 512


def test_targets_count_the_multiprocessors_of_their_gpu():
    hopper = target.resolve("sm_90a")
    assert target.with_sm_count(hopper, 114).sm_count == 114
    assert str(target.with_sm_count(hopper, 114)) == "sm_90a"
    with pytest.raises(ValueError, match="at least one SM"):
        target.with_sm_count(hopper, 0)


def test_targets_are_not_made_by_their_class():
    with pytest.raises(TypeError, match="resolve"):
        target.Target("sm_90a")
