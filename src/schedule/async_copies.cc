#include "schedule/async_copies.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "analysis/uniformity.h"
#include "arith/structural.h"
#include "ir/aliases.h"
#include "ir/async.h"
#include "ir/effects.h"
#include "ir/fresh_copy.h"
#include "ir/intrinsics.h"
#include "ir/remark.h"
#include "ir/same.h"
#include "op/copy_async.h"
#include "op/effect.h"
#include "op/instruction.h"
#include "op/issue.h"
#include "schedule/program_order.h"

namespace tilelang::schedule {

namespace ffi = tvm::ffi;

using ir::Expr;
using ir::Stmt;
using op::I32;

namespace {

using Objects = std::unordered_set<const ffi::Object*>;

// Collects the values that threads may evaluate some iterations ahead.
class Foreseeable {
 public:
  explicit Foreseeable(const ir::KernelLaunchNode* launch) {
    ir::WalkEffects(launch->body, [&](const ir::Effect& effect) {
      if (effect.Writes()) written_.insert(ir::MemoryOf(effect.buffer));
    });
  }
  bool IsWritten(const ir::Buffer& buffer) const {
    return written_.count(ir::MemoryOf(buffer)) != 0;
  }

  // Returns why the value may be different in its own iteration, or an empty string if it is the
  // same. `changing` has the names and buffers that change in each iteration.
  std::string WhyNot(const Expr& e, const Objects& changing) const {
    std::string reason;
    ir::WalkExprs(e, [&](const Expr& part) {
      if (const auto* load = part.as<ir::LoadNode>()) {
        bool fixed = load->buffer.IsGlobal() ? !IsWritten(load->buffer)
                                             : changing.count(load->buffer.get()) == 0;
        if (!fixed) reason = "its index depends on " + std::string(load->buffer->name);
      } else if (const auto* call = part.as<ir::CallNode>()) {
        if (!arith::IsPureCall(call)) reason = "its index depends on " + std::string(call->name);
      } else if (changing.count(part.get()) != 0) {
        reason = "its index depends on " + std::string(part.as<ir::VarNode>()->name);
      }
      return reason.empty();
    });
    return reason;
  }

 private:
  Objects written_;
};

// A pipelined loop with loads that can be ahead.
struct AsyncLoop {
  const ir::ForNode* loop;
  const ir::SeqNode* body;
  std::vector<Stmt> values;  // names of values in its body, which loads may use
  Objects changing;          // names of values that may not be known ahead, buffers it writes
};

// Returns how many iterations ahead of their use the loads of a loop run. The slot that a load
// fills is then the one whose use has just ended, also where memory has fewer slots than the loop
// stages.
int64_t Distance(const ir::ForNode* loop) { return std::min(StagesOf(loop), SlotsOf(loop)) - 1; }

class LoopFinder : public ir::StmtVisitor {
 public:
  LoopFinder(const ir::KernelLaunchNode* launch, const Foreseeable& ahead)
      : ahead_(ahead), uniformity_(launch) {}
  std::vector<AsyncLoop> loops;

  using StmtVisitor::Visit;
  void Visit(const ir::ForNode* op) override {
    const auto* body = op->body.as<ir::SeqNode>();
    std::string reason = body != nullptr && Distance(op) >= 1 ? WhyNot(op) : "it is none";
    if (reason.empty()) Add(op, body);
    bool outer = std::exchange(together_, together_ && uniformity_.IsUniformLoop(op));
    StmtVisitor::Visit(op);
    together_ = outer;
  }
  void Visit(const ir::WhileNode* op) override {
    bool outer = std::exchange(together_, together_ && uniformity_.IsUniformLoop(op));
    StmtVisitor::Visit(op);
    together_ = outer;
  }
  void Visit(const ir::IfNode* op) override {
    bool outer = std::exchange(together_, together_ && uniformity_.IsUniform(op->condition));
    StmtVisitor::Visit(op);
    together_ = outer;
  }

 private:
  std::string WhyNot(const ir::ForNode* op) const {
    std::string reason;
    if (!together_ || !uniformity_.IsUniformLoop(op)) {
      reason = "not all threads run the loop together";
    } else if (ir::MayLeaveLoop(op->body)) {
      reason = "the loop may be left, or an iteration of it, in the middle";
    } else if (HasProgramOrder(op)) {
      reason = "the program gives the order of its statements";
    }
    if (!reason.empty()) Remark(op->span, "pipeline", "loads do not run ahead: " + reason);
    return reason;
  }
  void Add(const ir::ForNode* op, const ir::SeqNode* body) {
    AsyncLoop loop{op, body, {}, {}};
    ir::WalkEffects(op->body, [&](const ir::Effect& effect) {
      if (effect.Writes()) loop.changing.insert(effect.buffer.get());
    });
    for (const Stmt& s : body->stmts) {
      const auto* bind = s.as<ir::BindNode>();
      if (bind == nullptr) continue;
      if (ahead_.WhyNot(bind->value, loop.changing).empty()) {
        loop.values.push_back(s);
      } else {
        loop.changing.insert(bind->var.get());
      }
    }
    loops.push_back(std::move(loop));
  }

  const Foreseeable& ahead_;
  analysis::Uniformity uniformity_;
  bool together_ = true;  // all threads get here
};

const AsyncLoop* FindLoop(const std::vector<AsyncLoop>& loops, const ir::StmtNode* loop_or_body) {
  auto it = std::find_if(loops.begin(), loops.end(), [&](const AsyncLoop& l) {
    return l.loop == loop_or_body || l.body == loop_or_body;
  });
  return it == loops.end() ? nullptr : &*it;
}

// Returns why a load of the channel cannot run ahead, or an empty string if all can.
std::string WhyInPlace(const Channel& channel, const std::vector<AsyncLoop>& loops,
                       const Foreseeable& ahead) {
  for (const Handover& handover : channel.handovers) {
    const AsyncLoop* loop = FindLoop(loops, handover.seq);
    if (loop == nullptr)
      return "it does not stand in the body of a loop that can be pipelined itself";
    for (size_t at : handover.loads) {
      auto copy = op::AsTileCopy(handover.seq->stmts[at]);
      const ir::Buffer& source = copy->source;
      if (ahead.IsWritten(source)) return "the kernel also writes " + std::string(source->name);
      for (const Expr& chosen : copy->chosen_by) {
        std::string reason = ahead.WhyNot(chosen, loop->changing);
        if (!reason.empty()) return reason;
      }
    }
  }
  return "";
}

// The statement copies from the tile, or is a gemm that reads it.
bool ReadsTile(const Stmt& s, const Channel& channel) {
  if (const auto* gemm = s.as<ir::GemmNode>()) {
    return channel.HasInputOf(gemm);
  }
  const auto* copy = s.as<ir::CopyNode>();
  return copy != nullptr && channel.Has(copy->src->buffer);
}

// Returns whether a gemm reads the tile.
bool IsOperand(const Channel& channel) {
  auto reads = [&](const Stmt& s) {
    return s->kind == ir::StmtKind::kGemm && ReadsTile(s, channel);
  };
  return std::any_of(channel.handovers.begin(), channel.handovers.end(), [&](const Handover& h) {
    return ir::HasStmt(ffi::GetRef<Stmt>(h.seq), reads);
  });
}

// Returns whether the tile is read by an engine that sees other threads' writes only after a proxy
// fence.
bool IsReadByEngine(const ir::SeqNode* body, const Channel& channel) {
  return ir::HasStmt(ffi::GetRef<Stmt>(body), [&](const Stmt& s) {
    const auto* gemm = s.as<ir::GemmNode>();
    const op::TileInstruction* instruction = gemm != nullptr ? op::InstructionOf(gemm) : nullptr;
    bool by_threads = gemm != nullptr &&
                      (instruction == nullptr || instruction->engine() == op::Engine::kThreads);
    return !by_threads && ReadsTile(s, channel);
  });
}

class AsyncWriter : public SlotMutator {
 public:
  AsyncWriter(const std::vector<AsyncLoop>& loops, const std::vector<Ring>& rings)
      : loops_(loops), rings_(rings) {}

  using SlotMutator::Rewrite;
  Stmt Rewrite(const ir::ForNode* op) override {
    const AsyncLoop* loop = FindLoop(loops_, op);
    std::vector<const Ring*> own;
    if (loop != nullptr) {
      for (const Ring& ring : rings_) {
        if (FindHandover(ring, loop->body) != nullptr) own.push_back(&ring);
      }
    }
    return own.empty() ? SlotMutator::Rewrite(op) : Pipelined(*loop, own);
  }
  Stmt Rewrite(const ir::AllocNode* op) override {
    auto has = [&](const Ring& ring) { return ring.channel->Has(op->buffer); };
    bool replaced = std::any_of(rings_.begin(), rings_.end(), has);
    return replaced ? Stmt(ir::Seq(ir::Array<Stmt>())) : SlotMutator::Rewrite(op);
  }

 private:
  Stmt Pipelined(const AsyncLoop& loop, const std::vector<const Ring*>& rings) {
    const ir::ForNode* op = loop.loop;
    const ir::Span& span = op->span;
    int64_t ahead = Distance(op);
    auto number = [&](int64_t n) { return ir::Const(op->var.dtype(), n); };
    std::vector<Stmt> stmts;
    for (int64_t i = 0; i < ahead; ++i) {
      Stmt loads = Loads(loop, rings, op->min + number(i), number(i), /*ordered=*/false);
      stmts.push_back(If(number(i) < op->extent, loads));
      stmts.push_back(ir::CommitGroup(ir::Engine::kCpAsync, span));
    }
    std::vector<Stmt> body = {ir::WaitGroup(ir::Engine::kCpAsync, ahead - 1, span)};
    bool engine = std::any_of(rings.begin(), rings.end(), [&](const Ring* ring) {
      return IsReadByEngine(loop.body, *ring->channel);
    });
    if (engine) body.push_back(ir::Fence(ir::FenceKind::kAsyncProxy, span));
    body.push_back(ir::Barrier(ir::BarrierKind::kRole, span).Giving(Refilled(rings)));
    Expr use = op->var - op->min;
    Stmt loads = Loads(loop, rings, op->var + number(ahead), use + number(ahead), true);
    body.push_back(If(use + number(ahead) < op->extent, loads));
    body.push_back(ir::CommitGroup(ir::Engine::kCpAsync, span));
    for (const Ring* ring : rings) {
      ir::Var slot(ring->channel->Name() + "_slot", ir::dtypes::kInt32, span);
      body.push_back(ir::Bind(slot, SlotOf(*ring, use), span));
      slots_.Enter(*ring, slot);
    }
    for (const Stmt& s : loop.body->stmts) {
      if (RingLoadedBy(s, rings) == nullptr) body.push_back(MutateStmt(s));
    }
    stmts.push_back(ir::For(op->var, op->min, op->extent, op->Kind(),
                            op::Sequence(body, op->body.span()), op->annotations, span));
    return op::Sequence(stmts, span);
  }

  // Behind the barrier of an iteration all threads refill slots: whoever has work in flight that
  // reads them, such as a store by TMA, waits for it before.
  static ir::Array<ir::Buffer> Refilled(const std::vector<const Ring*>& rings) {
    ir::Array<ir::Buffer> slots;
    for (const Ring* ring : rings) {
      for (const ir::Buffer& tiles : ring->slots) slots.push_back(tiles);
    }
    return slots;
  }
  static Stmt If(const Expr& condition, const Stmt& body) {
    return ir::IsTrue(condition) ? body : Stmt(ir::If(condition, body, Stmt(), body.span()));
  }
  static Expr SlotOf(const Ring& ring, const Expr& use) {
    Expr slots = ir::Const(use.dtype(), ring.channel->slots);
    return ir::CastTo(ir::dtypes::kInt32, ir::FloorMod(use, slots));
  }
  static const Ring* RingLoadedBy(const Stmt& s, const std::vector<const Ring*>& rings) {
    auto copy = op::AsTileCopy(s);
    auto loads = [&](const Ring* ring) { return copy && ring->channel->Has(copy->tile); };
    auto it = std::find_if(rings.begin(), rings.end(), loads);
    return it == rings.end() ? nullptr : *it;
  }

  // The loads of an iteration, use number `use` of their rings.
  static Stmt Loads(const AsyncLoop& loop, const std::vector<const Ring*>& rings,
                    const Expr& iteration, const Expr& use, bool ordered) {
    ir::FreshCopy copy;
    copy.Set(loop.loop->var, iteration);
    std::vector<Stmt> stmts;
    for (const Stmt& s : loop.body->stmts) {
      bool value = ir::HasSame(loop.values, s);
      if (value) stmts.push_back(copy.MutateStmt(s));
      const Ring* ring = RingLoadedBy(s, rings);
      if (ring == nullptr) continue;
      ir::Var slot(ring->channel->Name() + "_slot", ir::dtypes::kInt32, s.span());
      stmts.push_back(ir::Bind(slot, SlotOf(*ring, use), s.span()));
      SlotMutator in_slot;
      in_slot.Enter(*ring, slot);
      Stmt load = in_slot.MutateStmt(copy.MutateStmt(s));
      const auto* op = load.as<ir::ParallelForNode>();
      auto annotations = op->annotations;
      annotations.Set(op::kCopyAsync, ordered);
      stmts.push_back(ir::ParallelFor(op->vars, op->extents, op->body, annotations, op->span));
    }
    return op::Sequence(stmts, loop.loop->span);
  }

  const std::vector<AsyncLoop>& loops_;
  const std::vector<Ring>& rings_;
};

}  // namespace

AsyncCopies OverlapCopies(const ir::KernelLaunchNode* launch, bool operands_alone) {
  AsyncCopies result{ffi::GetRef<Stmt>(launch), {}};
  Foreseeable ahead(launch);
  LoopFinder finder(launch, ahead);
  finder.VisitStmt(launch->body);
  for (const Channel& channel : FindChannels(launch, Loader::kThreads)) {
    if (operands_alone && !IsOperand(channel)) continue;
    std::string reason = WhyInPlace(channel, finder.loops, ahead);
    if (reason.empty()) {
      result.channels.push_back(channel);
      continue;
    }
    for (const Handover& handover : channel.handovers) {
      for (size_t at : handover.loads) {
        RemarkLoad(handover.seq->stmts[at], "is not pipelined: " + reason);
      }
    }
  }
  if (result.channels.empty()) return result;
  std::vector<Ring> rings;
  for (const Channel& channel : result.channels) rings.push_back(MakeSlots(channel));
  std::vector<Stmt> body;
  for (const Ring& ring : rings) {
    for (const ir::Buffer& slots : ring.slots) body.push_back(ir::Alloc(slots, slots->span));
  }
  body.push_back(AsyncWriter(finder.loops, rings).MutateStmt(launch->body));
  result.launch = ir::KernelLaunch(launch->block_vars, launch->grid, launch->thread_vars,
                                   launch->threads, WithStackedLayouts(launch, rings),
                                   op::Sequence(body, launch->span), launch->span);
  return result;
}

}  // namespace tilelang::schedule
