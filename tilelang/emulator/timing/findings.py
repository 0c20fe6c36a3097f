"""Rules that find what makes a launch slow: a line, a cost and the expected gain.

The gain of a rule is a bound: the share of the critical path, or of an engine, that it is about.
Where the launch can be timed again, it is no more than what the model saves without that cost, with
as many CTAs an SM as the change would leave. A change costs something, too, so that every gain is
"up to".
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from .lines import Line, path_steps, place_of

if TYPE_CHECKING:
    from .report import Report

_MOST = 5
#: Smaller gains are not worth a finding.
_LEAST = 0.02
#: An engine that is busy for this share is the limit.
_LIMIT = 0.8
#: Shared memory of an SM, and the most of a CTA; each CTA takes some of its own (CUDA programming
#: guide, technical specifications per compute capability).
_SHARED_BYTES = {
    "sm_80": (167936, 166912), "sm_90a": (233472, 232448), "sm_100a": (233472, 232448),
}  # fmt: skip
_RESERVED_BYTES = 1024
#: Registers of an SM.
_REGISTERS = 65536
#: What a reason on the critical path would be without.
_COSTS = {
    "mbarrier: TMA": "memory", "async group": "memory", "memory": "memory",
    "tensor pipe": "tensor pipe", "mbarrier: tensor": "tensor pipe", "pipe": "MUFU",
    "named barrier": "barriers", "mbarrier: threads": "barriers",
}  # fmt: skip
#: A line with so much of the critical path is named, whether a rule knows what to do or not.
_NAMED = 0.15
_ARITHMETIC = ("dependency", "pipe", "issue", "not selected")
_WIDTHS = {"8": 1, "16": 2, "32": 4, "64": 8, "128": 16}
_ACCESS = re.compile(r"(?:ld|st)\.(?:\w+\.)*?global(?:\.\w+)*?(\.v\d)?\.[bfus](\d+)$")


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing to change.

    Attributes:
        kind: in two words, as ``"bank conflicts"``.
        text: what is wrong and what to do.
        place: the source line, ``file.py:12``; "" where it is about the whole launch.
        gain: share of the grid's time that can be saved at most, 0 to 1.
        bound: whether it only follows from where the time goes; False: the launch was timed again
            without the very cost that the finding is about.
    """

    kind: str
    text: str
    place: str
    gain: float
    bound: bool = True

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place else ""
        return f"{where}{self.text} (up to {100 * self.gain:.0f} %)"


class _Facts:
    """Values that several rules use."""

    def __init__(self, report: Report) -> None:
        self.report, self.timing = report, report.timing

    @cached_property
    def engines(self) -> dict[str, float]:
        timing = self.timing
        return dict(zip(timing.engine_name, map(float, timing.engine_share), strict=True))

    def engine(self, name: str) -> float:
        return self.engines.get(name, 0.0)

    @cached_property
    def path(self) -> dict[tuple[str, tuple[str, int]], float]:
        """Shares of the critical path by reason and place."""
        steps = path_steps(self.timing, self.report.reasons)
        total = sum(step.cycles for step in steps) or 1
        shares: dict[tuple[str, tuple[str, int]], float] = {}
        for step in steps:
            key = step.reason, step.place
            shares[key] = shares.get(key, 0.0) + step.cycles / total
        return shares

    def on_path(self, *reasons: str) -> float:
        return sum(share for (reason, _), share in self.path.items() if reason in reasons)

    def places(self, *reasons: str) -> dict[tuple[str, int], float]:
        """Shares of the critical path by place, for some reasons."""
        shares: dict[tuple[str, int], float] = {}
        for (reason, at), share in self.path.items():
            if reason in reasons:
                shares[at] = shares.get(at, 0.0) + share
        return shares

    def worst(self, *reasons: str) -> Line | None:
        """Returns the line with most of the critical path for some reasons."""
        return self.largest(self.places(*reasons))

    def largest(self, shares: dict[tuple[str, int], float]) -> Line | None:
        """Returns the line of the largest share."""
        if not shares:
            return None
        at = max(shares, key=lambda key: shares[key])
        return next((x for x in self.report.lines if (x.file, x.number) == at), None)

    def at_most(self, bound: float, cost: str) -> float:
        """Returns the gain, limited by a run without the cost if that can be tried."""
        gain = self.report.gain_without(cost) if bound >= _LEAST else None
        return bound if gain is None else min(bound, gain)

    @property
    def tensor_work(self) -> bool:
        return self.timing.tensor_flops > 0

    @property
    def memory_limit(self) -> float:
        return max(self.engine("HBM"), self.engine("L2"))


def _place(line: Line | None) -> str:
    return line.place if line else ""


def _conflicts(facts: _Facts) -> Iterator[Finding]:
    lines = facts.report.lines
    wavefronts, conflicts = sum(x.wavefronts for x in lines), sum(x.conflicts for x in lines)
    if not conflicts:
        return
    worst = max(lines, key=lambda line: line.conflicts)
    bound = facts.engine("shared memory") * conflicts / wavefronts
    gain = facts.report.gain_without("bank conflicts")
    times = worst.wavefronts / (worst.wavefronts - worst.conflicts)
    what = worst.named or "accesses"
    yield Finding(
        "bank conflicts",
        f"bank conflicts make {what} take {times:.1f} times the wavefronts of shared "
        f"memory; {100 * conflicts / wavefronts:.0f} % of all are conflicts: swizzle or pad the "
        "buffer",
        worst.place, bound if gain is None else gain, gain is None,
    )  # fmt: skip


def _pipeline(facts: _Facts) -> Iterator[Finding]:
    reasons = ("mbarrier: TMA", "async group")
    share = facts.on_path(*reasons)
    limit = facts.memory_limit
    if limit >= _LIMIT or share < _LEAST:
        return
    ctas = _ctas_with_a_stage_more(facts)
    fewer = 0 < ctas < facts.timing.ctas_per_sm
    # Fewer CTAs an SM are modelled by registers that leave no room for another one.
    registers = _registers_for(facts, ctas) if fewer else 0
    gain = facts.report.gain_without("memory", registers)
    line = facts.worst(*reasons)
    idle = f"tensor pipe idle {100 * (1 - facts.engine('tensor pipe')):.0f} %: " \
        if facts.tensor_work else ""  # fmt: skip
    text = "one more stage could hide it"
    if ctas == 0:
        text = (
            "there is no room for one more stage: smaller tiles, or other tiles kept in registers"
        )
    elif fewer:
        text += f", although it leaves {ctas} instead of {facts.timing.ctas_per_sm} CTAs an SM"
    yield Finding(
        "pipeline depth",
        f"{idle}warps wait for copies that come too late; {text}",
        _place(line), min(share if gain is None else gain, 1 - limit),
    )  # fmt: skip


def _ctas_with_a_stage_more(facts: _Facts) -> int:
    """Returns CTAs that fit an SM if a loop's copies have one stage more; 0 if none fits.

    A stage is what the CTA moves through L2 by turns of the instruction that copies most often.
    """
    timing = facts.timing
    turns = [
        int(timing.inst_issues[i])
        for i, opcode in enumerate(timing.inst_opcode)
        if opcode.startswith("cp.async") and "commit" not in opcode and "wait" not in opcode
    ]
    warps = 1 if any("bulk" in x for x in timing.inst_opcode) else max(1, timing.threads // 32)
    each = max(turns, default=0) / max(1, timing.timed_ctas * warps)
    if each < 1:
        return timing.ctas_per_sm
    stage = timing.l2_bytes / timing.ctas / each
    total, largest = _SHARED_BYTES.get(timing.arch, _SHARED_BYTES["sm_90a"])
    needed = timing.shared_bytes + stage
    if needed > largest:
        return 0
    return min(timing.ctas_per_sm, max(1, int(total // (needed + _RESERVED_BYTES))))


def _registers_for(facts: _Facts, ctas: int) -> int:
    """Registers of a thread with which so many CTAs fit an SM, and not one more."""
    warps = -(-facts.timing.threads // 32)
    return min(255, _REGISTERS // (ctas * warps * 32) // 8 * 8)


def _take_turns(facts: _Facts) -> Iterator[Finding]:
    """Finds tensor-core work and arithmetic of the same warps that run one after the other."""
    if not facts.tensor_work or facts.engine("tensor pipe") >= _LIMIT:
        return
    gemms = facts.places("tensor pipe", "mbarrier: tensor")
    tensor = sum(gemms.values())
    rest = facts.places(*_ARITHMETIC)
    issue = {at: share for at, share in rest.items() if gemms.get(at, 0) > _LEAST}
    other = {at: share for at, share in rest.items() if at not in issue}
    arithmetic = sum(other.values())
    yield Finding(
        "no overlap",
        f"tensor core and arithmetic take turns ({100 * tensor:.0f} % and "
        f"{100 * arithmetic:.0f} % of the critical path): let other warps compute meanwhile, or "
        "issue the next gemm before this arithmetic",
        _place(facts.largest(other)), facts.at_most(min(tensor, arithmetic), "tensor pipe"),
    )  # fmt: skip
    yield Finding(
        "gemm issue",
        f"tensor pipe idle {100 * (1 - facts.engine('tensor pipe')):.0f} %: between two gemms of "
        "the critical path their warps wait for the first one and issue the second one: larger "
        "tiles, a gemm in flight while the next one is issued, or more warpgroups",
        _place(facts.largest(issue)),
        facts.at_most(min(tensor, sum(issue.values())), "tensor pipe"),
    )  # fmt: skip


def _access_bytes(opcode: str) -> int:
    """Bytes of a lane in an access of global memory; 0 for other instructions."""
    found = _ACCESS.fullmatch(opcode)
    if found is None:
        return 0
    return _WIDTHS.get(found[2], 0) * int((found[1] or ".v1")[2:])


def _global_accesses(facts: _Facts) -> Iterator[tuple[int, int]]:
    for instruction, opcode in enumerate(facts.timing.inst_opcode):
        size = _access_bytes(opcode)
        if size and facts.timing.inst_issues[instruction]:
            yield instruction, size


def _narrow(facts: _Facts) -> Iterator[Finding]:
    """Accesses of few bytes that are not the memory's limit but the threads'."""
    accesses = {i: (size, int(facts.timing.inst_issues[i])) for i, size in _global_accesses(facts)}
    narrow = {i: issues for i, (size, issues) in accesses.items() if size < 16}
    if not narrow or max(facts.engines.values(), default=0) >= _LIMIT:
        return
    most = max(narrow, key=lambda i: narrow[i])
    size = accesses[most][0]
    at = place_of(facts.timing, most)
    line = next(x for x in facts.report.lines if (x.file, x.number) == at)
    # What waits for memory is named where it waits: the share of the line is that of its accesses.
    share = narrow[most] / sum(issues for _, issues in accesses.values())
    bound = min(facts.on_path("memory"), 1 - facts.memory_limit) * share * (1 - size / 16)
    yield Finding(
        "narrow accesses",
        f"{facts.timing.inst_opcode[most]} moves {size} bytes a thread, 16 are possible: "
        "neighbouring elements to one thread",
        line.place, facts.at_most(bound, "memory"),
    )  # fmt: skip


def _scattered(facts: _Facts) -> Iterator[Finding]:
    """Accesses of global memory that touch more sectors than their bytes fill."""
    worst, wasted = -1, 0.0
    for instruction, size in _global_accesses(facts):
        sectors = int(facts.timing.inst_sectors[instruction])
        needed = int(facts.timing.inst_issues[instruction]) * size
        if sectors > 1.5 * needed and sectors - needed > wasted:
            worst, wasted = instruction, float(sectors - needed)
    if worst < 0:
        return
    total = max(1, int(facts.timing.inst_sectors.sum()))
    share = max(facts.memory_limit, facts.engine("LSU"))
    at = place_of(facts.timing, worst)
    line = next(x for x in facts.report.lines if (x.file, x.number) == at)
    yield Finding(
        "scattered accesses",
        f"{facts.timing.inst_opcode[worst]} touches {wasted / total:.0%} more sectors than its "
        "bytes fill: let neighbouring threads access neighbouring addresses, or go through "
        "shared memory",
        line.place, facts.at_most(share * wasted / total, "memory"),
    )  # fmt: skip


def _bytes(facts: _Facts) -> Iterator[Finding]:
    """Finds launches whose limit is memory, where only fewer bytes help."""
    limit = facts.memory_limit
    if limit < _LIMIT:
        return
    name = "HBM" if facts.engine("HBM") >= facts.engine("L2") else "L2"
    others = max((x for n, x in facts.engines.items() if n not in ("HBM", "L2")), default=0.0)
    amount = facts.timing.dram_bytes if name == "HBM" else facts.timing.l2_bytes
    worst = facts.worst("memory", "mbarrier: TMA", "async group")
    yield Finding(
        "memory bandwidth",
        f"{name} is busy {100 * limit:.0f} % with {amount / 1e6:.4g} MB: only fewer bytes help, by "
        "narrower types, fusion, or larger tiles",
        _place(worst), facts.at_most(limit - others, "memory"),
    )  # fmt: skip


def _waves(facts: _Facts) -> Iterator[Finding]:
    ctas, sms, waves = facts.timing.ctas, facts.timing.sms, facts.timing.waves
    if ctas < sms:
        gain = 1 - ctas / sms
        text = f"{ctas} CTAs for {sms} SMs: use smaller tiles, or split the reduction"
    else:
        gain = 1 - waves / math.ceil(waves)
        text = f"{waves:.2f} waves: the last one is not full; other tiles or persistent CTAs"
    yield Finding("waves", text, "", gain)


def _occupancy(facts: _Facts) -> Iterator[Finding]:
    timing = facts.timing
    if timing.occupancy_limit not in ("registers", "shared memory") or timing.waves <= 1:
        return
    if max(facts.engines.values(), default=0) >= 0.6:
        return
    more = timing.ctas_per_sm + 1
    gain = facts.on_path("memory", "dependency") / more
    if timing.occupancy_limit == "registers" and gain >= _LEAST:
        tried = facts.report.gain_without("", _registers_for(facts, more))
        gain = gain if tried is None else tried
    text = (
        f"{timing.ctas_per_sm} CTAs an SM by {timing.occupancy_limit}, and no engine is busy: "
        f"with fewer {timing.occupancy_limit} a CTA more could hide latencies"
    )
    yield Finding("occupancy", text, "", facts.at_most(gain, "memory"))


def _special_functions(facts: _Facts) -> Iterator[Finding]:
    share = facts.engine("MUFU")
    others = max((x for n, x in facts.engines.items() if n != "MUFU"), default=0.0)
    if share < 0.7 or share <= others:
        return
    gain = facts.report.gain_without("MUFU")
    line = facts.worst("pipe", "dependency", "not selected")
    yield Finding(
        "special functions",
        f"the unit of ex2, rcp and the like is busy {100 * share:.0f} %: compute some of them "
        "by polynomials, or fewer",
        _place(line), share - others if gain is None else gain, gain is None,
    )  # fmt: skip


def _barriers(facts: _Facts) -> Iterator[Finding]:
    share = facts.on_path("named barrier", "mbarrier: threads")
    line = facts.worst("named barrier", "mbarrier: threads")
    yield Finding(
        "barriers",
        f"{100 * share:.0f} % of the critical path waits at barriers for other threads",
        _place(line), facts.at_most(share, "barriers"),
    )  # fmt: skip


def _launch(facts: _Facts) -> Iterator[Finding]:
    gain = facts.timing.launch_us / facts.timing.grid_us
    if gain > 0.15:
        yield Finding("launch", "the launch itself takes most: give a launch more work", "", gain)


def _power(facts: _Facts) -> Iterator[Finding]:
    gain = 1 - facts.timing.power_factor
    text = "the power limit lowers the clock: move fewer bytes and bits for the same work"
    yield Finding("power", text, "", gain)


_RULES = (
    _conflicts, _pipeline, _take_turns, _narrow, _scattered, _bytes, _waves, _occupancy,
    _special_functions, _barriers, _launch, _power,
)  # fmt: skip


def _critical(facts: _Facts, named: set[str]) -> Finding | None:
    """Returns the line with most of the critical path, if no finding names it."""
    reasons = {reason for reason, _ in facts.path}
    shares = facts.places(*reasons)
    line = facts.largest(shares)
    if line is None or line.place in named:
        return None
    share = shares[line.file, line.number]
    reason = max(
        (key for key in facts.path if key[1] == (line.file, line.number)),
        key=lambda key: facts.path[key],
    )[0]
    gain = facts.at_most(share, _COSTS[reason]) if reason in _COSTS else share
    if share < _NAMED or gain < _LEAST:
        return None
    return Finding(
        "critical path",
        f"{100 * share:.0f} % of the critical path is here, most of it {reason}",
        line.place, gain,
    )  # fmt: skip


def find(report: Report) -> list[Finding]:
    """Returns the findings, largest gain first."""
    facts = _Facts(report)
    found = [finding for rule in _RULES for finding in rule(facts) if finding.gain >= _LEAST]
    found = sorted(found, key=lambda finding: -finding.gain)[:_MOST]
    critical = _critical(facts, {finding.place for finding in found})
    if critical is not None:
        found = [*found[: _MOST - 1], critical]
    return sorted(found, key=lambda finding: -finding.gain)
