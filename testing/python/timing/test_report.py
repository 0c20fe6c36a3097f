"""Reports of made-up timings: text, trace, picture, page, comparison, findings."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from timing import timings
from timing.trace_format import validate

import tilelang
import tilelang.language as T
from tilelang.emulator.timed import REASONS
from tilelang.emulator.timing import Report, compare
from tilelang.emulator.timing.lines import operator
from tilelang.emulator.timing.slices import merged_slices
from tilelang.emulator.timing.trace import trace
from tilelang.errors import ArgumentError, UserError

_BROWSER = shutil.which("chromium-headless-shell") or shutil.which("chromium")
_EMPTY = {"area", "br", "col", "hr", "img", "input", "link", "meta"}


class _Tags(HTMLParser):
    """Collects what a page refers to, and checks that its elements close in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.references: list[str] = []
        self.data: dict[str, str] = {}
        self._id: str | None = None

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.references += [values[k] for k in ("src", "href") if values.get(k)]
        self._id = values.get("id")
        if tag not in _EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        self._id = None

    def handle_data(self, data):
        if self._id:
            self.data[self._id] = self.data.get(self._id, "") + data


def _random(tracks: int, engines: int, seed: int) -> dict:
    """Slices of warps side by side and of engines that overlap, with arrows between them."""
    rng = np.random.default_rng(seed)
    rows = []
    for track in range(tracks):
        edges = np.unique(rng.integers(0, 5000, 60))
        rows += [(track, int(a), int(b), int(rng.integers(-1, 5)), "issue")
                 for a, b in itertools.pairwise(edges)]  # fmt: skip
    for track in range(tracks, tracks + engines):
        for begin in np.sort(rng.integers(0, 4900, 80)):
            end = int(begin + rng.integers(1, 300))
            rows.append((track, int(begin), end, int(rng.integers(0, 5)), "busy"))
    columns = timings.slices(rows)
    begins, ends = columns["slice_begin"], columns["slice_end"]
    pairs = rng.integers(0, len(rows), (2, 200))
    forward = (begins + ends)[pairs[0]] / 2 <= ends[pairs[1]] - 0.5
    sms = np.full(tracks + engines, 3, np.int32)
    return {
        **columns, **timings.stalls(columns),
        "flow_from": pairs[0][forward].astype(np.int32),
        "flow_to": pairs[1][forward].astype(np.int32),
        "track_kind": ["warp"] * tracks + ["engine"] * engines,
        "track_name": [f"CTA 7 warp {i}" for i in range(tracks)]
        + [f"engine {i}" for i in range(engines)],
        "track_cta": np.array([7] * tracks + [-1] * engines, np.int32),
        "track_warp": np.array([*range(tracks)] + [-1] * engines, np.int32), "track_sm": sms,
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_traces_are_valid(seed, tmp_path):
    timing = timings.make(**_random(5, 3, seed))
    path = tmp_path / "x.json"
    Report(timing).save_trace(path)
    counts = validate(json.loads(path.read_text()))
    assert counts["X"] == len(timing.slice_track)
    assert counts["s"] == counts["f"] == len(timing.flow_from) > 50


def test_slices_of_a_trace_say_where_they_are_from():
    document = trace(Report(timings.make(clock_mhz=2000.0, power_factor=0.5)))
    validate(document)
    tensor = [e for e in document["traceEvents"] if e["ph"] == "X" and e["ts"] == 0.1]
    line = '"slice_end": np.array(columns[2], np.int'  # there is no operator in it
    assert {e["name"] for e in tensor} == {f"timings.py:{timings.MMA_LINE} {line}"}
    assert {e["dur"] for e in tensor} == {0.3, 0.2}
    names = {e["args"]["name"] for e in document["traceEvents"] if e["ph"] == "M"}
    assert {"CTA 7 warp 0", "tensor pipe", "CTA 7 on SM 3", "engines of SM 3"} <= names


def test_slices_are_named_by_operators():
    assert operator("T.copy(A[by * m, i * k], a)") == "T.copy"
    assert operator("total = tl.dot(tl.load(a_at), tl.load(b_at), total)") == "tl.dot"
    assert operator("x[i] += CONST.f(y)") == "x[i] += CONST.f(y)"


def test_the_validator_finds_what_is_wrong():
    document = trace(Report(timings.make()))
    broken = [
        lambda e: e[-1].update(ts=1e9),  # a flow that ends nowhere
        lambda e: e.pop(),  # a flow with one end
        lambda e: next(x for x in e if x["ph"] == "X").update(dur=-1),
        lambda e: next(x for x in e if x["ph"] == "X").update(dur=0.15),  # leaves no nesting
        lambda e: e[0].update(ph="Q"),
    ]
    for change in broken:
        copy = json.loads(json.dumps(document))
        change(copy["traceEvents"])
        with pytest.raises(AssertionError):
            validate(copy)


def test_pictures_are_bounded_and_say_what_is_where():
    report = Report(timings.make(**_random(4, 2, 9)))
    picture = report.plot()
    root = ElementTree.fromstring(picture.svg)
    boxes = root.findall("{http://www.w3.org/2000/svg}rect")
    assert 100 < len(boxes) < 6 * 1200
    assert "CTA 7" in picture.svg
    zoomed = ElementTree.fromstring(report.plot(7, 100, 110).svg)
    assert len(zoomed.findall("{http://www.w3.org/2000/svg}rect")) < len(boxes)
    with pytest.raises(UserError, match="CTA 3 was not timed; choose from 7"):
        report.plot(3)


def _tags(html: str) -> _Tags:
    tags = _Tags()
    tags.feed(html)
    return tags


def test_pages_need_nothing_else_and_hold_the_timeline():
    timing = timings.make(kernel="<script>alert(1)</script>")
    html = Report(timing).html()
    tags = _Tags()
    tags.feed(html)
    assert tags.open == [] and tags.references == []
    assert "<script>alert" not in html and "url(" not in html and "@import" not in html
    data = json.loads(tags.data["data"])
    assert len(data["begin"]) == len(timing.slice_track)
    assert data["tracks"] == timing.track_name
    assert "named barrier" in html


@pytest.mark.skipif(_BROWSER is None, reason="there is no headless Chromium")
def test_a_browser_draws_the_page(tmp_path):
    page = tmp_path / "page.html"
    timing = timings.make(**_random(5, 3, 4))
    page.write_text(Report(timing).html(), encoding="utf-8")
    command = [_BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    boxes = re.search(r'data-boxes="(\d+)"', done.stdout)
    assert boxes is not None and 300 < int(boxes[1]) <= len(timing.slice_track)


@pytest.mark.skipif(_BROWSER is None, reason="there is no headless Chromium")
@pytest.mark.parametrize("scheme", [0, 1])  # dark, light
def test_a_browser_folds_idle_warps_in_both_schemes(tmp_path, scheme):
    timing = timings.make(**{**_random(8, 1, 4), "span_cycles": 5000})
    timing.stall_reason[timing.stall_track >= 4] = REASONS.index("named barrier")
    page = tmp_path / "page.html"
    probe = "<script>document.title = getComputedStyle(document.body).backgroundColor</script>"
    page.write_text(Report(timing).html() + probe, encoding="utf-8")
    command = [_BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    command += [f"--blink-settings=preferredColorScheme={scheme}", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert f"<title>rgb({'13, 17, 23' if scheme == 0 else '255, 255, 255'})" in done.stdout
    rows = re.search(r'data-rows="(\d+)"', done.stdout)
    groups = json.loads(_tags(done.stdout).data["data"])["groups"]
    folded = [group for group in groups if group["folded"]]
    assert folded and all(group["name"].endswith("idle") for group in folded)
    opened = sum(len(g["rows"]) + (len(g["rows"]) > 1) for g in groups if not g["folded"])
    assert rows is not None and int(rows[1]) == opened + len(folded)


@pytest.mark.parametrize("most", [60, 200])
def test_slices_beyond_the_most_are_merged(most):
    timing = timings.make(**_random(5, 3, 2))
    found = merged_slices(timing, most)
    assert len(found.track) <= most and found.least > 1
    assert (np.diff(found.begin) >= 0).all()
    for track in np.unique(timing.slice_track):
        was, now = timing.slice_track == track, found.track == track
        begins, ends = found.begin[now], found.end[now]
        for begin, end in zip(timing.slice_begin[was], timing.slice_end[was], strict=True):
            assert ((begins <= begin) & (end <= ends)).any()
        assert ends.max() == timing.slice_end[was].max()
    whole = merged_slices(timing, len(timing.slice_track))
    assert whole.least == 0 and len(whole.track) == len(timing.slice_track)


def test_long_legends_and_names_stay_inside_of_a_picture():
    report = Report(timings.make(**{**_random(2, 1, 1), "kernel": "k" * 400}))
    root = ElementTree.fromstring(report.plot(7).svg)
    width = float(root.get("width"))
    for text in root.iter("{http://www.w3.org/2000/svg}text"):
        step = 7 if text.get("font-size") else 5
        room = len(text.text or "") * step
        assert text.get("text-anchor") or float(text.get("x")) + room <= width


def test_text_names_engines_lines_and_the_critical_path():
    text = str(Report(timings.make()))
    assert "made_up" in text and "H200" in text
    assert re.search(r"tensor pipe\s+40\.0 %", text)
    assert re.search(r"critical path of 1000 cycles", text)
    assert f"timings.py:{timings.EX2_LINE}" in text
    assert "PTX:24" in text  # an instruction without a source line


def test_lines_add_up():
    timing = timings.make(**timings.counts(issues=[10, 20, 5, 50, 2], conflicts=[0, 9, 0, 0, 0],
                                           wavefronts=[0, 12, 0, 0, 0]))  # fmt: skip
    lines = {line.number: line for line in Report(timing).lines}
    assert sorted(lines) == [24, timings.LOAD_LINE, timings.MMA_LINE, timings.EX2_LINE]
    assert (
        lines[timings.LOAD_LINE].issues == 30
        and lines[timings.LOAD_LINE].conflicts == 9
        and lines[timings.LOAD_LINE].cycles == 100
    )
    assert (
        lines[timings.MMA_LINE].reasons == {"tensor pipe": 800}
        and lines[timings.MMA_LINE].path == 300
    )
    assert sum(line.cycles for line in lines.values()) == 2000
    assert sum(line.path for line in lines.values()) == 1000


def test_comparisons_show_both():
    slow = Report(timings.make())
    fast = Report(timings.make(kernel="other", grid_cycles=3500.0))
    both = compare(slow, fast)
    assert both.speedup == pytest.approx(8.5 / 4)
    text = str(both)
    assert "other takes 0.471 times the time of made_up" in text
    assert re.search(r"tensor pipe busy\s+40.0 %\s+40.0 %", text)
    assert "<td>other</td>" in both._repr_html_()


def test_comparisons_of_what_was_not_timed_are_refused():
    with pytest.raises(UserError, match="compare takes reports"):
        compare(Report(timings.make()), 3)


def test_a_launch_without_a_timeline_says_so(tmp_path):
    columns = timings.slices([])
    none = np.zeros(0, np.int32)
    report = Report(timings.make(**columns, flow_from=none, flow_to=none))
    for call in (report.plot, lambda: report.save_trace(tmp_path / "x.json")):
        with pytest.raises(UserError, match="record=True"):
            call()
    assert json.loads(report.json())["gpu"] == "H200"


def _kinds(**changes) -> dict[str, float]:
    return {f.kind: f.gain for f in Report(timings.make(**changes)).explain()}


def test_findings_are_ranked_and_few():
    found = Report(timings.make(power_factor=0.7, launch_us=4.0, waves=1.1)).explain()
    gains = [finding.gain for finding in found]
    assert gains == sorted(gains, reverse=True) and len(found) <= 5
    assert all(0.02 <= gain <= 1 for gain in gains)


def test_findings_about_engines_and_the_critical_path():
    assert _kinds()["no overlap"] == pytest.approx(0.3)  # 300 and 600 of 1000 cycles
    conflicts = timings.counts(wavefronts=[0, 40, 0, 0, 0], conflicts=[0, 30, 0, 0, 0])
    busy = timings.engines(shared_memory=0.8)
    assert _kinds(**conflicts, **busy)["bank conflicts"] == pytest.approx(0.6)
    late = timings.path([(0, 0, 700, 0, "mbarrier: TMA"), (0, 700, 1000, 2, "tensor pipe")])
    assert _kinds(**late)["pipeline depth"] == pytest.approx(0.7)
    assert "pipeline depth" not in _kinds(**late, **timings.engines(HBM=0.95))
    assert _kinds(waves=1.25)["waves"] == pytest.approx(0.375)
    functions = timings.engines(MUFU=0.9, FMA=0.3)
    assert _kinds(**functions)["special functions"] == pytest.approx(0.6)
    barriers = timings.path([(0, 0, 400, 4, "named barrier"), (0, 400, 1000, 3, "dependency")])
    assert _kinds(**barriers)["barriers"] == pytest.approx(0.4)


def test_findings_about_accesses():
    narrow = timings.path([(0, 0, 800, 0, "memory"), (0, 800, 1000, 3, "dependency")])
    assert _kinds(**narrow)["narrow accesses"] == pytest.approx(0.8 * 0.75)
    # 10 warps of 32 lanes need 4 sectors each; they touch 32.
    scattered = timings.counts(issues=[10, 0, 0, 0, 0], sectors=[320, 0, 0, 0, 0])
    assert _kinds(**scattered, **timings.engines(LSU=0.5))["scattered accesses"] == pytest.approx(
        0.5 * 280 / 320
    )


def test_gains_come_from_the_model_where_it_can_be_asked():
    asked = []

    def again(costs, registers):
        asked.append((costs, registers))
        return timings.make(grid_cycles=6000.0)

    timing = timings.make(
        **timings.counts(wavefronts=[0, 40, 0, 0, 0], conflicts=[0, 30, 0, 0, 0]),
        **timings.engines(shared_memory=0.8),
    )
    report = Report(timing, again)
    found = {f.kind: f for f in report.explain()}["bank conflicts"]
    assert (found.gain, found.bound) == (pytest.approx(1 - 6.5 / 8.5), False)
    assert found.place == f"timings.py:{timings.LOAD_LINE}"
    assert (frozenset(["bank conflicts"]), 0) in asked
    assert str(found).endswith("(up to 24 %)")
    times = len(asked)
    report.explain()
    assert len(asked) == times == len(set(asked))  # each is asked once


def test_bank_conflicts_of_lines_without_an_operator():
    """Lines of PTX have none."""
    conflicts = {"wavefronts": [0, 160, 0, 0, 0], "conflicts": [0, 120, 0, 0, 0]}
    timing = timings.make(
        inst_file=[""] * 5, **timings.counts(**conflicts), **timings.engines(shared_memory=0.8)
    )
    found = [x for x in Report(timing).explain() if x.kind == "bank conflicts"]
    assert found[0].text.startswith("bank conflicts make accesses take 4.0 times")


def test_lines_of_cpp_are_no_part_of_a_sentence(tmp_path):
    source = tmp_path / "kernel.cu"
    source.write_text("float x = tile[threadIdx.x * 32];\n" * 200)
    conflicts = {"wavefronts": [0, 160, 0, 0, 0], "conflicts": [0, 120, 0, 0, 0]}
    timing = timings.make(
        inst_file=[str(source)] * 5, **timings.counts(**conflicts),
        **timings.engines(shared_memory=0.8),
    )  # fmt: skip
    found = Report(timing).explain()
    assert "bank conflicts" in [x.kind for x in found]
    assert not [x for x in found if "threadIdx" in str(x)]


def test_a_call_without_blocks_has_no_time():
    """Tensors without elements: every grid is empty, and nothing is left to time."""
    n = T.dynamic("n")

    @T.prim_func
    def copy(X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, 64), threads=64) as b:
            T.copy(X[b * 64], Y[b * 64])

    kernel = tilelang.compile(copy, target="sm_90a")
    empty = torch.empty(0)
    kernel(empty, empty)
    with pytest.raises(ArgumentError, match=r"nothing to time: .* every grid .* 0 blocks"):
        kernel.profile(empty, empty)
    assert kernel.profile(torch.zeros(64), torch.zeros(64)).timing.ctas == 1
