// Tile operators: statements over whole tiles, executed by all threads of a CTA together.
// What each infers, touches and lowers to is in src/op/.
#ifndef TILELANG_IR_TILE_OP_H_
#define TILELANG_IR_TILE_OP_H_

#include "ir/stmt.h"

namespace tilelang::ir {

// A box of a buffer: element (i0, ..) of the region is buffer[mins[0] + i0, ..]. Extents of
// shared, fragment and tensor-memory regions are constants.
class RegionNode : public ffi::Object {
 public:
  Buffer buffer;
  Array<Expr> mins;
  Array<Expr> extents;

  static constexpr TVMFFISEqHashKind _type_s_eq_hash_kind = kTVMFFISEqHashKindTreeNode;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.Region", RegionNode, ffi::Object);
};
class Region : public ffi::ObjectRef {
 public:
  Region(Buffer buffer, Array<Expr> mins, Array<Expr> extents);
  static Region Whole(const Buffer& buffer);
  bool IsWhole() const;
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(Region, ffi::ObjectRef, RegionNode);
};

// An operator that an instruction of the hardware carries out. `plan` says which and how: an
// op::TilePlan (op/instruction.h), null until one is chosen. Rewriting a node keeps it.
class TileOpNode : public StmtNode {
 public:
  ffi::ObjectRef plan;

  explicit TileOpNode(StmtKind kind) : StmtNode(kind) {}
  static constexpr uint32_t _type_child_slots = 4;
  TVM_FFI_DECLARE_OBJECT_INFO("tl.ir.TileOp", TileOpNode, StmtNode);
};
// The same operator with another plan.
Stmt WithPlan(const Stmt& op, ffi::ObjectRef plan);

// dst[...] = value, a scalar of dst's dtype. T.clear is Fill with zero.
class FillNode : public TileOpNode {
 public:
  Region dst;
  Expr value;

  FillNode() : TileOpNode(StmtKind::kFill) {}
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.Fill", FillNode, TileOpNode);
};
class Fill : public Stmt {
 public:
  Fill(Region dst, Expr value, Span span = Span());
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(Fill, Stmt, FillNode);
};

// dst = reduce(src, dim), or combined with the old dst when `clear` is false. dst has src's
// shape without `dim`, or with extent 1 there.
// op: "sum", "max", "min", "abssum", "absmax", "bitand", "bitor", "bitxor"; or a scan (op/scan.h).
class ReduceNode : public TileOpNode {
 public:
  Region src;
  Region dst;
  String op;
  int64_t dim = 0;  // >= 0
  bool clear = true;
  bool nan_propagate = false;
  // A constant: a maximum or minimum may stay as it is where no element is beyond it by more.
  // Null when it is exact.
  Expr slack;

  // Results along `dim`: 1, or the extent n that dst keeps there, where result j takes in the
  // elements j, j + n, j + 2n, ...
  int64_t Partials() const;

  ReduceNode() : TileOpNode(StmtKind::kReduce) {}
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.Reduce", ReduceNode, TileOpNode);
};
class Reduce : public Stmt {
 public:
  Reduce(Region src, Region dst, String op, int64_t dim, bool clear, bool nan_propagate, Expr slack,
         Span span = Span());
  // The reduction `op` of other tiles.
  Reduce(const ReduceNode* op, Region src, Region dst);
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(Reduce, Stmt, ReduceNode);
};

// `for i, j in T.Parallel(n, m)`: independent iterations spread over the threads of the CTA.
// annotations: coalesced_width (int), loop_layout (Fragment).
class ParallelForNode : public StmtNode {
 public:
  Array<Var> vars;
  Array<Expr> extents;
  Stmt body;
  Map<String, Any> annotations;

  ParallelForNode() : StmtNode(StmtKind::kParallelFor) {}
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.ParallelFor", ParallelForNode, StmtNode);
};
class ParallelFor : public Stmt {
 public:
  ParallelFor(Array<Var> vars, Array<Expr> extents, Stmt body, Map<String, Any> annotations = {},
              Span span = Span());
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(ParallelFor, Stmt, ParallelForNode);
};

}  // namespace tilelang::ir

#endif  // TILELANG_IR_TILE_OP_H_
