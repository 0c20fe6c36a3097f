// Statements of the thread IR; the tile operators are in ir/tile_op.h.
#ifndef TILELANG_IR_STMT_H_
#define TILELANG_IR_STMT_H_

#include "ir/expr.h"

namespace tilelang::ir {

#define TL_STMT_KINDS(X) \
  X(Store)               \
  X(Evaluate)            \
  X(Bind)                \
  X(Seq)                 \
  X(If)                  \
  X(For)                 \
  X(While)               \
  X(Break)               \
  X(Continue)            \
  X(Alloc)               \
  X(Assume)              \
  X(Assert)              \
  X(KernelLaunch)        \
  X(Issue)               \
  X(Wait)                \
  X(Arrive)              \
  X(WaitParity)          \
  X(Fence)               \
  X(Barrier)             \
  X(TmemAlloc)           \
  X(CommitGroup)         \
  X(WaitGroup)           \
  X(MbarrierInit)        \
  X(GridDependency)      \
  X(Copy)                \
  X(Fill)                \
  X(Reduce)              \
  X(ParallelFor)         \
  X(Gemm)

enum class StmtKind : uint8_t {
#define TL_DECLARE(Name) k##Name,
  TL_STMT_KINDS(TL_DECLARE)
#undef TL_DECLARE
};

class StmtNode : public ffi::Object {
 public:
  Span span;
  StmtKind kind;

  explicit StmtNode(StmtKind kind) : kind(kind) {}
  static constexpr TVMFFISEqHashKind _type_s_eq_hash_kind = kTVMFFISEqHashKindTreeNode;
  static constexpr uint32_t _type_child_slots = 40;
  TVM_FFI_DECLARE_OBJECT_INFO("tl.ir.Stmt", StmtNode, ffi::Object);
};
class Stmt : public ffi::ObjectRef {
 public:
  const Span& span() const { return (*this)->span; }
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(Stmt, ffi::ObjectRef, StmtNode);
};

// buffer[indices] = value; the value has the buffer's dtype.
class StoreNode : public StmtNode {
 public:
  Buffer buffer;
  Array<Expr> indices;
  Expr value;

  StoreNode() : StmtNode(StmtKind::kStore) {}
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.Store", StoreNode, StmtNode);
};
class Store : public Stmt {
 public:
  Store(Buffer buffer, Array<Expr> indices, Expr value, Span span = Span());
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(Store, Stmt, StoreNode);
};

// A call made for its effect.
class EvaluateNode : public StmtNode {
 public:
  Expr value;

  EvaluateNode() : StmtNode(StmtKind::kEvaluate) {}
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.Evaluate", EvaluateNode, StmtNode);
};
class Evaluate : public Stmt {
 public:
  explicit Evaluate(Expr value, Span span = Span());
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(Evaluate, Stmt, EvaluateNode);
};

// Names a value until the end of the enclosing Seq.
class BindNode : public StmtNode {
 public:
  Var var;
  Expr value;

  BindNode() : StmtNode(StmtKind::kBind) {}
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.Bind", BindNode, StmtNode);
};
class Bind : public Stmt {
 public:
  Bind(Var var, Expr value, Span span = Span());
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(Bind, Stmt, BindNode);
};

class SeqNode : public StmtNode {
 public:
  Array<Stmt> stmts;

  SeqNode() : StmtNode(StmtKind::kSeq) {}
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.Seq", SeqNode, StmtNode);
};
class Seq : public Stmt {
 public:
  explicit Seq(Array<Stmt> stmts, Span span = Span());
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(Seq, Stmt, SeqNode);
};
// Flattens nested sequences that hold no Bind or Alloc at their top level, drops empty ones;
// one statement stays itself.
Stmt MakeSeq(const std::vector<Stmt>& stmts, Span span = Span());

class IfNode : public StmtNode {
 public:
  Expr condition;
  Stmt then_case;
  Stmt else_case;  // null when absent

  IfNode() : StmtNode(StmtKind::kIf) {}
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.If", IfNode, StmtNode);
};
class If : public Stmt {
 public:
  If(Expr condition, Stmt then_case, Stmt else_case = Stmt(), Span span = Span());
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(If, Stmt, IfNode);
};

enum class ForKind : int64_t {
  kSerial,
  kUnrolled,
  kVectorized,  // constant extent; iterations are independent. In the thread IR: see VectorLoop
  kPipelined,   // annotations: num_stages (int), order, stage
};

// An annotation of two loops that were one, over the first iterations and over the others:
// Array<int>, the number of the pair, and 0 or 1.
inline constexpr const char* kSplitLoop = "split_loop";

// for var in [min, min + extent): the step is 1 (the frontend normalises others).
class ForNode : public StmtNode {
 public:
  Var var;
  Expr min;
  Expr extent;
  int64_t for_kind = 0;
  Map<String, Any> annotations;
  Stmt body;

  ForKind Kind() const { return static_cast<ForKind>(for_kind); }
  ForNode() : StmtNode(StmtKind::kFor) {}
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.For", ForNode, StmtNode);
};
class For : public Stmt {
 public:
  For(Var var, Expr min, Expr extent, ForKind kind, Stmt body, Map<String, Any> annotations = {},
      Span span = Span());
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(For, Stmt, ForNode);
};

// A kVectorized loop of the thread IR: from 0, over stores. `vectors`: one-dimensional buffers of
// which every access that uses the variable is, over the loop, one vector of consecutive elements
// that begins where a vector of its size may.
For VectorLoop(Var var, Expr extent, Stmt body, Array<Buffer> vectors, Span span = Span());
// The buffers a kVectorized loop of the thread IR accesses by vectors.
Array<Buffer> VectorsOf(const ForNode* loop);
// Returns whether an access inside that loop is a vector.
bool IsVectorAccess(const ForNode* loop, const Buffer& buffer, const Array<Expr>& indices);

class WhileNode : public StmtNode {
 public:
  Expr condition;
  Stmt body;

  WhileNode() : StmtNode(StmtKind::kWhile) {}
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.While", WhileNode, StmtNode);
};
class While : public Stmt {
 public:
  While(Expr condition, Stmt body, Span span = Span());
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(While, Stmt, WhileNode);
};

class BreakNode : public StmtNode {
 public:
  BreakNode() : StmtNode(StmtKind::kBreak) {}
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.Break", BreakNode, StmtNode);
};
class Break : public Stmt {
 public:
  explicit Break(Span span);
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(Break, Stmt, BreakNode);
};

class ContinueNode : public StmtNode {
 public:
  ContinueNode() : StmtNode(StmtKind::kContinue) {}
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.Continue", ContinueNode, StmtNode);
};
class Continue : public Stmt {
 public:
  explicit Continue(Span span);
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(Continue, Stmt, ContinueNode);
};

// Brings a buffer into being until the end of the enclosing Seq. A "local.var" with an initial
// value has attrs["init"] : Expr.
class AllocNode : public StmtNode {
 public:
  Buffer buffer;

  AllocNode() : StmtNode(StmtKind::kAlloc) {}
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.Alloc", AllocNode, StmtNode);
};
class Alloc : public Stmt {
 public:
  explicit Alloc(Buffer buffer, Span span = Span());
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(Alloc, Stmt, AllocNode);
};

// A fact the simplifier may use from here to the end of the enclosing Seq.
class AssumeNode : public StmtNode {
 public:
  Expr condition;

  AssumeNode() : StmtNode(StmtKind::kAssume) {}
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.Assume", AssumeNode, StmtNode);
};
class Assume : public Stmt {
 public:
  explicit Assume(Expr condition, Span span = Span());
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(Assume, Stmt, AssumeNode);
};

// Traps at run time when the condition is false.
class AssertNode : public StmtNode {
 public:
  Expr condition;
  String message;

  AssertNode() : StmtNode(StmtKind::kAssert) {}
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.Assert", AssertNode, StmtNode);
};
class Assert : public Stmt {
 public:
  Assert(Expr condition, String message, Span span = Span());
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(Assert, Stmt, AssertNode);
};

// One grid launch: `with T.Kernel(...)`. Up to three block and three thread variables, x first.
// attrs: "layout_map" : Map<Buffer, Layout or Fragment> (annotated, then inferred),
//        "swizzle_panel" : int and "swizzle_order" : String (T.use_swizzle),
//        "cluster_dims" : Array<int>, "min_blocks_per_sm" : int.
class KernelLaunchNode : public StmtNode {
 public:
  Array<Var> block_vars;
  Array<Expr> grid;
  Array<Var> thread_vars;
  Array<Expr> threads;  // constants, x first
  Map<String, Any> attrs;
  Stmt body;

  KernelLaunchNode() : StmtNode(StmtKind::kKernelLaunch) {}
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.KernelLaunch", KernelLaunchNode, StmtNode);
};
class KernelLaunch : public Stmt {
 public:
  KernelLaunch(Array<Var> block_vars, Array<Expr> grid, Array<Var> thread_vars, Array<Expr> threads,
               Map<String, Any> attrs, Stmt body, Span span = Span());
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(KernelLaunch, Stmt, KernelLaunchNode);
};

}  // namespace tilelang::ir

#endif  // TILELANG_IR_STMT_H_
