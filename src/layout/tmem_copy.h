/*!
 * Copies between register fragments and tensor memory: which tcgen05.ld / tcgen05.st
 * instructions realise one, found by comparing maps.
 */
#ifndef TILELANG_LAYOUT_TMEM_COPY_H_
#define TILELANG_LAYOUT_TMEM_COPY_H_

#include <tvm/ffi/container/array.h>

#include <optional>
#include <string>
#include <vector>

#include "layout/fragment.h"
#include "layout/tcgen05_layout.h"

namespace tilelang::layout {

enum class TmemDirection : int { kLoad, kStore };

struct TmemCopyOptions {
  /*! First thread of the copy; a multiple of 128, since a warp's index decides its lanes. */
  int64_t thread_begin = 0;
  int64_t num_threads = 128;
  /*! Largest repeat used; x64 needs 82 registers a thread in the kernel, x128 146. */
  int64_t max_repeat = 64;
  /*! Stores may overwrite cells that the tile does not have, in the lanes and columns it spans. */
  bool may_clobber = false;
  /*! Most 32-bit registers of one instruction; the kernel needs 18 more for it. */
  int64_t max_registers = 128;
  /*! The fragment that the copy's is a slice of: a load leaves its other elements as they are. */
  const FragmentNode* whole = nullptr;
};

/*! One instruction of a plan; offsets are added to each warp's base. */
class TmemInstructionNode : public ffi::Object {
 public:
  int64_t repeat = 1;
  int64_t lane = 0;    // 0 or 16, added to the address's lane field
  int64_t column = 0;  // added to its column field
  int64_t reg = 0;     // first 32-bit register of the thread's local array
  int64_t num_regs = 0;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.TmemInstruction", TmemInstructionNode, ffi::Object);
};
using TmemInstruction = ffi::ObjectPtr<TmemInstructionNode>;

/*!
 * Instructions that together realise a copy. Warp w of the copy (w counts from thread_begin) in
 * `warps` issues every instruction at address
 *   lane   = 32 * (w % 4) + instruction.lane
 *   column = first_column + (w / 4 - FirstGroup()) * warpgroup_columns + instruction.column
 * relative to the buffer's first column. 16x32bx2 takes `half_offset` as its immediate.
 */
class TmemCopyPlanNode : public ffi::Object {
 public:
  int64_t shape = 0;  // TmemShape
  ffi::String name;   // of the shape, as PTX spells it
  bool pack = false;  // .pack::16b on loads, .unpack::16b on stores
  int64_t half_offset = 0;
  int64_t first_column = 0;
  int64_t warpgroup_columns = 0;
  bool beside = false;  // loads from lanes that the tile does not have, into registers without use
  ffi::Array<int64_t> warps;
  ffi::Array<ffi::ObjectRef> instructions;  // of TmemInstructionNode

  /*! The first warpgroup that takes part. */
  int64_t FirstGroup() const { return warps[0] / 4; }
  const TmemAtom& Atom() const { return GetTmemAtom(static_cast<TmemShape>(shape)); }
  const TmemInstructionNode* Instruction(size_t i) const {
    return static_cast<const TmemInstructionNode*>(instructions[i].get());
  }
  std::string ToString() const;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.TmemCopyPlan", TmemCopyPlanNode, ffi::Object);
};

class TmemCopyPlan : public ffi::ObjectRef {
 public:
  explicit TmemCopyPlan(ffi::ObjectPtr<TmemCopyPlanNode> node) : ffi::ObjectRef(std::move(node)) {}
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(TmemCopyPlan, ffi::ObjectRef, TmemCopyPlanNode);
};

/*! Plans that fit, best first; or, when there are none, why each shape does not. */
struct TmemCopyPlans {
  std::vector<TmemCopyPlan> plans;
  std::string reason;
};

/*!
 * Every way to copy between a fragment and a tile of the same extents in tensor memory. The
 * fragment's threads count from 0 within the CTA (thread_begin included).
 */
TmemCopyPlans PlanTmemCopy(const TmemLayout& tmem, const Fragment& fragment,
                           TmemDirection direction, const TmemCopyOptions& options = {});

/*! A fragment, or why there is none. */
struct TmemFragment {
  std::optional<Fragment> fragment;
  std::string reason;
  bool beside = false;  // its plan loads cells beside the tile
};

/*!
 * The fragment in which `shape` moves the tile, warpgroups splitting its columns evenly: a
 * 32x32b row per thread, the accumulator fragment of mma.m16n8 for 16x256b, half a row per thread
 * for 16x32bx2.
 */
TmemFragment FragmentForShape(const TmemLayout& tmem, TmemShape shape,
                              const TmemCopyOptions& options = {});

/*!
 * The fragment to use when nothing else decides: 32x32b where the tile fills the lanes, 16x32bx2
 * where it takes 16 of each 32, else the first shape that has a plan. What can be stored can be
 * loaded, not always the other way round.
 */
TmemFragment NaturalTmemFragment(const TmemLayout& tmem, const TmemCopyOptions& options = {},
                                 TmemDirection direction = TmemDirection::kStore);

/*!
 * The fragment nearest to a given one in which some shape moves the tile: where a copy's fragment
 * does not fit, this is what to convert it to before a store, or from after a load.
 */
TmemFragment NearestTmemFragment(const TmemLayout& tmem, const Fragment& fragment,
                                 TmemDirection direction, const TmemCopyOptions& options = {});

}  // namespace tilelang::layout

#endif  // TILELANG_LAYOUT_TMEM_COPY_H_
