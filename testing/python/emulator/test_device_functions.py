"""Device functions that cannot be inlined: recursion, calls by address, stacks, and the heap."""

import numpy as np
import pytest
from ptx_kernels import HEADER

from tilelang.emulator import Device, EmulatorError

RNG = np.random.default_rng(11)
THREADS = 64
LANE = np.arange(THREADS)

RECURSION = """
__device__ __noinline__ int fibonacci(int n) {
  return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}
__device__ __noinline__ int ackermann(int m, int n) {
  if (m == 0) return n + 1;
  if (n == 0) return ackermann(m - 1, 1);
  return ackermann(m - 1, ackermann(m, n - 1));
}
__device__ bool is_odd(int n);
__device__ __noinline__ bool is_even(int n) { return n == 0 ? true : is_odd(n - 1); }
__device__ __noinline__ bool is_odd(int n) { return n == 0 ? false : is_even(n - 1); }
extern "C" __global__ void k(int* fib, int* ack, int* even) {
  int t = threadIdx.x;
  fib[t] = fibonacci(t % 12);
  if (t % 5) ack[t] = ackermann(t % 3, t % 7);
  even[t] = is_even(t);
}
"""


def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def ackermann(m, n):
    if m == 0:
        return n + 1
    return ackermann(m - 1, 1 if n == 0 else ackermann(m, n - 1))


@pytest.mark.parametrize("options", [[], ["-G"]], ids=["optimised", "debug"])
def test_recursion(options):
    fib, ack, even = (np.full(THREADS, -1, np.int32) for _ in range(3))
    module = Device("sm_90a").load_cuda(RECURSION, options=options)
    module["k"].launch(1, THREADS, [fib, ack, even], schedule=3)
    assert fib.tolist() == [fibonacci(t % 12) for t in LANE]
    assert ack.tolist() == [ackermann(t % 3, t % 7) if t % 5 else -1 for t in LANE]
    assert even.tolist() == [t % 2 == 0 for t in LANE]


BY_ADDRESS = """
typedef float (*Function)(float);
__device__ __noinline__ float next(float x) { return x + 1; }
__device__ __noinline__ float square(float x) { return x * x; }
__device__ __noinline__ float root(float x) { return sqrtf(x) - 2; }
__device__ Function table[3] = {next, square, root};
__constant__ Function other[3] = {root, next, square};
extern "C" __global__ void table_of(const int* which, float* out) {
  int t = threadIdx.x;
  Function local = which[t] > 1 ? next : square;
  out[t] = table[which[t]](t) + 100 * other[which[t]](t) + local(3 * t);
}
struct Shape {
  float width;
  __device__ Shape(float width) : width(width) {}
  __device__ virtual float area(float x) const = 0;
  __device__ virtual ~Shape() {}
};
struct Rectangle : Shape {
  __device__ Rectangle(float width) : Shape(width) {}
  __device__ float area(float x) const override { return width * x; }
};
struct Trapezoid : Shape {
  float slope;
  __device__ Trapezoid(float width, float slope) : Shape(width), slope(slope) {}
  __device__ float area(float x) const override { return width * x + slope * x * x; }
};
extern "C" __global__ void virtual_of(const int* which, float* out) {
  int t = threadIdx.x;
  Shape* shape = which[t] ? (Shape*)new Rectangle(t) : new Trapezoid(t, 2);
  out[t] = shape->area(5);
  delete shape;
}
"""


@pytest.mark.parametrize("options", [[], ["-G"]], ids=["optimised", "debug"])
def test_calls_by_address(options):
    """Lanes of a warp call different functions, through tables and of objects on the heap."""
    module = Device("sm_90a").load_cuda(BY_ADDRESS, options=options)
    which = RNG.integers(0, 3, THREADS).astype(np.int32)
    out = np.zeros(THREADS, np.float32)
    module["table_of"].launch(1, THREADS, [which, out])
    functions = [lambda x: x + 1, lambda x: x * x, lambda x: np.sqrt(x) - 2]
    expected = [
        functions[w](t) + 100 * functions[w - 1](t) + functions[0 if w > 1 else 1](3 * t)
        for w, t in zip(which, LANE.astype(np.float64), strict=True)
    ]
    np.testing.assert_allclose(out, expected, rtol=1e-6)
    module["virtual_of"].launch(1, THREADS, [which, out])
    assert out.tolist() == np.where(which, 5 * LANE, 5 * LANE + 50).tolist()


SORT = """
typedef int (*Compare)(const void*, const void*);
__device__ __noinline__ int up(const void* a, const void* b) { return *(int*)a - *(int*)b; }
__device__ __noinline__ int down(const void* a, const void* b) { return *(int*)b - *(int*)a; }
__device__ __noinline__ void quick_sort(int* x, int low, int high, Compare compare) {
  if (low >= high) return;
  int pivot = x[(low + high) / 2], i = low, j = high;
  while (i <= j) {
    while (compare(&x[i], &pivot) < 0) i++;
    while (compare(&x[j], &pivot) > 0) j--;
    if (i > j) break;
    int swapped = x[i];
    x[i++] = x[j];
    x[j--] = swapped;
  }
  quick_sort(x, low, j, compare);
  quick_sort(x, i, high, compare);
}
extern "C" __global__ void k(int* x, int n) {
  int* row = x + threadIdx.x * n;
  int local[40];
  for (int i = 0; i < n; i++) local[i] = row[i];
  quick_sort(local, 0, n - 1, threadIdx.x % 2 ? up : down);
  for (int i = 0; i < n; i++) row[i] = local[i];
}
"""


def test_sorting_with_a_comparator():
    """Recursion of a function that calls by address, on arrays of the stack."""
    x = RNG.integers(-1000, 1000, (THREADS, 33)).astype(np.int32)
    expected = np.sort(x, axis=1)
    expected[::2] = expected[::2, ::-1]
    Device("sm_80").load_cuda(SORT)["k"].launch(1, THREADS, [x, 33])
    np.testing.assert_array_equal(x, expected)


def test_lanes_meet_again_after_calls():
    """Lanes that return from different depths and functions take part in one shuffle."""
    source = """
__device__ __noinline__ int depth(int n) { return n == 0 ? 0 : 1 + depth(n - 1); }
__device__ __noinline__ int twice(int n) { return 2 * n; }
__device__ int (*table[2])(int) = {depth, twice};
__device__ __noinline__ int sum(int x) {
  for (int d = 16; d; d /= 2) x += __shfl_xor_sync(-1, x, d);
  return x;
}
extern "C" __global__ void k(int* out) {
  __shared__ int tile[64];
  int t = threadIdx.x;
  tile[t] = table[t % 2](t % 11);
  __syncthreads();
  out[t] = sum(tile[63 - t]) + __activemask();
}
"""
    out = np.zeros(THREADS, np.int32)
    for schedule in ("late", "eager", 1):
        Device("sm_80").load_cuda(source)["k"].launch(1, THREADS, [out], schedule=schedule)
        values = np.where(LANE % 2, 2 * (LANE % 11), LANE % 11)
        assert out.tolist() == np.repeat(values.reshape(2, 32).sum(1)[::-1] - 1, 32).tolist()


def test_parameters_in_registers_and_guards():
    """A call with a guard; a parameter and a predicate that a recursive function keeps."""
    text = (
        HEADER
        + """
.func (.reg .b32 out) power(.reg .b32 n) {
  .reg .b32 %r<4>; .reg .pred %p<2>;
  mov.u32 out, 1; setp.eq.u32 %p1, n, 0; @%p1 ret;
  and.b32 %r1, n, 1; setp.ne.u32 %p0, %r1, 0; shr.u32 %r2, n, 1;
  call (%r3), power, (%r2);
  mul.lo.u32 out, %r3, %r3; @%p0 mul.lo.u32 out, out, 3; ret; }
.visible .entry k(.param .u64 p) {
  .reg .b64 %d<2>; .reg .b32 %r<4>; .reg .pred %p<2>;
  ld.param.u64 %d0, [p]; mov.u32 %r0, %tid.x; mad.wide.u32 %d0, %r0, 4, %d0;
  mov.u32 %r1, 7; and.b32 %r2, %r0, 1; setp.ne.u32 %p0, %r2, 0;
  @%p0 call (%r1), power, (%r0);
  st.global.u32 [%d0], %r1; ret; }
"""
    )
    out = np.zeros(32, np.uint32)
    Device("sm_100a").load_ptx(text)["k"].launch(1, 32, [out])
    assert out.tolist() == [pow(3, t, 1 << 32) if t % 2 else 7 for t in range(32)]


ALLOCA = (
    HEADER
    + """
.func (.param .b32 out) backwards(.param .b32 count, .param .b32 factor) {
  .reg .b32 %r<6>; .reg .b64 %d<4>; .reg .pred %p<2>;
  ld.param.b32 %r0, [count]; ld.param.b32 %r1, [factor];
  mul.wide.u32 %d0, %r0, 4; alloca.u64 %d1, %d0, 16; mov.u64 %d2, %d1; mov.u32 %r2, 0;
A: mul.lo.u32 %r3, %r2, %r1; st.local.b32 [%d2], %r3; add.u64 %d2, %d2, 4; add.u32 %r2, %r2, 1;
  setp.lt.u32 %p0, %r2, %r0; @%p0 bra A; mov.u32 %r4, 0;
B: add.u64 %d2, %d2, -4; ld.local.b32 %r3, [%d2]; mad.lo.u32 %r4, %r4, 3, %r3;
  setp.ne.u64 %p0, %d2, %d1; @%p0 bra B;
  st.param.b32 [out], %r4; ret; }
.visible .entry k(.param .u64 p, .param .u32 n, .param .u32 times) {
  .reg .b32 %r<8>; .reg .b64 %d<2>; .reg .pred %p<2>; .param .b32 a; .param .b32 b; .param .b32 c;
  ld.param.u64 %d0, [p]; mov.u32 %r0, %tid.x; mad.wide.u32 %d0, %r0, 4, %d0;
  ld.param.u32 %r1, [n]; and.b32 %r2, %r0, 3; add.u32 %r1, %r1, %r2; ld.param.u32 %r3, [times];
L: st.param.b32 [a], %r1; st.param.b32 [b], %r0; call (c), backwards, (a, b);
  ld.param.b32 %r4, [c]; sub.u32 %r3, %r3, 1; setp.ne.u32 %p0, %r3, 0; @%p0 bra L;
  st.global.b32 [%d0], %r4; ret; }
"""
)


def test_alloca():
    """A function's memory is free again when it has returned."""
    kernel = Device("sm_100a").load_ptx(ALLOCA)["k"]
    out = np.zeros(THREADS, np.uint32)
    kernel.launch(1, THREADS, [out, 1000, 50])
    expected = [sum(pow(3, i, 1 << 32) * i * t for i in range(1000 + t % 4)) for t in LANE.tolist()]
    assert out.tolist() == [x % (1 << 32) for x in expected]
    with pytest.raises(EmulatorError, match="thread's stack") as caught:
        kernel.launch(1, THREADS, [out, 1 << 20, 1])
    assert caught.value.kind == "stack-overflow"


def test_the_stack_is_set_back():
    text = (
        HEADER
        + """.visible .entry k(.param .u64 p) {
  .reg .b64 %d<5>; .reg .b32 %r<3>; .reg .pred %p<2>; mov.u32 %r0, 0;
  ld.param.u64 %d4, [p]; stacksave.u64 %d0;
L: alloca.u64 %d1, 4096, 64; st.local.u32 [%d1+4092], %r0; ld.local.u32 %r1, [%d1+4092];
  stackrestore.u64 %d0; add.u32 %r0, %r0, 1; setp.lt.u32 %p0, %r0, 100; @%p0 bra L;
  and.b64 %d2, %d1, 63; st.global.u64 [%d4], %d2; st.global.u32 [%d4+8], %r1;
  WRONG ret; }"""
    )
    out = np.full(4, 7, np.uint32)
    Device("sm_100a").load_ptx(text.replace("WRONG", ""))["k"].launch(1, 1, [out])
    assert out.tolist() == [0, 0, 99, 7]
    for wrong, kind in {
        "ld.local.u32 %r1, [%d1];": "out-of-bounds",
        "add.u64 %d0, %d0, 8; stackrestore.u64 %d0;": "illegal-operand",
    }.items():
        with pytest.raises(EmulatorError) as caught:
            Device("sm_100a").load_ptx(text.replace("WRONG", wrong))["k"].launch(1, 1, [out])
        assert caught.value.kind == kind


LISTS = """
struct Node { int value; Node* next; };
__device__ Node* heads[64];
extern "C" __global__ void build(int n) {
  Node* head = nullptr;
  for (int i = 0; i < n + threadIdx.x % 3; i++) {
    Node* node = (Node*)malloc(sizeof(Node));
    node->value = i * threadIdx.x;
    node->next = head;
    head = node;
  }
  heads[threadIdx.x] = head;
}
extern "C" __global__ void sums(int* out) {
  int sum = 0;
  for (Node* node = heads[63 - threadIdx.x]; node;) {
    Node* next = node->next;
    sum += node->value;
    free(node);
    node = next;
  }
  out[63 - threadIdx.x] = sum;
}
extern "C" __global__ void wrong(int which, int* out) {
  int* p = (int*)malloc(12);
  p[0] = 1;
  if (which == 0) out[0] = p[3];
  if (which == 1) free(p + 1);
  free(p);
  if (which == 2) free(p);
  if (which == 3) out[0] = p[0];
  out[0] = malloc(100 << 20) == nullptr;
}
"""


def test_the_heap_outlives_a_launch():
    module = Device("sm_80").load_cuda(LISTS)
    for n in (5, 8):
        out = np.zeros(THREADS, np.int32)
        module["build"].launch(1, THREADS, [n])
        module["sums"].launch(1, THREADS, [out])
        assert out.tolist() == [sum(i * t for i in range(n + t % 3)) for t in LANE]


@pytest.mark.parametrize(
    ("which", "kind", "words"),
    [
        (0, "out-of-bounds", "byte 12 of a block from malloc of 12 bytes"),
        (1, "illegal-operand", "free of"),
        (2, "illegal-operand", "or has been freed"),
        (3, "out-of-bounds", "has been freed"),
    ],
)
def test_wrong_uses_of_the_heap(which, kind, words):
    kernel = Device("sm_80").load_cuda(LISTS)["wrong"]
    out = np.zeros(1, np.int32)
    with pytest.raises(EmulatorError, match=words) as caught:
        kernel.launch(1, 1, [which, out])
    assert caught.value.kind == kind
    kernel.launch(1, 1, [9, out])
    assert out[0] == 1


WRONG = HEADER + """
.func (.param .b32 r) unary(.param .b32 x) {
  .reg .b32 %v; ld.param.b32 %v, [x]; st.param.b32 [r], %v; ret; }
.func (.param .b32 r) endless(.param .b32 x) {
  .reg .b32 %v; .param .b32 a; .param .b32 b; ld.param.b32 %v, [x]; st.param.b32 [a], %v;
  call (b), endless, (a); ld.param.b32 %v, [b]; st.param.b32 [r], %v; ret; }
.func (.param .b64 r) dangling() {
  .reg .b64 %d; .local .align 8 .b8 here[8]; mov.u64 %d, here; alloca.u64 %d, 64;
  st.param.b64 [r], %d; ret; }
.extern .func (.param .b32 r) nowhere(.param .b32 x);
.visible .entry k(.param .u64 p, .param .u32 which) {
  .reg .b64 %d<4>; .reg .b32 %v<4>; .param .b32 a; .param .b32 b; .param .b64 wide;
  ld.param.u64 %d0, [p]; ld.param.u32 %v0, [which]; mov.u32 %v1, 5; st.param.b32 [a], %v1;
  prototype: .callprototype (.param .b32 _) _ (.param .b32 _);
  BODY
  st.global.u32 [%d0], %v1; ret; }
"""  # fmt: skip


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        ("mov.u64 %d1, unary; call (b), %d1, (a), prototype; ld.param.b32 %v1, [b];", None, ""),
        ("mov.u64 %d1, 64; call (b), %d1, (a), prototype;", "illegal-operand",
         "call of 0x40, which is not the address of a function"),
        ("mov.u64 %d1, dangling; call (b), %d1, (a), prototype;", "illegal-operand",
         "call of 'dangling' by its address: the call has other arguments"),
        ("mov.u64 %d1, nowhere; call (b), %d1, (a), prototype;", "illegal-operand",
         "call of 'nowhere' by its address"),
        ("call (b), endless, (a);", "stack-overflow", "1[0-9]{3} calls deep"),
        ("call (wide), dangling, (); ld.param.b64 %d1, [wide]; ld.local.b32 %v1, [%d1];",
         "out-of-bounds", "outside of the thread's local memory"),
        ("call (wide), endless, (a);", "illegal-operand", "results of other sizes"),
        ("call (b), cudaLaunchDeviceV2, (a);", "unsupported", "dynamic parallelism"),
    ],
    ids=["right", "no function", "signature", "no body", "endless", "dangling", "sizes", "launch"],
)  # fmt: skip
def test_wrong_calls(body, kind, words):
    out = np.zeros(1, np.uint32)

    def run():
        text = WRONG.replace("BODY", body)
        Device("sm_100a").load_ptx(text)["k"].launch(1, 1, [out, 0])

    if kind is None:
        run()
        assert out[0] == 5
        return
    with pytest.raises(EmulatorError, match=words) as caught:
        run()
    assert caught.value.kind == kind


def test_calls_are_not_timed():
    kernel = Device("sm_100a").load_ptx(ALLOCA)["k"]
    with pytest.raises(EmulatorError, match="cannot be timed"):
        kernel.launch(1, 32, [np.zeros(32, np.uint32), 1, 1], timing=True)


def test_a_race_in_a_function_has_its_line():
    source = """
__device__ __noinline__ void spread(float* tile, int n) {
  if (n) return spread(tile, n - 1);
  tile[threadIdx.x] = threadIdx.x;
}
extern "C" __global__ void k(float* out) {
  __shared__ float tile[64];
  spread(tile, 2);
  out[threadIdx.x] = tile[63 - threadIdx.x];
}
"""
    with pytest.raises(EmulatorError) as caught:
        Device("sm_80").load_cuda(source)["k"].launch(1, THREADS, [np.zeros(64, np.float32)])
    assert caught.value.kind == "race"
    assert {caught.value.span.line, caught.value.earlier_span.line} == {4, 9}
