"""Programs of absurd size or depth are errors with a line, in bounded time and memory."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
from ptx_kernels import HEADER

from tilelang.emulator import Device, EmulatorError

ENTRY = HEADER + ".visible .entry k() {{ .reg .b32 %r<9>; {} ret; }}\n"


def at_module(declaration):
    return HEADER + declaration + "\n" + ENTRY[len(HEADER) :].format("")


def calls(functions, each):
    """A chain of functions, each calling the next one ``each`` times."""
    text = HEADER + f".func f{functions}() {{ ret; }}\n"
    for i in reversed(range(functions)):
        text += f".func f{i}() {{ {f'call.uni f{i + 1}, (); ' * each}ret; }}\n"
    return text + ".visible .entry k() { call.uni f0, (); ret; }\n"


NESTED = 20000
TOO_MUCH = {
    "parentheses": (ENTRY.format(f"mov.b32 %r1, {'(' * NESTED}1{')' * NESTED};"), "nest deeper"),
    "signs": (ENTRY.format(f"mov.b32 %r1, {'-' * NESTED}1;"), "nest deeper"),
    "negations": (ENTRY.format(f"mov.b32 %r1, {'!' * NESTED}%r1;"), "nest deeper"),
    "vectors": (ENTRY.format(f"mov.b32 %r1, {'{' * NESTED}1{'}' * NESTED};"), "nest deeper"),
    "addresses": (ENTRY.format(f"ld.u32 %r1, {'[' * NESTED}1{']' * NESTED};"), "nest deeper"),
    "generic": (
        at_module(f".global .b64 z = {'generic(' * NESTED}1{')' * NESTED};"),
        "expected",
    ),
    "initial values": (
        at_module(f".global .b32 z[] = {'{' * NESTED}1{'}' * NESTED};"),
        "nest deeper",
    ),
    "blocks": (ENTRY.format("{" * NESTED + "}" * NESTED), "blocks nest deeper"),
    "calls in depth": (calls(5000, 1), "calls nest deeper"),
    "calls in breadth": (calls(60, 2), "more than 1048576 instructions"),
    "local": (ENTRY.format(".local .align 4 .b8 z[4000000000];"), "local memory"),
    "local in sum": (ENTRY.format("".join(f".local .b8 z{i}[9999999];" for i in range(9))), "z1"),
    "shared": (ENTRY.format(".shared .align 4 .b8 z[4000000000];"), "shared memory"),
    "registers": (ENTRY.format("add.u32 %r1, %v0.x, %v1.y;"), "not declared"),
    "constants": (at_module(".const .b8 z[65537];"), "exceed 65536 bytes"),
    "global": (at_module(".global .align 4 .b8 z[999999999999];"), "68719476736"),
    "more than a host has": (at_module(".global .b8 z[999999999999999];"), "must be 0 to"),
    "extents that wrap": (at_module(f".global .b8 z{'[1099511627776]' * 2};"), "larger than"),
    "parameters": (HEADER + ".entry k(.param .b8 p[99999]) { ret; }", "would exceed 32764"),
    "negative parameter": (HEADER + ".entry k(.param .b8 p[-1]) { ret; }", "not -1"),
    "negative range": (ENTRY.format(".reg .b32 %q<-1>;"), "not -1"),
    "large range": (ENTRY.format(".reg .b32 %q<99999999999>;"), "not 99999999999"),
    "alignment": (ENTRY.format(".local .align 3 .b32 z;"), "power of two"),
    "no alignment": (ENTRY.format(".local .align 0 .b32 z;"), ".align must be 1 to"),
    "large alignment": (at_module(".global .align 4294967296 .b32 z;"), ".align must be"),
    "integer": (ENTRY.format("mov.u64 %r1, 99999999999999999999;"), "more than 64 bits"),
    "float": (ENTRY.format("mov.f64 %r1, 1e999;"), "out of the range"),
    "four extents": (HEADER + ".entry k() .reqntid 1, 1, 1, 1 { ret; }", "one to three"),
    "attribute without end": (HEADER + ".global .attribute(.managed .b32 z;", "')' expected"),
}


@pytest.mark.parametrize("name", TOO_MUCH)
def test_too_much(name):
    text, complaint = TOO_MUCH[name]
    with pytest.raises(EmulatorError) as caught:
        Device("sm_100a").load_ptx(text)
    assert complaint in caught.value.reason
    assert caught.value.kind in ("syntax", "too-large", "illegal-operand")
    assert caught.value.ptx_line >= 4


@pytest.mark.parametrize(
    ("declarations", "complaint"),
    [
        (".global .b32 z; .global .b64 z;", "declared twice"),
        # The second is smaller than the initial values of the first.
        (".const .b8 z[4000] = {1, 2, 3}; .const .b8 z[1];", "declared twice"),
        (".shared .b32 z = 1;", "no initial value"),
        (".global .b32 z[2] = {1, 2, 3};", "more initial values"),
        (".entry k() { ret; }", "'k' is defined twice"),
    ],
)
def test_module_variables(declarations, complaint):
    with pytest.raises(EmulatorError, match=complaint):
        Device("sm_100a").load_ptx(at_module(declarations))


def test_constants_of_128_bits():
    """The upper half of an initial value is zero."""
    text = (
        HEADER
        + ".const .align 16 .b128 z[2] = {7, 9};\n"
        + (
            ".visible .entry k(.param .u64 p) { .reg .b64 %d<6>; ld.param.u64 %d0, [p];"
            " ld.const.v2.u64 {%d1, %d2}, [z]; ld.const.v2.u64 {%d3, %d4}, [z+16];"
            " st.global.v2.u64 [%d0], {%d1, %d2}; st.global.v2.u64 [%d0+16], {%d3, %d4}; ret; }"
        )
    )
    out = np.full(4, -1, np.int64)
    Device("sm_100a").load_ptx(text)["k"].launch(1, 1, [out])
    assert out.tolist() == [7, 0, 9, 0]


def test_a_range_may_declare_more_registers_than_there_is_memory():
    text = ENTRY.format(".reg .v4 .b32 %v<2000000000>; add.u32 %r1, %v0.x, %v1999999999.w;")
    Device("sm_100a").load_ptx(text)["k"].launch(1, 1, [])


def test_untouched_local_memory_costs_nothing():
    """Eight megabytes for each of 32768 threads."""
    text = ENTRY.format(".local .b8 z[8388608]; st.local.u32 [z+8388604], 1;")
    Device("sm_100a").load_ptx(text)["k"].launch(32, 1024, [])


@pytest.mark.parametrize("address", ["0xFFFFFFFFFFFFFFFC", "0xFFFFFFFFFFFFFFF8"])
@pytest.mark.parametrize("space", ["local", "const", "param", "shared", "global", ""])
def test_addresses_that_wrap_around(address, space):
    """The end of the access lies at a small address again."""
    body = f".reg .b64 %d<2>; .local .b32 z; mov.u64 %d0, {address};"
    body += f" ld{'.' * bool(space)}{space}.v2.u64 {{%d1, %d1}}, [%d0];"
    with pytest.raises(EmulatorError) as caught:
        Device("sm_100a").load_ptx(ENTRY.format(body))["k"].launch(1, 1, [])
    assert caught.value.kind in ("out-of-bounds", "illegal-operand", "misaligned")


def test_size_of_a_bulk_copy():
    body = (
        ".shared .align 16 .b8 s[64]; .reg .b64 %d0; mov.u64 %d0, 0; mov.u32 %r1, s;"
        " cp.async.bulk.global.shared::cta.bulk_group [%d0], [%r1], 4294967280;"
    )
    with pytest.raises(EmulatorError, match="is larger than shared memory"):
        Device("sm_100a").load_ptx(ENTRY.format(body))["k"].launch(1, 1, [])


def in_child(code, megabytes):
    """Runs ``code`` in a process of its own, with so much address space beyond what it starts
    with."""
    limit = f"""
import resource
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + ({megabytes} << 20),) * 2)
"""
    head = "import numpy as np\nfrom tilelang.emulator import Device, EmulatorError\n"
    head += "from tilelang import _ffi\n_ffi.get('emulator.Device')\n"
    text = head + limit + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


FILL = HEADER + (
    ".visible .entry k(.param .u64 p) { .reg .b32 %r<9>; .reg .b64 %d<3>; ld.param.u64 %d0, [p];"
    " mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mad.lo.u32 %r0, %r1, 1024, %r0;"
    " mad.wide.u32 %d1, %r0, 16, %d0; st.global.v4.b32 [%d1], {%r0, %r0, %r0, %r0}; ret; }"
)
LOCAL = ENTRY.format(
    ".local .b8 z[16000000]; mov.u32 %r1, 0; L: st.local.u8 [z], %r1; add.u32 %r1, %r1, 1; bra L;"
)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_a_host_without_memory(threads):
    """What a launch needs is an error of the caller, and released: a smaller launch runs."""
    out = in_child(
        f"""
        device = Device()
        kernel = device.load_ptx({FILL!r})["k"]
        big, small = np.zeros(1 << 26, np.uint8), np.zeros(1 << 20, np.uint8)
        try:
            kernel.launch(1 << 12, 1024, [big], threads={threads})
        except EmulatorError as error:
            print(error.kind, error.reason)
        kernel.launch(1 << 6, 1024, [small], threads={threads})
        print(int(small[-4:].view(np.uint32)[0]))
        kernel = device.load_ptx({LOCAL!r})["k"]
        try:
            kernel.launch(8, 1024, [], threads={threads})
        except EmulatorError as error:
            print(error.kind, error.reason)
        """,
        200,
    ).splitlines()
    assert out[0].startswith("out-of-memory") and "the sanitizer keeps" in out[0]
    assert out[1] == str((1 << 16) - 1)
    assert out[2].startswith("out-of-memory") and "local memory of" in out[2]


def test_global_variables_without_memory_are_released():
    text = HEADER + ".global .b8 a[209715200];\n.global .b8 b[{}];\n.entry k() {{ ret; }}"
    out = in_child(
        f"""
        device = Device()
        for i in range(4):
            try:
                device.load_ptx({text.format(1 << 34)!r})
            except EmulatorError as error:
                print(error.kind, error.ptx_line, error.reason)
        device.load_ptx({text.format(16)!r})
        print("loaded")
        """,
        600,
    ).splitlines()
    assert out[:4] == ["out-of-memory 5 the host has no room for 'b' of 17179869184 bytes"] * 4
    assert out[4] == "loaded"


@pytest.mark.parametrize("flags", ["%nd", "%hhnd", "%$d", "%\\\\d", "%5", "%"])
def test_formats_that_c_does_not_have(flags, capsys):
    """The host's printf does not see them."""
    codes = ", ".join(str(ord(c)) for c in f"<{flags}>") + ", 0"
    text = (
        HEADER
        + f".global .b8 f[] = {{{codes}}};\n"
        + (
            ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);"
            ".entry k() { .local .align 8 .b8 args[16]; .reg .b64 %d<3>; .reg .b32 %r0;"
            " mov.u64 %d0, f; mov.u64 %d1, args; cvta.local.u64 %d1, %d1; mov.b32 %r0, 1;"
            " st.local.u64 [args], 0; st.local.u64 [args+8], 0;"
            " { .param .b64 p0; st.param.b64 [p0], %d0; .param .b64 p1; st.param.b64 [p1], %d1;"
            " .param .b32 r; call.uni (r), vprintf, (p0, p1); } ret; }"
        )
    )
    Device("sm_100a").load_ptx(text)["k"].launch(1, 1, [])
    assert capsys.readouterr().out == f"<{flags}>"
