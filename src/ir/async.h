// Asynchronous work between lowering, which only issues it, and the placement of synchronization,
// which alone decides where it is waited for.
//
// Lowering writes an Issue where an operator's own threads must learn that its work is complete.
// What the Issue asks for runs beside the threads until a statement conflicts with it; there
// placement puts the Wait. Neither node is left afterwards: an Issue becomes its body, a Wait the
// instructions of its mechanism (sync/write_waits.h).
#ifndef TILELANG_IR_ASYNC_H_
#define TILELANG_IR_ASYNC_H_

#include "ir/stmt.h"

namespace tilelang::ir {

// Who does the work of an instruction, in which order relative to the threads that ask for it.
enum class Engine : uint8_t {
  kThreads,    // the operator's threads themselves, in program order
  kTmemLdSt,   // each warp for its lanes; the instructions come with their tcgen05.wait
  kTmaLoad,    // one thread asks; done when an mbarrier has counted the bytes
  kTmaStore,   // one thread asks; done when its bulk group is
  kTcgen05,    // one thread asks, in order; done when its commit arrives at an mbarrier
  kBlockCopy,  // one thread asks; done when an mbarrier of another block has counted the bytes
  kWgmma,      // each warpgroup asks for its part, in order; done for it when its group is
};

// What tells that work of an engine is complete.
class CompletionNode : public ffi::Object {
 public:
  int64_t engine = 0;
  // Of kTmaLoad and kTcgen05: a phase of this mbarrier, one element of "shared.barrier", and the
  // parity of the phase that comes next, a "local.var" which the waiting threads advance alike.
  // Null for groups: of a warpgroup's wgmma, of a thread's stores.
  Buffer barrier;
  Buffer parity;
  // Of kWgmma: what it reads and writes in registers, of which no use moves across the wait.
  Array<Buffer> registers;
  // Of kTmaStore: the operator's threads, first and number. The one that asks for it waits, for the
  // bulk groups of its own.
  Array<int64_t> threads;

  // Those above that it has.
  Array<Buffer> Buffers() const;
  Engine engine_kind() const { return static_cast<Engine>(engine); }
  static constexpr TVMFFISEqHashKind _type_s_eq_hash_kind = kTVMFFISEqHashKindTreeNode;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.Completion", CompletionNode, ffi::Object);
};
class Completion : public ffi::ObjectRef {
 public:
  static Completion OfPhase(Engine engine, Buffer barrier, Buffer parity);
  static Completion OfWgmma(Array<Buffer> registers);
  static Completion OfStores(Array<int64_t> threads);
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(Completion, ffi::ObjectRef, CompletionNode);
};

// The body asks an engine for work, which is complete before its threads, or whom they let go on,
// do what conflicts with it: all of them wait, but for stores the one that asks.
class IssueNode : public StmtNode {
 public:
  Stmt body;
  Completion completion;
  bool awaited = false;  // the program waits for it; or placement has written the Wait

  Engine engine() const { return completion->engine_kind(); }
  IssueNode() : StmtNode(StmtKind::kIssue) {}
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.Issue", IssueNode, StmtNode);
};
class Issue : public Stmt {
 public:
  Issue(Stmt body, Completion completion, Span span = Span(), bool awaited = false);
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(Issue, Stmt, IssueNode);
};

// Until the work is complete. Groups complete in order: `left` of those that were committed last
// may still be in flight; of a phase it is 0.
class WaitNode : public StmtNode {
 public:
  Completion completion;
  int64_t left = 0;
  bool written = false;  // of kTmaStore: the tensors are; false: the tiles are read

  Engine engine() const { return completion->engine_kind(); }
  WaitNode() : StmtNode(StmtKind::kWait) {}
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.Wait", WaitNode, StmtNode);
};
class Wait : public Stmt {
 public:
  explicit Wait(Completion completion, int64_t left = 0, Span span = Span());
  static Wait ForStores(Completion completion, bool written, int64_t left, Span span);
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(Wait, Stmt, WaitNode);
};

}  // namespace tilelang::ir

#endif  // TILELANG_IR_ASYNC_H_
