// Defines the context of a tile operator that infers layouts or lowers itself.
#ifndef TILELANG_OP_CONTEXT_H_
#define TILELANG_OP_CONTEXT_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "arith/analyzer.h"
#include "ir/function.h"
#include "layout/fragment.h"
#include "layout/tcgen05_layout.h"
#include "target/target.h"
#include "target/warp.h"

namespace tilelang::op {

namespace ffi = tvm::ffi;
using ir::Any;
using ir::Array;
using ir::Buffer;
using ir::Expr;
using ir::Map;
using ir::Region;
using ir::Span;
using ir::Stmt;
using ir::String;
using ir::Var;
using layout::Coord;
using layout::Fragment;
using layout::Layout;
using layout::TmemLayout;

// The threads [begin, begin + count) of the CTA execute the operator together.
struct ThreadRange {
  int64_t begin = 0;
  int64_t count = 0;
  bool operator==(const ThreadRange&) const = default;
};

// Returns whether the threads are whole warpgroups, each warp of which reaches its quarter of the
// lanes of tensor memory.
inline bool AreWarpgroups(const ThreadRange& threads) {
  return threads.count % kWarpgroup == 0 && threads.begin % kWarpgroup == 0;
}

// Strict: what the hardware dictates. Common: what follows from layouts already known. Free:
// choose.
enum class InferLevel { kStrict, kCommon, kFree };

// The layouts of a kernel's buffers: Fragment for "local.fragment", Layout for shared memory,
// TmemLayout for tensor memory. `user` names the operator that fixed a layout, for error messages.
class LayoutMap {
 public:
  explicit LayoutMap(Map<Buffer, Any> annotated) : layouts_(std::move(annotated)) {}
  LayoutMap() = default;
  // Returns the layouts that T.annotate_layout gives in the kernel.
  static LayoutMap Annotated(const ir::KernelLaunchNode* launch);

  bool Has(const Buffer& buffer) const { return layouts_.count(buffer) != 0; }
  std::optional<Fragment> GetFragment(const Buffer& buffer) const;
  std::optional<Layout> GetLayout(const Buffer& buffer) const;
  std::optional<TmemLayout> GetTmem(const Buffer& buffer) const;
  void Set(const Buffer& buffer, Any layout, const Span& user);
  // Returns where the layout was fixed, or null for annotations.
  Span UserOf(const Buffer& buffer) const;
  const Map<Buffer, Any>& All() const { return layouts_; }
  // Counts changes, to find a fixpoint.
  int64_t version() const { return version_; }
  // The version that this buffer's layout came with; 0: none yet, or annotated.
  int64_t VersionOf(const Buffer& buffer) const;

 private:
  Map<Buffer, Any> layouts_;
  Map<Buffer, Span> users_;
  Map<Buffer, int64_t> versions_;
  int64_t version_ = 0;
};

// The kernel's tensor memory while it is lowered.
struct TensorMemory {
  Var base;                      // the address that tcgen05.alloc returned; uint32
  Map<Buffer, int64_t> columns;  // first column of each buffer
};

class OneWayTensors;

struct Context {
  Target target;
  ThreadRange threads;  // of this operator
  Expr thread;          // the CTA-linear thread index
  int64_t cta_threads;  // of the whole CTA
  LayoutMap* layouts;   // of the kernel
  arith::Analyzer* analyzer;
  const TensorMemory* tmem = nullptr;  // null before lowering
  bool pipelined = false;              // in a loop whose loads run ahead
  bool in_pairs = false;               // the kernel's gemms are computed by pairs of CTAs
  // The index of the thread's warpgroup of the CTA in a uniform register; null before lowering.
  Expr warpgroup = {};
  // The tensors of which the kernel either reads or writes elements; null outside of layout
  // inference and lowering.
  const OneWayTensors* one_way = nullptr;
  // Returns whether every operator that touches the shared buffer can work with a layout. Null
  // outside of layout inference.
  std::function<bool(const Buffer&, const Layout&)> accepted = {};
};

// The static extents of a buffer of registers, shared or tensor memory; raises ShapeError.
Coord StaticShape(const Buffer& buffer);
// Constant extents of loops or regions; raises ShapeError naming `what`.
Coord StaticExtents(const Array<Expr>& extents, const char* what, const Span& span);

}  // namespace tilelang::op

#endif  // TILELANG_OP_CONTEXT_H_
