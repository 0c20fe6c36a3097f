"""What the PTX ISA forbids around wgmma, each with its message."""

import re
import subprocess

import numpy as np
import pytest
import wgmma_kernels as kernels
from emulator.test_wgmma import run
from wgmma_kernels import COMMIT, FENCE, WAIT, Form, instruction

from tilelang.emulator import Device, EmulatorError
from tilelang.runtime.toolchain import find_ptxas

FORM = Form("f16", "f16", "f32", 16)
RS = Form("f16", "f16", "f32", 16, True)
WAIT_ONE = WAIT.replace(" 0;", " 1;")
MMA = f" {instruction(FORM)}\n"
MMA_RS = f" {instruction(RS)}\n"


def fails(kind, match, body, form=FORM, **options):
    data = kernels.make_data(form, "small", 0)
    for schedule in ("late", "eager", 1):
        with pytest.raises(EmulatorError, match=match) as error:
            run(form, data, body, schedule=schedule, **options)
        assert error.value.kind in kind.split("|")


def passes(body, form=FORM, **options):
    run(form, kernels.make_data(form, "small", 0), body, **options)


# --- registers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("touch", "verb"),
    [("add.f32 %k0, %d5, %d5;", "reads"), ("mov.b32 %d5, 0;", "writes"),
     ("mov.b32 %k0, %d5;", "reads"), ("ld.global.b32 %d5, [%r2];", "writes")],
)  # fmt: skip
def test_accumulator_in_flight(touch, verb):
    start = " .reg .b32 %k<4>;\n" + FENCE + MMA + COMMIT
    fails("missing-wait", f"{verb} %d5, which the wgmma.mma_async at PTX line .* accumulates into; "
          "wgmma.wait_group for its group must come first", f"{start} {touch}\n{WAIT}")  # fmt: skip
    fails("missing-wait", f"{verb} %d5", f"{start} {WAIT_ONE} {touch}\n{WAIT}")
    passes(f"{start} {WAIT} {touch}\n")


@pytest.mark.parametrize("touch", ["mov.b32 %a2, 0;", "mov.b32 %k0, %a2;"])
def test_fragment_of_a_in_flight(touch):
    start = " .reg .b32 %k<4>;\n" + FENCE + MMA_RS + COMMIT
    fails("missing-wait", "%a2, which the wgmma.mma_async .* reads a fragment of A from",
          f"{start} {touch}\n{WAIT}", RS)  # fmt: skip
    passes(f"{start} {WAIT} {touch}\n", RS)


def test_accumulator_in_flight_as_fragment_of_a():
    chained = MMA_RS.replace("{%a0, %a1, %a2, %a3}", "{%d0, %d1, %d2, %d3}").replace(
        "{%d0, %d1, %d2, %d3, %d4, %d5, %d6, %d7}",
        "{%k0, %k1, %k2, %k3, %k4, %k5, %k6, %k7}",
    )
    registers = " .reg .b32 %k<8>;\n"
    fails("missing-wait", "reads %d0, which the wgmma.mma_async",
          registers + FENCE + MMA + COMMIT + FENCE + chained + COMMIT + WAIT)  # fmt: skip
    passes(registers + FENCE + MMA + COMMIT + WAIT + FENCE + chained + COMMIT + WAIT)


def test_missing_commit():
    data = kernels.make_data(FORM, "small", 0)
    body = FENCE + MMA + WAIT
    with pytest.raises(EmulatorError, match=r"no wgmma.commit_group follows it"):
        run(FORM, data, body)
    # The wait is suspicious by itself.
    module = Device("sm_90a").load_ptx(kernels.kernel(FORM, body))
    with pytest.warns(UserWarning, match="wgmma.wait_group 0 does not wait for"):
        module["k"].launch(1, 128, data.arrays, sanitize=False)


def test_fence_before_the_first():
    fails("missing-wgmma-fence", "no wgmma.fence comes before the first", MMA + COMMIT + WAIT)


@pytest.mark.parametrize("form", [FORM, RS])
def test_fence_after_registers_were_written(form):
    mma = f" {instruction(form)}\n"
    name = "%a1" if form.registers else "%d3"
    once = FENCE + mma + COMMIT + WAIT
    write = f" mov.b32 {name}, 0;\n"
    fails("missing-wgmma-fence", f"{name}, which the instruction at PTX line .* accesses",
          once + write + mma + COMMIT + WAIT, form)  # fmt: skip
    fails("missing-wgmma-fence", name, FENCE + write + mma + COMMIT + WAIT, form)
    passes(once + write + FENCE + mma + COMMIT + WAIT, form)


def test_fence_after_accumulators_were_read():
    read = " .reg .b32 %k<1>; add.f32 %k0, %d3, %d4;\n"
    once = FENCE + MMA + COMMIT + WAIT
    fails("missing-wgmma-fence", "%d3", once + read + MMA + COMMIT + WAIT)
    passes(once + read + FENCE + MMA + COMMIT + WAIT)


def test_no_fence_between_those_of_one_shape():
    passes(FENCE + MMA + MMA + COMMIT + MMA + COMMIT + WAIT)


def test_fence_between_shapes():
    narrow = f" {instruction(FORM._replace(n=8))}\n"
    fails("missing-wgmma-fence", "of another shape or role",
          FENCE + MMA + narrow + COMMIT + WAIT)  # fmt: skip
    passes(FENCE + MMA + FENCE + narrow + COMMIT + WAIT)


# --- shared memory ------------------------------------------------------------------------------


def test_missing_proxy_fence():
    fails("missing-proxy-fence", "wgmma.mma_async reads A in shared memory",
          None, proxy_fence=False)  # fmt: skip


def test_shared_memory_that_another_warp_writes_without_a_barrier():
    write = " st.shared.u32 [%i3+-512], %i0;\n fence.proxy.async.shared::cta;\n"
    loose = " mov.u32 %i3, sm; add.u32 %i3, %i3, %i1; add.u32 %i3, %i3, 512;\n" + write
    # Which of the two comes first depends on the schedule.
    fails("race|missing-wait", "wgmma", loose + FENCE + MMA + COMMIT + WAIT)
    passes(loose + " bar.sync 0;\n" + FENCE + MMA + COMMIT + WAIT)


def test_shared_memory_overwritten_while_it_is_read():
    write = " mov.u32 %i3, sm; add.u32 %i3, %i3, %i1; st.shared.u32 [%i3], %i0;\n"
    sync = " bar.sync 0;\n"
    fails("missing-wait", "wgmma may still read it: execute wgmma.commit_group and wgmma",
          FENCE + MMA + COMMIT + sync + write + WAIT)  # fmt: skip
    # All four warps read all of it: a wait without a barrier is not enough for those of others.
    passes(FENCE + MMA + COMMIT + WAIT + sync + write)


def test_group_that_is_not_waited_for_still_reads():
    write = " mov.u32 %i3, sm; add.u32 %i3, %i3, %i1; st.shared.u32 [%i3], %i0;\n"
    second = MMA.replace("%d", "%k").replace("%kesc", "%desc")
    body = " .reg .b32 %k<8>;\n" + FENCE + MMA + COMMIT + second + COMMIT
    fails("missing-wait", "may still read it", body + WAIT_ONE + " bar.sync 0;\n" + write + WAIT)
    passes(body + WAIT + " bar.sync 0;\n" + write)


# --- warpgroups ---------------------------------------------------------------------------------


def launch(text, threads, data):
    Device("sm_90a").load_ptx(text)["k"].launch(1, threads, [a.copy() for a in data.arrays])


@pytest.mark.parametrize("threads", [32, 96, 64])
def test_incomplete_warpgroup(threads):
    text = kernels.kernel(FORM).replace("add.u64 %r0, %r0, 512;", "add.u64 %r0, %r0, 512;")
    data = kernels.make_data(FORM, "small", 0)
    with pytest.raises(EmulatorError, match="the CTA has only the warps 0 to") as error:
        launch(text, threads, data)
    assert error.value.kind == "divergence"


def guarded(body, condition):
    """The body in the warps for which ``condition`` of the warp's number in %i6 holds."""
    return (
        " mov.u32 %i6, %tid.x; shr.u32 %i6, %i6, 5;\n"
        f" setp.{condition} %p1, %i6, 2; @!%p1 bra OVER;\n{body}OVER:\n"
    )


def test_some_warps_of_a_warpgroup():
    body = guarded(FENCE + MMA + COMMIT + WAIT, "ne.u32")
    fails("deadlock|divergence", "warp 2 of the warpgroup (did not execute the|has exited without) "
          "wgmma.fence", body)  # fmt: skip


def test_some_warps_have_exited():
    body = " mov.u32 %i6, %tid.x; setp.lt.u32 %p1, %i6, 32; @%p1 ret;\n"
    fails("divergence", "warp 0 of the warpgroup has exited without wgmma",
          body + FENCE + MMA + COMMIT + WAIT)  # fmt: skip


def test_instruction_that_not_all_execute_before_the_end():
    body = FENCE + MMA + COMMIT + WAIT + guarded(FENCE, "eq.u32")
    fails("divergence", "warp 0, 1, 3 of the warpgroup did not execute the wgmma.fence|"
          "warp . of the warpgroup has exited without wgmma.fence", body)  # fmt: skip


def test_warps_at_different_instructions():
    body = " mov.u32 %i6, %tid.x; setp.lt.u32 %p1, %i6, 32;\n" + FENCE
    body += " @%p1 bra OTHER;\n" + MMA + " bra.uni JOIN;\nOTHER:\n" + MMA + "JOIN:\n"
    fails("divergence", "is executed where warp . of the warpgroup has executed wgmma.mma_async",
          body + COMMIT + WAIT)  # fmt: skip


def test_diverged_warp():
    data = kernels.make_data(FORM, "small", 0)
    text = kernels.kernel(FORM, " and.b32 %i6, %i0, 31; setp.lt.u32 %p1, %i6, 16;\n @%p1 "
                          + FENCE + MMA + COMMIT + WAIT)  # fmt: skip
    with pytest.raises(EmulatorError, match=r"an .aligned instruction is guarded") as error:
        launch(text, 128, data)
    assert error.value.kind == "divergence"


@pytest.mark.parametrize("what", ["descriptor", "scale"])
def test_operands_that_differ_between_warps(what):
    body = " mov.u32 %i6, %tid.x; setp.lt.u32 %p1, %i6, 96;\n"
    body += (
        " @%p1 add.u64 %descB, %descB, 64;\n" if what == "descriptor" else " mov.pred %acc, %p1;\n"
    )
    fails("illegal-operand", "the same matrix descriptors and the same scale-d",
          body + FENCE + MMA + COMMIT + WAIT)  # fmt: skip


# --- descriptors and forms ----------------------------------------------------------------------


def test_descriptor_outside_of_shared_memory():
    body = " and.b64 %descB, %descB, 0xffffffffffffc000; or.b64 %descB, %descB, 0x3ff0;\n"
    fails("out-of-bounds", "operand B of wgmma.mma_async reaches outside of the CTA's",
          body + FENCE + MMA + COMMIT + WAIT)  # fmt: skip


@pytest.mark.parametrize("bit", [14, 15, 30, 31, 46, 48, 52, 61])
def test_reserved_bits(bit):
    body = f" or.b64 %descA, %descA, {1 << bit:#x};\n"
    fails("descriptor", "of A: reserved bits", body + FENCE + MMA + COMMIT + WAIT)


def test_start_off_the_pattern_is_a_warning():
    data = kernels.make_data(FORM, "small", 0)
    body = " add.u64 %descB, %descB, 8;\n" + FENCE + MMA + COMMIT + WAIT
    module = Device("sm_90a").load_ptx(kernels.kernel(FORM, body))
    with pytest.warns(UserWarning, match="of B: start .* is not in the first line"):
        module["k"].launch(1, 128, data.arrays)


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("m64n16k16", "m64n16k8", "must be .m64nNk16"),
        ("m64n16k16", "m64n12k16", "must be a multiple of 8 up to 256"),
        (".f32.f16.f16", ".f32.f16.bf16", "does not multiply .f16 with .bf16"),
        (".f32.f16.f16", ".s32.f16.f16", "must be f16 or f32, not .s32"),
        (".f32.f16.f16", ".f16.bf16.bf16", "must be f32, not .f16"),
        (".f32.f16.f16", ".satfinite.f32.f16.f16", "satfinite"),
        (".f32.f16.f16", ".f32.f16.f16.and.popc", "and.popc"),
        ("1, 1, 0, 0", "2, 1, 0, 0", "imm-scale-a of wgmma.mma_async is 1 or -1, not 2"),
        ("1, 1, 0, 0", "1, 1, 0, 2", "imm-trans-b of wgmma.mma_async is 0 or 1, not 2"),
        ("1, 1, 0, 0", "1, 1, 0, 0, 0", "takes 8 operands here, but 9"),
        ("%d6, %d7}", "%d6}", "needs 8 registers for D, not 7"),
        ("wgmma.fence.sync.aligned", "wgmma.fence.sync", ".sync.aligned is mandatory"),
    ],
)
def test_forms_that_do_not_exist(old, new, match):
    text = kernels.kernel(FORM)
    assert old in text
    with pytest.raises(EmulatorError, match=match):
        Device("sm_90a").load_ptx(text.replace(old, new))["k"].launch(1, 128, [0, 0, 0, 0])


def assembles(text, path):
    path.write_text(text)
    command = [find_ptxas(), "-arch=sm_90a", path, "-o", path.with_suffix(".cubin")]
    return subprocess.run(command, capture_output=True).returncode == 0


@pytest.mark.parametrize("types", ["s8.u8", "b1.b1"])
@pytest.mark.parametrize("n", [24, 40, 48, 56, 224, 232, 240, 256])
def test_columns_are_those_of_ptxas(tmp_path, types, n):
    a, b = types.split(".")
    text = kernels.kernel(Form(a, b, "s32", n))
    try:
        Device("sm_90a").load_ptx(text)["k"]
    except EmulatorError:
        assert not assembles(text, tmp_path / "k.ptx")
    else:
        assert assembles(text, tmp_path / "k.ptx")


def test_sm_90a_only():
    with pytest.raises(EmulatorError, match="sm_90a"):
        Device("sm_100a").load_ptx(kernels.kernel(FORM).replace("sm_90a", "sm_100a"))["k"]


def test_message_names_the_lines():
    body = FENCE + MMA + COMMIT + " mov.b32 %d1, 0;\n" + WAIT
    text = kernels.kernel(FORM, body)
    line = next(i for i, s in enumerate(text.split("\n"), 1) if "wgmma.mma_async" in s)
    data = kernels.make_data(FORM, "small", 0)
    with pytest.raises(EmulatorError) as error:
        launch(text, 128, data)
    assert re.search(rf"the wgmma.mma_async at PTX line {line}\b", str(error.value))
    assert np.array_equal(data.arrays[-1], np.full_like(data.arrays[-1], kernels.POISON))
