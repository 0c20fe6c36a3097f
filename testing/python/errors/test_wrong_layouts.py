"""Annotated layouts whose threads are not those of the operators."""

from wrong_kernels import cases, check

import tilelang
import tilelang.language as T


def case_fragment_of_more_threads_than_there_are():
    """LayoutError: the annotated layout of f (float32[256] in a fragment) has elements
    in threads 0 to 255, but threads 0 to 127 execute this operator
    ... threads=256"""

    @T.prim_func
    def main(A: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=128):
            f = T.alloc_fragment((256,), "float32")
            T.annotate_layout({f: T.Fragment((256,), forward_thread_fn=lambda i: i)})
            T.copy(A, f)  # WRONG

    tilelang.compile(main, target="sm_90a")


def case_fragment_of_the_threads_of_another_role():
    """LayoutError: has elements in threads 0 to 127, but threads 128 to 255 execute
    this operator"""

    @T.prim_func
    def main(A: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=256):
            f = T.alloc_fragment((128,), "float32")
            T.annotate_layout({f: T.Fragment((128,), forward_thread_fn=lambda i: i)})
            with T.ws(1):
                T.copy(A, f)  # WRONG

    tilelang.compile(main, target="sm_90a")


def case_loop_layout_of_another_shape():
    """LayoutError: loop_layout= of this loop must be a T.Fragment of shape (128), not of
    shape (64)"""

    @T.prim_func
    def main(A: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            layout = T.Fragment((64,), forward_thread_fn=lambda i: i)
            for i in T.Parallel(128, loop_layout=layout):  # WRONG
                A[i] = 1

    tilelang.compile(main, target="sm_90a")


@cases(globals())
def test_wrong_roles(case):
    check(case)
