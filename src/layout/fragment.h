/*!
 * Fragments: tiles held in the registers of many threads.
 */
#ifndef TILELANG_LAYOUT_FRAGMENT_H_
#define TILELANG_LAYOUT_FRAGMENT_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "layout/layout.h"

namespace tilelang::layout {

/*! What it takes to bring a value from one fragment into another, cheapest first. */
enum class Conversion : int {
  kIdentical = 0,  // every copy is already where it is wanted
  kRegisters = 1,  // each thread permutes its own registers
  kShuffle = 2,    // values move between threads of one warp
  kShared = 3,     // values cross warps, through shared memory
};

/*!
 * A map  (coordinate, replica) -> (thread, reg): the thread is thread(coordinate) +
 * replica(replica), the index in that thread's local array is reg(coordinate). Replicas hold
 * copies of the same value. No slot (thread, reg) holds two elements.
 */
class FragmentNode : public ffi::Object {
 public:
  Layout thread;
  Layout reg;
  Layout replica;

  FragmentNode(Layout thread, Layout reg, Layout replica)
      : thread(std::move(thread)), reg(std::move(reg)), replica(std::move(replica)) {}

  static constexpr TVMFFISEqHashKind _type_s_eq_hash_kind = kTVMFFISEqHashKindTreeNode;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.Fragment", FragmentNode, ffi::Object);

  Coord Extents() const { return thread->Extents(); }
  size_t Rank() const { return thread->Rank(); }
  /*! Number of elements, replicas not counted. */
  int64_t Size() const { return thread->Size(); }
  /*! Largest thread index plus one. */
  int64_t NumThreads() const { return thread->Cosize() + replica->Cosize() - 1; }
  /*! Length of each thread's local array, in elements. */
  int64_t RegsPerThread() const { return reg->Cosize(); }
  /*! Number of copies of each element. */
  int64_t Replicas() const { return replica->Size(); }

  /*! (thread, reg) of an element's copy; raises BoundsError outside the shape. */
  std::pair<int64_t, int64_t> Forward(const Coord& coord, int64_t rep = 0) const;
  /*! The element (and which copy) in a slot; nothing where the slot is padding. */
  std::optional<std::pair<Coord, int64_t>> Inverse(int64_t thread_index, int64_t reg_index) const;
  /*! Slot thread * RegsPerThread() + reg -> replica * Size() + linear index, or -1 (padding). */
  const std::vector<int64_t>& InverseTable() const;
  /*! Every slot of threads [0, NumThreads()) holds an element: no padding. */
  bool IsBijective() const;
  /*! Length of the aligned runs along `dim` that lie in consecutive registers of one thread. */
  int64_t VectorWidth(size_t dim) const;
  std::string ToString() const;

 private:
  mutable std::vector<int64_t> inverse_;  // cache of InverseTable()
};

class Fragment : public ffi::ObjectRef {
 public:
  /*! Raises LayoutError when shapes differ or two elements would share a slot. */
  Fragment(Layout thread, Layout reg, std::optional<Layout> replica = std::nullopt);

  /*!
   * Splits a row-major index space over threads: `vector` consecutive elements in a thread, then
   * the threads, then repetitions. Extents that do not divide leave padding at the end.
   */
  static Fragment Partition(const Coord& extents, int64_t threads, int64_t vector);
  /*! Every thread of [0, threads) holds the whole tile. */
  static Fragment Replicated(const Coord& extents, int64_t threads);

  /*! `n` copies along `dim`, in further registers or in further threads (as slowest digit). */
  Fragment Repeat(size_t dim, int64_t n, bool on_threads) const;
  /*! `n` times the copies: threads t + k * NumThreads() hold what thread t holds. */
  Fragment Replicate(int64_t n) const;
  /*! Shifts to threads [begin, begin + NumThreads()). */
  Fragment BindThreads(int64_t begin) const;
  /*!
   * The fragment of a reduction over `dim`: threads along it become replicas, its registers
   * collapse. The dimension is dropped, or kept with extent 1; a rank-1 input gives shape (1).
   */
  Fragment ReduceDim(size_t dim, bool keep_dim = false) const;
  /*! Same threads, registers renumbered without gaps. */
  Fragment CondenseRegisters() const;
  Fragment Transpose(const std::vector<size_t>& axes) const;
  /*! The elements of a region, still in their slots. */
  Fragment Slice(const Coord& begin, const Coord& extents) const;
  /*! Another shape of the same size, row-major order kept. */
  Fragment Reshape(const Coord& extents) const;
  /*! Equality as functions; replicas as sets of threads. */
  bool SameMap(const Fragment& other) const;

  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(Fragment, ffi::ObjectRef, FragmentNode);
};

/*! What moving a value from `from` to `to` takes; both have the same extents. */
Conversion ConversionBetween(const Fragment& from, const Fragment& to);

/*!
 * One digit of the inverse map: coordinate[dim] += place * d, where d is a digit of the thread
 * or the register index. Digits of one source come from the largest stride down:
 * d = rest / stride, rest = rest % stride.
 */
struct InverseDigit {
  int dim;  // -1 for the replica
  int64_t place;
  int64_t extent;
  bool on_thread;
  int64_t stride;
};

/*! The inverse of a fragment in closed form. */
struct FragmentInverse {
  bool linear_index;  // dim 0 is the row-major linear index instead of the first coordinate
  // Before taking digits, the thread and register layouts' offsets are subtracted.
  std::vector<InverseDigit> digits;  // largest stride first within each source
};

/*! Nothing where the digits of thread and register do not nest (then use InverseTable). */
std::optional<FragmentInverse> InverseDigits(const Fragment& fragment);

}  // namespace tilelang::layout

#endif  // TILELANG_LAYOUT_FRAGMENT_H_
