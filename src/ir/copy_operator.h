// A copy of a tile, and what the program and the passes say about it.
#ifndef TILELANG_IR_COPY_OPERATOR_H_
#define TILELANG_IR_COPY_OPERATOR_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ir/tile_op.h"

namespace tilelang::ir {

// The function of the language that the copy is.
enum class CopyCall : int64_t {
  kCopy,          // T.copy, T.copy_cluster
  kAtomicAdd,     // T.atomic_add: each element is added, atomically, to what dst holds
  kTmaCopy,       // T.tma_copy
  kTmaGather,     // T.tma_gather4, whose bytes the program announces
  kScaleFactors,  // T.tcgen05_cp_warpx4, which does not wait: a later gemm of the same thread reads
                  // what it brings, and the program commits both
};

// How long the L2 cache keeps what a copy by TMA reads or writes.
enum class Eviction : int64_t { kNormal, kFirst, kLast };
// "evict_normal", "evict_first", "evict_last".
std::string ToString(Eviction eviction);

class CopyOptionsNode : public ffi::Object {
 public:
  // The program sets these fields.
  int64_t call = 0;
  bool disable_tma = false;
  bool prefer_tma = false;
  int64_t eviction = 0;
  // Bit i: the block of rank i in the cluster gets the tile, which the one of lowest rank loads.
  // 0: each block loads its own.
  int64_t cluster_mask = 0;
  // Both blocks of a pair bring factors for a gemm of the pair (kScaleFactors).
  bool in_pairs = false;
  // How threads share the elements, as of a ParallelFor: how many each accesses together (0: the
  // compiler decides), and a Fragment (null: the compiler decides).
  int64_t coalesced_width = 0;
  ffi::ObjectRef loop_layout;

  // Passes set the fields from here on.
  // The first rows of the tile that can exist, where a load fills a whole tile which nothing else
  // writes. A role that loads the tile leaves out the other rows. 0: all rows can exist.
  int64_t existing_rows = 0;
  // A wait for this store by TMA lasts until the data is in global memory, and not only until
  // shared memory has been read.
  bool waits_for_writes = false;
  // A load by TMA completes on the barrier of the pair's leader, whichever block's memory it fills.
  bool completes_at_leader = false;
  // The thread that asks TMA for this load, the last one of a slot, also arrives on its barrier.
  bool arrives = false;
  // One thread of each warp asks TMA for the tile of its warp, and not one thread for all warps.
  // The program waits for these loads.
  bool by_each_warp = false;
  // Warpgroup number i copies rows [128 * i, 128 * (i + 1)) of a tile in tensor memory.
  bool rows_of_warpgroups = false;
  // The fragment, into a slice of which tensor memory is loaded, holds nothing else in use.
  bool into_scratch = false;
  // The text of the program's copy of which this one copies a part; empty: it is the program's.
  String part_of;

  CopyCall call_kind() const { return static_cast<CopyCall>(call); }
  Eviction eviction_kind() const { return static_cast<Eviction>(eviction); }
  // Returns whether nothing is said.
  bool AreDefault() const;
  // Names the fields that say something, in the order of their names.
  std::vector<std::pair<std::string, Any>> Given() const;
  // Returns what is said to the threads that share the elements: annotations of a ParallelFor.
  Map<String, Any> OfLoop() const;

  static constexpr TVMFFISEqHashKind _type_s_eq_hash_kind = kTVMFFISEqHashKindTreeNode;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.CopyOptions", CopyOptionsNode, ffi::Object);
};
class CopyOptions : public ffi::ObjectRef {
 public:
  // Nothing is said.
  CopyOptions();
  // Returns these options with the changes that `change` makes.
  CopyOptions But(const std::function<void(CopyOptionsNode* options)>& change) const;
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(CopyOptions, ffi::ObjectRef, CopyOptionsNode);
};

// An attribute of a call (bool): it adds to what the tensor holds.
inline constexpr const char* kAdds = "adds";

// dst[...] = cast(src[...]). After dropping dimensions of extent 1 both regions have the same
// extents.
class CopyNode : public TileOpNode {
 public:
  Region src;
  Region dst;
  CopyOptions options;
  // A Load of a "shared.barrier" element whose phase waits for the bytes of the copy, which nobody
  // waits for here; null when the compiler waits.
  Expr mbar;
  // The rank in the cluster of the block whose dst, and mbar, are meant; null: the own block.
  Expr block;
  // The value that it reads outside of src; null: zero.
  Expr safe_value;
  // The rows of a matrix in global memory that go to the rows of dst. src has as many rows, from
  // row 0 on. Empty: the rows of src.
  Array<Expr> rows;

  bool Adds() const { return options->call_kind() == CopyCall::kAtomicAdd; }
  // Returns whether it has nothing but its two sides.
  bool IsPlain() const;
  CopyNode() : TileOpNode(StmtKind::kCopy) {}
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.Copy", CopyNode, TileOpNode);
};
class Copy : public Stmt {
 public:
  Copy(Region src, Region dst, Span span);
  Copy(Region src, Region dst, CopyOptions options, Span span, Expr mbar, Expr block);
  // The copy `op`, but for what `change` does to it, without its plan; of other tiles; and with
  // other options.
  Copy(const CopyNode* op, const std::function<void(CopyNode* copy)>& change);
  Copy(const CopyNode* op, Region src, Region dst);
  static Copy Saying(const CopyNode* op,
                     const std::function<void(CopyOptionsNode* options)>& change);
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(Copy, Stmt, CopyNode);
};

}  // namespace tilelang::ir

#endif  // TILELANG_IR_COPY_OPERATOR_H_
