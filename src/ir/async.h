// Asynchronous work between lowering, which only issues it, and the placement of synchronization,
// which alone decides where it is waited for.
//
// Lowering writes an Issue where an operator's own threads must learn that its work is complete.
// What the Issue asks for runs beside the threads until a statement conflicts with it; there
// placement puts the Wait. Neither of the two is left afterwards: an Issue becomes its body, a Wait
// the instructions of its mechanism (sync/write_waits.h).
#ifndef TILELANG_IR_ASYNC_H_
#define TILELANG_IR_ASYNC_H_

#include "ir/stmt.h"

namespace tilelang::ir {

// The engine that does the work of an instruction, which decides its order relative to the threads
// that ask for it.
enum class Engine : uint8_t {
  kThreads,    // the operator's threads themselves, in program order
  kTmemLdSt,   // each warp for its lanes; the instructions come with their tcgen05.wait
  kTmaLoad,    // one thread asks; done when an mbarrier has counted the bytes
  kTmaStore,   // one thread asks; done when its bulk group is
  kTcgen05,    // one thread asks, in order; done when its commit arrives at an mbarrier
  kBlockCopy,  // one thread asks; done when an mbarrier of another block has counted the bytes
  kWgmma,      // each warpgroup asks for its part, in order; done for it when its group is
  kCpAsync,    // each thread asks; done for it when its group is
};

// Says how to observe that work of an engine is complete.
class CompletionNode : public ffi::Object {
 public:
  int64_t engine = 0;
  // For kTmaLoad and kTcgen05: a phase of this mbarrier, one element of "shared.barrier", and the
  // parity of the phase that comes next, a "local.var" which the waiting threads advance alike.
  // Null for groups: of a warpgroup's wgmma, or of a thread's stores.
  Buffer barrier;
  Buffer parity;
  // For kWgmma: the registers that it reads and writes. No use of them moves across the wait.
  Array<Buffer> registers;
  // For kTmaStore: the operator's threads, first and number. The thread that asks for the store
  // waits for its own bulk groups.
  Array<int64_t> threads;

  // Returns the buffers above that it has.
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

// Waits until the work is complete. Groups complete in order: the `left` groups that were committed
// last may still be in flight. For a phase `left` is 0.
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

// The threads whose accesses an arrival or a wait orders.
enum class Scope : int64_t {
  kCta,
  kPair,     // of both blocks of a pair
  kCluster,  // a wait: for what threads of other blocks have done
};

enum class ArriveKind : int64_t {
  kThread,        // the thread, for what it has done
  kExpect,        // no arrival: bytes that the phase waits for, too
  kThreadExpect,  // both
  kCommit,        // the tensor core, for what the thread has issued, when that is complete
  kCopies,        // the thread's cp.async, when its earlier copies are complete
  // T.tcgen05_mma_arrive: a commit by the thread that issues for the threads that get there, until
  // LowerTileOps knows which thread that is. In pairs of blocks it commits in both (scope kPair),
  // or in the leader alone.
  kIssuerCommit,
};

class ArriveNode : public StmtNode {
 public:
  int64_t arrive_kind = 0;
  Expr mbar;   // a Load: an element of a "shared.barrier"
  Expr bytes;  // of kExpect, kThreadExpect; else null
  // The block whose barrier gets the arrival. Null: the own block. For kThread: the block of this
  // rank in the cluster. For commits: the blocks of this mask.
  Expr block;
  int64_t scope = 0;
  // Tiles that others may change after it; null: it may hand over anything.
  Optional<Array<Buffer>> gives;
  // Tensor memory that gemms of another role use from here on.
  Array<Buffer> tensor_memory;

  ArriveKind Kind() const { return static_cast<ArriveKind>(arrive_kind); }
  const Buffer& barrier() const { return mbar.as<LoadNode>()->buffer; }
  Scope scope_kind() const { return static_cast<Scope>(scope); }
  // The thread arrives, with what it has done.
  bool IsByThread() const {
    return Kind() == ArriveKind::kThread || Kind() == ArriveKind::kThreadExpect;
  }
  ArriveNode() : StmtNode(StmtKind::kArrive) {}
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.Arrive", ArriveNode, StmtNode);
};
class Arrive : public Stmt {
 public:
  struct Options {
    Expr bytes;
    Expr block;
    Scope scope = Scope::kCta;
    Optional<Array<Buffer>> gives;
    Array<Buffer> tensor_memory;
  };
  Arrive(ArriveKind kind, Expr mbar, Span span, Options options);
  Arrive(ArriveKind kind, Expr mbar, Span span);
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(Arrive, Stmt, ArriveNode);
};

// Until the phase of this parity of an mbarrier is over.
class WaitParityNode : public StmtNode {
 public:
  Expr mbar;  // as of ArriveNode
  Expr parity;
  int64_t scope = 0;
  // Tensor memory that gemms of another role have used until then.
  Array<Buffer> tensor_memory;

  Scope scope_kind() const { return static_cast<Scope>(scope); }
  const Buffer& barrier() const { return mbar.as<LoadNode>()->buffer; }
  WaitParityNode() : StmtNode(StmtKind::kWaitParity) {}
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.WaitParity", WaitParityNode, StmtNode);
};
class WaitParity : public Stmt {
 public:
  WaitParity(Expr mbar, Expr parity, Span span, Scope scope = Scope::kCta,
             Array<Buffer> tensor_memory = {});
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(WaitParity, Stmt, WaitParityNode);
};

enum class FenceKind : int64_t {
  kAsyncProxy,     // the thread's accesses of shared memory, before later ones of engines
  kTcgen05Before,  // its tcgen05 instructions, before threads synchronize
  kTcgen05After,   // and after they have
  kMbarrierInit,   // mbarriers that it has initialized, before other blocks and engines use them
  kWgmma,          // its accesses of registers, before wgmma
};

class FenceNode : public StmtNode {
 public:
  int64_t fence_kind = 0;

  FenceKind Kind() const { return static_cast<FenceKind>(fence_kind); }
  FenceNode() : StmtNode(StmtKind::kFence) {}
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.Fence", FenceNode, StmtNode);
};
class Fence : public Stmt {
 public:
  Fence(FenceKind kind, Span span);
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(Fence, Stmt, FenceNode);
};

// The threads that wait for each other.
enum class BarrierKind : int64_t {
  kBlock,
  kNamed,       // as many as `count`, at the barrier of this number
  kRange,       // `threads`, at a named barrier whose number NumberBarriers assigns
  kWarpgroups,  // the same for each warpgroup of `threads`
  kWarp,        // the lanes of `mask`; null: all
  kRole,        // the threads that get there, until LowerTileOps knows which
  kCluster,
  kGrid,
};
enum class BarrierPart : int64_t {
  kWhole,
  kArrive,
  kArriveRelaxed,  // without what the thread did before
  kWait,
};

class BarrierNode : public StmtNode {
 public:
  int64_t barrier_kind = 0;
  int64_t part = 0;
  Expr number;             // of kNamed
  Expr count;              // of kNamed
  Array<int64_t> threads;  // of kRange, kWarpgroups: the first, and how many
  Expr mask;               // of kWarp
  // Tiles that threads may change behind it; null: it may hand over anything.
  Optional<Array<Buffer>> gives;

  BarrierKind Kind() const { return static_cast<BarrierKind>(barrier_kind); }
  BarrierPart Part() const { return static_cast<BarrierPart>(part); }
  // All threads of the block get there, at least.
  bool IsForBlock() const {
    return Kind() == BarrierKind::kBlock || Kind() == BarrierKind::kCluster ||
           Kind() == BarrierKind::kGrid;
  }
  BarrierNode() : StmtNode(StmtKind::kBarrier) {}
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.Barrier", BarrierNode, StmtNode);
};
class Barrier : public Stmt {
 public:
  // kBlock, kWarp, kRole, kCluster, kGrid
  Barrier(BarrierKind kind, Span span, BarrierPart part = BarrierPart::kWhole);
  static Barrier Named(Expr number, Expr count, Span span, BarrierPart part = BarrierPart::kWhole);
  // kRange or kWarpgroups
  static Barrier Of(BarrierKind kind, int64_t first, int64_t count, Span span);
  static Barrier OfLanes(Expr mask, Span span);
  // The same barrier, which hands over these tiles.
  Barrier Giving(Optional<Array<Buffer>> gives) const;
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(Barrier, Stmt, BarrierNode);
};

// A warp takes columns of tensor memory, whose address it writes to `address`, or frees them.
class TmemAllocNode : public StmtNode {
 public:
  bool frees = false;
  bool in_pair = false;  // with the other block
  Expr address;          // of a shared uint32, for the address; freeing: that address
  Expr columns;

  TmemAllocNode() : StmtNode(StmtKind::kTmemAlloc) {}
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.TmemAlloc", TmemAllocNode, StmtNode);
};
class TmemAlloc : public Stmt {
 public:
  TmemAlloc(bool frees, bool in_pair, Expr address, Expr columns, Span span);
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(TmemAlloc, Stmt, TmemAllocNode);
};

// Makes a group of the work that a thread, or a warpgroup, has asked of kCpAsync, kTmaStore or
// kWgmma since its last commit.
class CommitGroupNode : public StmtNode {
 public:
  int64_t engine = 0;

  Engine engine_kind() const { return static_cast<Engine>(engine); }
  CommitGroupNode() : StmtNode(StmtKind::kCommitGroup) {}
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.CommitGroup", CommitGroupNode, StmtNode);
};
class CommitGroup : public Stmt {
 public:
  CommitGroup(Engine engine, Span span);
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(CommitGroup, Stmt, CommitGroupNode);
};

// The instruction that waits for groups of the thread, or the warpgroup. The `left` groups that
// were committed last may still be in flight. kTmemLdSt has no groups: the wait is for the thread's
// stores to tensor memory.
class WaitGroupNode : public StmtNode {
 public:
  int64_t engine = 0;
  int64_t left = 0;
  bool written = false;  // as of a Wait
  // T.wait_wgmma: LowerTileOps makes a Wait of it, which says what is in registers.
  bool by_program = false;

  Engine engine_kind() const { return static_cast<Engine>(engine); }
  WaitGroupNode() : StmtNode(StmtKind::kWaitGroup) {}
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.WaitGroup", WaitGroupNode, StmtNode);
};
class WaitGroup : public Stmt {
 public:
  WaitGroup(Engine engine, int64_t left, Span span, bool written = false);
  static WaitGroup ForWgmmaOfProgram(int64_t left, Span span);
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(WaitGroup, Stmt, WaitGroupNode);
};

// Sets an mbarrier up: `count` arrivals complete a phase.
class MbarrierInitNode : public StmtNode {
 public:
  Expr mbar;  // as of ArriveNode
  Expr count;

  MbarrierInitNode() : StmtNode(StmtKind::kMbarrierInit) {}
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.MbarrierInit", MbarrierInitNode, StmtNode);
};
class MbarrierInit : public Stmt {
 public:
  MbarrierInit(Expr mbar, Expr count, Span span);
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(MbarrierInit, Stmt, MbarrierInitNode);
};

// griddepcontrol: waits for the end of the grid before this one in its stream, or lets the one
// after it start.
class GridDependencyNode : public StmtNode {
 public:
  bool waits = false;

  GridDependencyNode() : StmtNode(StmtKind::kGridDependency) {}
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.GridDependency", GridDependencyNode, StmtNode);
};
class GridDependency : public Stmt {
 public:
  GridDependency(bool waits, Span span);
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(GridDependency, Stmt, GridDependencyNode);
};

// The call that such a statement is in the language or, where that has none, of a device function;
// null: it is another statement. For messages, targets and printing: what a statement does, its
// fields say.
Call CallFor(const Stmt& s);
inline bool IsOrdering(const Stmt& s) {
  return s->kind >= StmtKind::kArrive && s->kind <= StmtKind::kGridDependency;
}

}  // namespace tilelang::ir

#endif  // TILELANG_IR_ASYNC_H_
