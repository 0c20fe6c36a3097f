"""Each script of examples/ checks itself, for each target; on a GPU, too, and prints its speed."""

from __future__ import annotations

import fcntl
import functools
import gc
import re
import runpy
import sys
from pathlib import Path

import draw_examples
import pytest
import torch
from draw_examples import EXAMPLES, scripts
from examples.running import run
from examples.tables import SMALL, run_row

import tilelang
from tilelang import emulator
from tilelang.runtime.code import assembling
from tilelang.target import device_target, resolve, with_sm_count
from tilelang.tools.example import Example, Option

DOCS = Path(__file__).parents[3] / "docs"
TARGETS = ("sm_80", "sm_90a", "sm_100a")
#: of asynchronous operations; a script runs with different ones for its arguments and targets
SCHEDULES = ("late", "eager", 1)
#: scripts whose kernels need what a target does not have
_FLOAT8 = ("gemm/gemm_fp8", "gemm/gemm_fp8_block_scaled", "flash_attention/sparse_indexer")
ONLY = dict.fromkeys(_FLOAT8, ("sm_90a", "sm_100a"))
ONLY |= {"gemm_sm90/gemm_multicast": ("sm_90a",)}
ONLY |= {"moe/fused_moe_nvfp4": ("sm_100a",)}
ONLY |= {"gemm/gemm_nvfp4": ("sm_90a", "sm_100a", "sm_120a")}
ONLY |= {script: ("sm_100a",) for script in scripts() if script.startswith("gemm_sm100/")}
#: of scripts that are run more than once, and of those whose default sizes take long
ARGUMENTS = {
    "convolution/conv2d": ["", "--batch 32 --height 4 --width 5 --features 136 --stride 2"],
    "flash_attention/attention_backward": ["--queries 130 --keys 200 --dim 64 --causal"],
    "flash_attention/attention_backward_added": [
        "--queries 130 --keys 200 --dim 64 --causal",
        "--queries 200 --keys 130 --heads 2 --kv_heads 1",
    ],
    "flash_attention/attention_forward": [
        "",
        "--queries 77 --keys 200 --causal",
        "--queries 77 --keys 200 --heads 1 --dim 192",
    ],
    "flash_attention/flash_decoding": [
        "",
        "--lengths 130 5 --splits 3",
        "--lengths 77 --heads 142",
    ],
    "mamba/chunk_scan": ["", "--chunk 77"],
    "mamba/chunk_state": ["", "--chunk 77"],
    "gemm/gemm_split_k": ["", "--m 130 --n 264 --k 1112 --parts 0"],
    "gemm/gemm": ["", "--m 1 --n 520", "--m 1000 --n 264 --k 72"],
    "flash_attention/attention_persistent": ["--queries 300 --keys 400 --causal"],
    "flash_attention/attention_window": [
        "--keys 333 --kv_heads 2 --dim 64",
        "--queries 130 --keys 130 --window 33 --no_sink",
    ],
    "gemm/gemm_dequantize": [
        "--weights int4 --m 140 --n 136",
        "--weights fp4 --dtype bfloat16 --n 72",
        "--weights int4 --dtype bfloat16 --m 1 --n 72",
        "--weights fp4 --m 256 --n 130 --k 704",
    ],
    "gemm/gemm_fp8": [
        "--k 1024",
        "--m 72 --n 200 --k 800 --dtype float8_e5m2",
        "--k 1024 --promote_every 0 --out_dtype bfloat16",
    ],
    "gemm/gemm_fp8_block_scaled": [
        "--k 600",
        "--m 72 --n 130 --k 300 --dtype float8_e5m2 --out_dtype bfloat16",
    ],
    "gemm/grouped_gemm": ["", "--sizes 7 300 0 0 257 --n 264 --blocks 4"],
    "gemm_sm100/gemm_mxfp8": ["", "--format mxfp6 --m 200 --n 264 --k 384"],
    "gemm/gemm_nvfp4": ["--n 136", "--format mxfp8 --m 72 --n 160 --k 224"],
    "norm/rms_norm": ["", "--rows 37 --columns 66", "--rows 2 --columns 17001"],
    "norm/layer_norm": [
        "--columns 1001",
        "--rows 300 --columns 3",
        "--rows 37 --columns 66",
        "--rows 3 --columns 24577",
        "--rows 2 --columns 24576 --dtype float16",
        "--rows 3 --columns 5000",
    ],
    "norm/layer_norm_backward": [
        "",
        "--rows 131 --columns 1001 --dtype float32",
        "--rows 5 --columns 9001",
    ],
    "norm/rms_norm_backward": ["", "--rows 37 --columns 1001", "--rows 5 --columns 9001"],
    "norm/group_norm_backward": ["", "--images 2 --channels 6 --groups 2 --pixels 1501"],
    "norm/group_norm": ["", "--images 1 --channels 8 --groups 2 --pixels 4501"],
    "gemm/gemm_sparse": ["", "--m 300 --n 264"],
    "quantize/rms_norm_quantize": [
        "--format fp8 --rows 5 --columns 4096",
        "--format nvfp4 --rows 37 --columns 1184",
        "--rows 37 --columns 1184",
    ],
    "quantize/swiglu_quantize": ["", "--format nvfp4", "--format fp8"],
    "reductions/gradients": ["", "--rows 1003 --columns 40 --dtype float32"],
    "reductions/column_sums": ["", "--rows 700 --columns 1030"],
    "reductions/argmax": ["", "--columns 1025 --k 1 --dtype float32"],
    "reductions/cumsum": ["", "--rows 132 --columns 300 --dtype bfloat16"],
    "softmax/softmax": [
        "",
        "--rows 37 --columns 65",
        "--rows 2 --columns 17001 --dtype float16",
        "--rows 5 --columns 24575",
        "--rows 3 --columns 9000",
    ],
    "topk/sampling": ["", "--vocabulary 4500 --p 1.0 --k 3 --rows 2"],
    "softmax/softmax_backward": ["", "--rows 70 --columns 72 --dtype float16"],
}


def test_all_have_a_row_of_their_table():
    assert sorted(SMALL) == scripts()


def cases():
    """A script's first arguments run for all its targets, each of the others for one."""
    for i, script in enumerate(scripts()):
        targets = ONLY.get(script, TARGETS)
        for j, arguments in enumerate(ARGUMENTS.get(script, [""])):
            for target in [targets[(i + j) % len(targets)]] if j else targets:
                yield pytest.param(script, arguments, target, id=f"{script} {arguments}-{target}")


@pytest.mark.budget(150)  # each script is a program of its own
@pytest.mark.parametrize(("script", "arguments", "target"), list(cases()))
def test_on_the_emulator(monkeypatch, capsys, script, arguments, target):
    """Of each script also a row of the table is run."""
    rows = []
    place = scripts().index(script) + ARGUMENTS.get(script, [""]).index(arguments)
    schedule = SCHEDULES[(place + TARGETS.index(target)) % 3 if target in TARGETS else 0]
    with_table = target == ONLY.get(script, TARGETS)[-1]

    def table(self, shapes, case):
        rows.append(shapes)
        if with_table and len(rows) == 1:
            run_row(self, shapes, case, SMALL[script])

    monkeypatch.setattr(Example, "table", table)
    with emulator.options(schedule=schedule), assembling():
        run(monkeypatch, script, *arguments.split(), "--target", target, "--device", "cpu")
    captured = capsys.readouterr()
    assert rows, "no table"
    assert captured.out.endswith("correct\n")
    assert captured.err == ""


#: plain, with scale factors, for pairs of blocks, by hand
OF_BLACKWELLS = ("gemm/gemm_stream_k", "gemm/gemm_nvfp4", "gemm_sm100/gemm_scaled_pairs")
OF_BLACKWELLS += ("gemm_sm100/gemm_tcgen5mma_ts", "moe/fused_moe_nvfp4")


@pytest.mark.parametrize("script", OF_BLACKWELLS)
def test_b300_is_offered_where_b200_is(monkeypatch, capsys, script):
    run(monkeypatch, script, "--target", "sm_103a", "--device", "cpu")
    printed = capsys.readouterr().out
    assert "(sm_103a)" in printed
    assert printed.endswith("correct\n")


@pytest.fixture
def references_apart(monkeypatch, tmp_path_factory):
    """References of large problems take most of a GPU's memory: one process at a time has them.

    A script has the lock from its first kernel or tensor to its first measurement. It compiles its
    first kernel before, and measures after that, beside other processes. Returns the lock's file.
    """
    path = tmp_path_factory.getbasetemp().parent / "gpu.lock"
    with path.open("w") as lock:
        begin, end = _once(lambda: fcntl.flock(lock, fcntl.LOCK_EX)), _once(lambda: _free(lock))
        for name in ("normal", "integers", "output"):
            _around(monkeypatch, name, before=begin)
        _around(monkeypatch, "compile", after=begin)
        for name in ("speed", "table"):
            _around(monkeypatch, name, before=lambda: (begin(), end()))
        yield path
        _free(lock)


def _once(action):
    """Returns a function whose first call has an effect."""
    return functools.cache(action)


def _around(monkeypatch, name, before=lambda: None, after=lambda: None):
    """Calls functions before and after a method of Example."""
    method = getattr(Example, name)

    def around(*arguments, **options):
        before()
        result = method(*arguments, **options)
        after()
        return result

    monkeypatch.setattr(Example, name, around)


def _free(lock):
    """Returns the memory that the process no longer uses, and the lock."""
    gc.collect()
    torch.cuda.empty_cache()
    fcntl.flock(lock, fcntl.LOCK_UN)


@pytest.mark.parametrize("script", ["elementwise/add", "flash_attention/attention_backward"])
def test_one_process_has_references(monkeypatch, references_apart, script):
    """Another process waits at the check of a result, and not where a script measures."""
    seen = []

    def probe(name):
        with references_apart.open("w") as other:
            try:
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                seen.append((name, "waits"))
            else:
                seen.append((name, "goes on"))

    _around(monkeypatch, "check", before=lambda: probe("check"))
    for name in ("speed", "table"):
        _around(monkeypatch, name, after=functools.partial(probe, name))
    run(monkeypatch, script, *ARGUMENTS.get(script, [""])[0].split(), "--device", "cpu")
    assert set(seen) == {("check", "waits"), ("speed", "goes on"), ("table", "goes on")}


@pytest.mark.requires_cuda
@pytest.mark.usefixtures("references_apart")
@pytest.mark.parametrize("script", scripts())
def test_on_a_gpu(monkeypatch, capsys, script):
    target = str(device_target())
    if target not in ONLY.get(script, TARGETS):
        pytest.skip(f"needs {ONLY[script]}")
    run(monkeypatch, script, "--device", "cuda")
    printed = capsys.readouterr().out
    assert "correct\n" in printed
    assert re.search(r"^this kernel +\d", printed, re.MULTILINE)


def example(monkeypatch, **options: Option) -> Example:
    monkeypatch.setattr(sys, "argv", ["script.py", "--device", "cpu"])
    return Example("A script.", **options)


def test_wrong_results_are_noticed(monkeypatch):
    ours = example(monkeypatch)
    want = torch.tensor([[1.0, 100.0]], dtype=torch.float64)
    ours.check("C", want.float() + 1e-4, want)
    with pytest.raises(AssertionError, match=r"C: the error is 0\.01, at most 1e-05"):
        ours.check("C", want.float() + 1, want)
    with pytest.raises(AssertionError, match="nan"):
        ours.check("C", ours.output(1, 2), want)
    with pytest.raises(AssertionError, match=r"C is \(2,\), not \(1, 2\)"):
        ours.check("C", want[0], want)
    with pytest.raises(AssertionError, match=r"the error is 0\.01, at most 0"):
        ours.check("C", want.int() + 1, want, tolerance=0)


def test_options(monkeypatch, capsys):
    options = {
        "rows": Option("rows of X", 10, 4096),
        "causal": Option("hide later keys", False),
        "sizes": Option("of the groups", [1, 2]),
        "dtype": Option("element type", "float16", choices=("float16", "bfloat16")),
    }
    args = example(monkeypatch, **options).args
    assert (args.rows, args.causal, args.sizes, args.dtype) == (10, False, [1, 2], "float16")
    monkeypatch.setattr(sys, "argv", ["script.py", "--help"])
    with pytest.raises(SystemExit):
        Example("A script.", **options)
    text = " ".join(capsys.readouterr().out.split())
    assert "{sm_80,sm_90a,sm_100a,sm_103a}" in text
    assert "that of the GPU, else sm_100a" in text
    for part in ("A script.", "rows of X; 10 (4096 on a GPU)", "hide later keys", "[1, 2]"):
        assert part in text


def test_b300_is_offered_for_blackwell_alone(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["script.py", "--target", "sm_103a"])
    with pytest.raises(SystemExit):
        Example("A script.", ("sm_80", "sm_90a"))
    assert "invalid choice: 'sm_103a'" in capsys.readouterr().err


@pytest.mark.parametrize(("sms", "parts"), [(66, 4), (114, 7), (132, 8)])
def test_parts_of_dequantized_gemms_follow_the_gpu(sms, parts):
    """16 tiles of 128 x 128, a block for each multiprocessor."""
    tiles = runpy.run_path(str(EXAMPLES / "gemm" / "gemm_dequantize.py"))["tiles"]
    assert tiles(128, 2048, 8192, with_sm_count(resolve("sm_90a"), sms))["parts"] == parts


@pytest.mark.parametrize(
    ("sizes", "tile", "parts"),
    [
        ((256, 8192, 8192), (256, 128), 2),
        ((256, 11008, 4096), (128, 192), 1),  # 86 of 256 x 128 would leave a third of them idle
        ((16, 8192, 8192), (16, 64), 2),
        ((16, 11008, 4096), (16, 64), 3),  # four blocks a multiprocessor instead of one or two
    ],
)
def test_tiles_of_dequantized_gemms_share_work_evenly(sizes, tile, parts):
    tiles = runpy.run_path(str(EXAMPLES / "gemm" / "gemm_dequantize.py"))["tiles"]
    chosen = tiles(*sizes, with_sm_count(resolve("sm_90a"), 132))
    assert (chosen["block_M"], chosen["block_N"], chosen["parts"]) == (*tile, parts)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_scales_of_fp4_are_exact(dtype):
    """Each is of one product, so that nothing rounds but what the type has no bits for."""
    script = runpy.run_path(str(EXAMPLES / "gemm" / "gemm_dequantize.py"))
    n, k = 64, 1024
    codes = torch.arange(n * k, dtype=torch.int32).view(n, k).remainder(16).to(torch.uint8)
    first, last = (113, 140) if dtype == "float16" else (71, 187)
    scales = torch.linspace(first, last, k // 32).round().to(torch.uint8)[:, None].repeat(1, n)
    func = script["gemm_dequantize"](8, n, k, "fp4", dtype, block_M=8)
    kernel = tilelang.compile(func, target="sm_90a")
    a = torch.zeros(8, k, dtype=getattr(torch, dtype))
    where = torch.randint(0, k, (8,), generator=torch.Generator().manual_seed(0))
    a[torch.arange(8), where] = 2.0**-4
    c = torch.full((8, n), float("nan"), dtype=a.dtype)
    words = script["words_of"](codes, "fp4")
    kernel(a, words, scales, torch.empty(1, 8, n), c)
    want = (a.double() @ script["values_of"](codes, scales, "fp4").T).to(a.dtype)
    assert torch.equal(c, want)


@pytest.mark.parametrize(
    "script", ["attention_window", "flash_decoding", "mla_decode", "paged_decoding_fp8"]
)
def test_equal_maxima_give_a_factor_of_one(monkeypatch, capsys, script):
    """ptxas fuses a * c - b * c, which is then the rounding error of b * c: 1e21 of -1e30."""
    run(
        monkeypatch,
        f"flash_attention/{script}",
        "--target",
        "sm_90a",
        "--device",
        "cpu",
        "--source",
    )
    factors = re.findall(r"factor\w*(?:\[\w+\])? = (exp2f.*);", capsys.readouterr().out)
    assert factors
    assert all(re.match(r"exp2f\(\(previous.* - highest.*\) \* ", text) for text in factors)


def test_all_are_in_the_index():
    pictures = re.findall(r"generated/examples/(\S+)/\w+\.svg", (DOCS / "examples.md").read_text())
    assert sorted(set(pictures)) == scripts()


def test_pictures(tmp_path):
    """They are those of the index, and the same every time."""
    script = "flash_attention/attention_backward"
    first, second = (draw_examples.draw(script, tmp_path / name) for name in "ab")
    assert [path.stem for path in first] == ["prepare", "dkv", "dq"]
    for one, other in zip(first, second, strict=True):
        assert "sm_100a" in one.read_text()
        assert one.read_text() == other.read_text()
    index = (DOCS / "examples.md").read_text()
    assert f"generated/examples/{script}/dkv.svg" in index
