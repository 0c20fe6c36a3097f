// Expressions of the tile IR and of the thread IR.
//
// Nodes are immutable tvm-ffi objects with reflection, so Python sees every field. Each has a
// dtype, a source span (possibly null) and a kind for fast dispatch.
#ifndef TILELANG_IR_EXPR_H_
#define TILELANG_IR_EXPR_H_

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/optional.h>

#include "ir/dtype.h"
#include "ir/span.h"

namespace tilelang::ir {

using ffi::Any;
using ffi::Array;
using ffi::Map;
using ffi::Optional;
using ffi::String;

#define TL_EXPR_KINDS(X) \
  X(IntImm) X(FloatImm) X(StringImm) X(Var) X(Binary) X(Unary) X(Select) X(Cast) X(Load) X(Call)

enum class ExprKind : uint8_t {
#define TL_DECLARE(Name) k##Name,
  TL_EXPR_KINDS(TL_DECLARE)
#undef TL_DECLARE
};

enum class BinaryOp : int64_t {
  kAdd,
  kSub,
  kMul,
  kDiv,  // floating point only
  kFloorDiv,
  kFloorMod,  // integers, rounding toward minus infinity
  kMin,
  kMax,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kAnd,
  kOr,  // of bools, short-circuit
  kBitAnd,
  kBitOr,
  kBitXor,
  kShl,
  kShr,
};
enum class UnaryOp : int64_t { kNeg, kNot, kBitNot };

// "+", "//", "min", ...
const char* Spelling(BinaryOp op);
const char* Spelling(UnaryOp op);
inline bool IsComparison(BinaryOp op) { return op >= BinaryOp::kEq && op <= BinaryOp::kGe; }

class ExprNode : public ffi::Object {
 public:
  DType dtype{};
  Span span;
  ExprKind kind;

  explicit ExprNode(ExprKind kind) : kind(kind) {}
  static constexpr TVMFFISEqHashKind _type_s_eq_hash_kind = kTVMFFISEqHashKindTreeNode;
  static constexpr uint32_t _type_child_slots = 10;
  TVM_FFI_DECLARE_OBJECT_INFO("tl.ir.Expr", ExprNode, ffi::Object);
};

class Expr : public ffi::ObjectRef {
 public:
  // Integer constants of type int32 wherever an expression is expected.
  Expr(int value);  // NOLINT(google-explicit-constructor)
  DType dtype() const { return (*this)->dtype; }
  const Span& span() const { return (*this)->span; }
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(Expr, ffi::ObjectRef, ExprNode);
};

class IntImmNode : public ExprNode {
 public:
  int64_t value = 0;  // uint64 constants keep their bit pattern

  IntImmNode() : ExprNode(ExprKind::kIntImm) {}
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.IntImm", IntImmNode, ExprNode);
};
class IntImm : public Expr {
 public:
  IntImm(DType dtype, int64_t value, Span span = Span());
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(IntImm, Expr, IntImmNode);
};

class FloatImmNode : public ExprNode {
 public:
  double value = 0;

  FloatImmNode() : ExprNode(ExprKind::kFloatImm) {}
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.FloatImm", FloatImmNode, ExprNode);
};
class FloatImm : public Expr {
 public:
  FloatImm(DType dtype, double value, Span span = Span());
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(FloatImm, Expr, FloatImmNode);
};

class StringImmNode : public ExprNode {
 public:
  String value;

  StringImmNode() : ExprNode(ExprKind::kStringImm) {}
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.StringImm", StringImmNode, ExprNode);
};
class StringImm : public Expr {
 public:
  explicit StringImm(String value, Span span = Span());
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(StringImm, Expr, StringImmNode);
};

// A scalar value with a name: kernel parameter, loop variable, thread index, Bind.
// Two variables are the same only if they are the same object.
class VarNode : public ExprNode {
 public:
  String name;

  VarNode() : ExprNode(ExprKind::kVar) {}
  static constexpr TVMFFISEqHashKind _type_s_eq_hash_kind = kTVMFFISEqHashKindFreeVar;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.Var", VarNode, ExprNode);
};
class Var : public Expr {
 public:
  Var(String name, DType dtype, Span span = Span());
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(Var, Expr, VarNode);
};

// Both operands have the same dtype (shift counts too); comparisons give bool.
class BinaryNode : public ExprNode {
 public:
  int64_t op = 0;
  Expr a;
  Expr b;

  BinaryOp Op() const { return static_cast<BinaryOp>(op); }
  BinaryNode() : ExprNode(ExprKind::kBinary) {}
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.Binary", BinaryNode, ExprNode);
};
class Binary : public Expr {
 public:
  Binary(BinaryOp op, Expr a, Expr b, Span span = Span());
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(Binary, Expr, BinaryNode);
};

class UnaryNode : public ExprNode {
 public:
  int64_t op = 0;
  Expr a;

  UnaryOp Op() const { return static_cast<UnaryOp>(op); }
  UnaryNode() : ExprNode(ExprKind::kUnary) {}
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.Unary", UnaryNode, ExprNode);
};
class Unary : public Expr {
 public:
  Unary(UnaryOp op, Expr a, Span span = Span());
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(Unary, Expr, UnaryNode);
};

// Evaluates only the branch taken: `T.if_then_else`, `a if c else b`.
class SelectNode : public ExprNode {
 public:
  Expr condition;
  Expr true_value;
  Expr false_value;

  SelectNode() : ExprNode(ExprKind::kSelect) {}
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.Select", SelectNode, ExprNode);
};
class Select : public Expr {
 public:
  Select(Expr condition, Expr true_value, Expr false_value, Span span = Span());
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(Select, Expr, SelectNode);
};

// Value conversion. Bit casts are Call("reinterpret", {value}).
class CastNode : public ExprNode {
 public:
  Expr value;

  CastNode() : ExprNode(ExprKind::kCast) {}
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.Cast", CastNode, ExprNode);
};
class Cast : public Expr {
 public:
  Cast(DType dtype, Expr value, Span span = Span());
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(Cast, Expr, CastNode);
};

// A piece of memory with a shape. Scopes, spelled as in TileLang:
//   "global"          device memory (parameters, T.alloc_global)
//   "shared.dyn"      shared memory of a CTA ("shared" is accepted and means the same)
//   "local.fragment"  a register tile distributed over the CTA's threads
//   "local"           an array private to each thread
//   "local.var"       a mutable scalar, shape (1,)
//   "shared.tmem"     Blackwell tensor memory
//   "shared.barrier"  mbarriers; attrs["arrive_counts"] : Array<int>
class BufferNode : public ffi::Object {
 public:
  String name;
  DType dtype{};
  Array<Expr> shape;
  Array<Expr> strides;  // in elements; empty: contiguous, last dimension fastest
  String scope;
  Map<String, Any> attrs;
  Span span;

  static constexpr TVMFFISEqHashKind _type_s_eq_hash_kind = kTVMFFISEqHashKindFreeVar;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.Buffer", BufferNode, ffi::Object);
};
class Buffer : public ffi::ObjectRef {
 public:
  Buffer(String name, DType dtype, Array<Expr> shape, Array<Expr> strides, String scope,
         Map<String, Any> attrs, Span span = Span());
  bool IsGlobal() const { return (*this)->scope == "global"; }
  bool IsShared() const { return (*this)->scope == "shared.dyn" || (*this)->scope == "shared"; }
  bool IsFragment() const { return (*this)->scope == "local.fragment"; }
  // Private to a thread: "local" and "local.var".
  bool IsLocal() const { return (*this)->scope == "local" || (*this)->scope == "local.var"; }
  bool IsTmem() const { return (*this)->scope == "shared.tmem"; }
  bool IsBarrier() const { return (*this)->scope == "shared.barrier"; }
  // Strides in elements, made explicit when the buffer is contiguous.
  Array<Expr> Strides() const;
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(Buffer, ffi::ObjectRef, BufferNode);
};

class LoadNode : public ExprNode {
 public:
  Buffer buffer;
  Array<Expr> indices;

  LoadNode() : ExprNode(ExprKind::kLoad) {}
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.Load", LoadNode, ExprNode);
};
class Load : public Expr {
 public:
  Load(Buffer buffer, Array<Expr> indices, Span span = Span());
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(Load, Expr, LoadNode);
};

struct Intrinsic;

// The calls that passes ask for; kNone: all others. The name of a call is for printing alone.
enum class Builtin : uint8_t {
  kNone,
  kAddressOf,
  kLoadOr,
  kReinterpret,
  kPrint,
  kExtern,
  kLdexp,
  kPolynomial,  // of exp2 or tanh
  kAtomicAdd,   // of one element or several
  kShuffle,
  kElectOne,
  kAnyRow,
  kBlockVote,  // all threads of the CTA take part, and get one value
  kBlockRank,
  kStoreToBlock,
  kCpAsync,
  kCpAsyncOrdered,
  kTryCancel,    // of cluster launch control: the program asks
  kAskForBlock,  // the compiler does
  kAnswerOfClc,  // what the answer is
  kMaxRegisters,
  kPipelinePart,
  kNextTile,
  kContribute,
};

// An intrinsic: "exp2", "reinterpret", "atomic_add", "sync_threads", ... (see ir/intrinsics.h).
// An argument that the callee writes is passed as Call("address_of", {Load}).
class CallNode : public ExprNode {
 public:
  String name;
  Array<Expr> args;
  Map<String, Any> attrs;
  // The meaning of the name. Null: a device function.
  const Intrinsic* intrinsic = nullptr;
  Builtin builtin = Builtin::kNone;

  bool Is(Builtin which) const { return builtin == which; }
  CallNode() : ExprNode(ExprKind::kCall) {}
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.Call", CallNode, ExprNode);
};
class Call : public Expr {
 public:
  Call(DType dtype, String name, Array<Expr> args, Map<String, Any> attrs = {}, Span span = Span());
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(Call, Expr, CallNode);
};

// Building with constant folding; operands must have the same dtype, except that an IntImm
// adapts to the type of the other operand. See ir/build.h for the language's promotion rules.
Expr MakeBinary(BinaryOp op, Expr a, Expr b, Span span = Span());
Expr operator+(const Expr& a, const Expr& b);
Expr operator-(const Expr& a, const Expr& b);
Expr operator*(const Expr& a, const Expr& b);
Expr operator<(const Expr& a, const Expr& b);
Expr operator<=(const Expr& a, const Expr& b);
Expr operator>=(const Expr& a, const Expr& b);
Expr operator&&(const Expr& a, const Expr& b);
Expr operator||(const Expr& a, const Expr& b);
Expr operator^(const Expr& a, const Expr& b);
Expr operator&(const Expr& a, const Expr& b);
Expr FloorDiv(const Expr& a, const Expr& b);
Expr FloorMod(const Expr& a, const Expr& b);
Expr CeilDiv(const Expr& a, const Expr& b);
Expr MakeEq(const Expr& a, const Expr& b);
Expr Min(const Expr& a, const Expr& b);
Expr Max(const Expr& a, const Expr& b);
Expr Not(const Expr& a);
// A constant of any arithmetic type.
Expr Const(DType dtype, double value);
Expr Const(DType dtype, int64_t value);
inline Expr Const(DType dtype, int value) { return Const(dtype, static_cast<int64_t>(value)); }
// `value` converted to `dtype`, folded when constant; itself when it has that type already.
Expr CastTo(DType dtype, const Expr& value, Span span = Span());
Expr AddressOf(const Buffer& buffer, Array<Expr> indices);
// The element of which an expression is the address; null: it is none.
const LoadNode* AddressedElement(const Expr& e);

// The value of an integer constant, or nullopt.
std::optional<int64_t> AsInt(const Expr& e);
inline bool IsConst(const Expr& e, int64_t value) { return AsInt(e) == value; }
inline bool IsTrue(const Expr& e) { return AsInt(e) == 1 && IsBool(e.dtype()); }
// All constants, or nullopt when one is symbolic.
std::optional<std::vector<int64_t>> AsInts(const Array<Expr>& exprs);

}  // namespace tilelang::ir

#endif  // TILELANG_IR_EXPR_H_
