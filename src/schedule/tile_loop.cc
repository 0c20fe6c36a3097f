#include "schedule/tile_loop.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "analysis/kernel_scope.h"
#include "ir/async.h"
#include "ir/changed_launch.h"
#include "ir/next_tile.h"
#include "ir/remark.h"
#include "op/copy_cluster.h"
#include "op/effect.h"
#include "op/issue.h"

namespace tilelang::schedule {

using ir::Buffer;
using ir::Expr;
using ir::NextTile;
using ir::Stmt;
using op::I32;

namespace {

constexpr int64_t kSlots = 2;
constexpr const char* kAtomicOrder = "memory_order";

Buffer LocalVar(const std::string& name, const Expr& init, const ir::Span& span) {
  ir::Map<ir::String, ir::Any> attrs;
  attrs.Set("init", init);
  return Buffer(name, ir::dtypes::kInt32, {I32(1)}, {}, "local.var", attrs, span);
}
Expr Get(const Buffer& variable) { return ir::Load(variable, {I32(0)}); }
Stmt Set(const Buffer& variable, const Expr& value, const ir::Span& span) {
  return ir::Store(variable, {I32(0)}, value, span);
}

// Takes over a cluster that has not started, and does its work. One thread sends the request and
// waits for the answer.
class LaunchControl {
 public:
  explicit LaunchControl(const ir::Span& span)
      : span_(span),
        answer_("clc_answer", ir::dtypes::kUInt32, {I32(kAnswerBytes / 4)}, {}, "shared.dyn", {},
                span),
        phase_(op::PhaseOf(op::MakeRingBarrier("clc_answered", 1, I32(1), span), I32(0))) {}

  std::vector<Stmt> Allocs() const {
    return {ir::Alloc(answer_, span_), ir::Alloc(phase_.barrier, span_), op::AllocParity(phase_)};
  }
  std::vector<Stmt> Ask() const {
    Expr barrier = op::AddressOf(phase_);
    std::vector<Stmt> stmts = {
        ir::Arrive(ir::ArriveKind::kThreadExpect, op::ElementOf(phase_), span_,
                   {.bytes = I32(kAnswerBytes)}),
        ir::Fence(ir::FenceKind::kAsyncProxy, span_),
        op::Effect("clc_ask", {ir::AddressOf(answer_, {I32(0)}), barrier}, span_)};
    std::vector<Stmt> wait = op::WaitForPhase(phase_, span_);
    stmts.insert(stmts.end(), wait.begin(), wait.end());
    return stmts;
  }
  // Reads the answer.
  Expr Query(const char* name) const {
    return ir::Call(ir::dtypes::kUInt32, name, {ir::AddressOf(answer_, {I32(0)})}, {}, span_);
  }

 private:
  static constexpr int64_t kAnswerBytes = 16;

  ir::Span span_;
  Buffer answer_;
  op::Phase phase_;
};

// The thread that asks for the tiles of one loop. Its variables: the place in the order of tiles,
// the tile there or -1, and its position in the table.
class Asker {
 public:
  Asker(const NextTile& call, const ir::KernelLaunchNode* launch, const ir::Span& span)
      : call_(call),
        launch_(launch),
        span_(span),
        control_(span),
        place_(LocalVar("tile_place", call.first, span)),
        read_(LocalVar("places_read", I32(0), span)),
        tile_(LocalVar("next_tile", I32(-1), span)) {}

  std::vector<Stmt> Allocs() const {
    std::vector<Stmt> allocs = {ir::Alloc(place_, span_), ir::Alloc(tile_, span_)};
    if (call_.table.defined()) allocs.push_back(ir::Alloc(read_, span_));
    if (call_.counter.defined()) return allocs;
    std::vector<Stmt> more = control_.Allocs();
    allocs.insert(allocs.end(), more.begin(), more.end());
    return allocs;
  }
  Expr Tile() const { return Get(tile_); }

  // The tile at the present place becomes the next one.
  std::vector<Stmt> LookUp() const {
    Expr exists = Get(place_) < call_.places;
    Stmt none = Set(tile_, I32(-1), span_);
    if (!call_.table.defined()) {
      return {Set(tile_, ir::Select(exists, Get(place_), I32(-1)), span_)};
    }
    ir::Call listed(ir::dtypes::kInt32, ir::kListedTile,
                    {ir::AddressOf(call_.table, {I32(0)}), Get(read_), Get(place_), call_.tiles},
                    {}, span_);
    Stmt look =
        op::Sequence({Set(tile_, listed, span_), Set(read_, Get(place_) + I32(1), span_)}, span_);
    return {ir::If(exists, look, none, span_)};
  }
  // Takes a place that no block has had.
  Stmt Advance() const {
    if (!call_.counter.defined()) return TakeOver();
    ir::Var given("given", ir::dtypes::kInt32, span_);
    return op::Sequence(
        {ir::Bind(given, Add(0, "relaxed"), span_), Set(place_, call_.stride + given, span_)},
        span_);
  }
  // Returns the end of a block, after its last tile. The last block resets the counters.
  Stmt Finish() const {
    if (!call_.counter.defined()) return op::Sequence({}, span_);
    ir::Var finished("finished", ir::dtypes::kInt32, span_);
    Expr blocks = I32(1);
    for (const Expr& n : launch_->grid) blocks = blocks * ir::CastTo(ir::dtypes::kInt32, n);
    Expr clusters = ir::FloorDiv(blocks, I32(op::ClusterSize(launch_)));
    Stmt clear = op::Sequence({ir::Store(call_.counter, {I32(0)}, I32(0), span_),
                               ir::Store(call_.counter, {I32(1)}, I32(0), span_)},
                              span_);
    return op::Sequence({ir::Bind(finished, Add(1, "acq_rel"), span_),
                         ir::If(ir::MakeEq(finished, clusters - I32(1)), clear, Stmt(), span_)},
                        span_);
  }

 private:
  Stmt TakeOver() const {
    std::vector<Stmt> stmts = control_.Ask();
    Expr refused = ir::MakeEq(control_.Query("clc_is_canceled"), op::U32(0));
    Expr block = ir::CastTo(ir::dtypes::kInt32, control_.Query("clc_get_first_ctaid_x"));
    Expr cluster = ir::FloorDiv(block, I32(op::ClusterSize(launch_)));
    stmts.push_back(
        ir::If(refused, Set(place_, call_.places, span_), Set(place_, cluster, span_), span_));
    return op::Sequence(stmts, span_);
  }
  Expr Add(int64_t which, const char* order) const {
    ir::Map<ir::String, ir::Any> attrs;
    attrs.Set(kAtomicOrder, ir::String(order));
    return ir::Call(ir::dtypes::kInt32, "atomic_add",
                    {ir::AddressOf(call_.counter, {I32(which)}), I32(1)}, attrs, span_);
  }

  NextTile call_;
  const ir::KernelLaunchNode* launch_;
  ir::Span span_;
  LaunchControl control_;
  Buffer place_;
  Buffer read_;  // the entries of the table before this place are tiles
  Buffer tile_;
};

// Shared memory for numbers of tiles.
Buffer Numbers(int64_t count, const ir::Span& span) {
  ir::Map<ir::String, ir::Any> attrs;
  attrs.Set(ir::kTileNumbers, true);
  return Buffer("tile", ir::dtypes::kInt32, {I32(count)}, {}, "shared.dyn", attrs, span);
}

// The block of a cluster that asks for tiles; all blocks get the same ones.
constexpr int64_t kAskingBlock = 0;

bool AreInClusters(const ir::KernelLaunchNode* launch) { return op::ClusterSize(launch) > 1; }
Expr IsAskingBlock() { return ir::MakeEq(op::BlockRank(), I32(kAskingBlock)); }

// The asking block tells a number to the others of its cluster, after its own.
void TellOthers(const Buffer& numbers, const ir::Array<Expr>& at, const Expr& number,
                const ir::KernelLaunchNode* launch, const ir::Span& span,
                std::vector<Stmt>* stmts) {
  ir::Map<ir::String, ir::Any> attrs;
  attrs.Set(op::kAcrossBlocks, true);
  for (int64_t rank = kAskingBlock + 1; rank < op::ClusterSize(launch); ++rank) {
    ir::Array<Expr> args = {ir::AddressOf(numbers, at), number, I32(rank)};
    stmts->push_back(op::Effect(op::kStoreToBlock, args, span, attrs));
  }
}

bool Asks(const Stmt& s, int64_t number) {
  return ir::HasStmt(s, [&](const Stmt& inner) {
    auto call = ir::AsNextTile(inner);
    return call && call->number == number;
  });
}

// Rewrites the statements that take the next tile, and what stands before their loops.
class TileLoopMutator : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::ForNode* op) override {
    const ir::ForNode* outer = std::exchange(loop_, op);
    std::vector<Stmt> before = std::exchange(before_, {});
    Stmt loop = StmtMutator::Rewrite(op);
    std::vector<Stmt> stmts = std::exchange(before_, std::move(before));
    loop_ = outer;
    if (stmts.empty()) return loop;
    stmts.push_back(loop);
    return op::Sequence(stmts, op->span);
  }
  Stmt Rewrite(const ir::BindNode* op) override {
    auto call = ir::AsNextTile(tvm::ffi::GetRef<Stmt>(op));
    if (!call) return StmtMutator::Rewrite(op);
    std::vector<Stmt> stmts;
    Take(*call, op, &stmts);
    return op::Sequence(stmts, op->span);
  }
  // Merges a statement that takes a tile into the sequence, so that the number keeps its value
  // until the end of the sequence.
  Stmt Rewrite(const ir::SeqNode* op) override {
    bool takes = std::any_of(op->stmts.begin(), op->stmts.end(),
                             [](const Stmt& s) { return ir::AsNextTile(s).has_value(); });
    if (!takes) return StmtMutator::Rewrite(op);
    std::vector<Stmt> stmts;
    for (const Stmt& s : op->stmts) {
      Stmt rewritten = MutateStmt(s);
      const auto* taken = ir::AsNextTile(s) ? rewritten.as<ir::SeqNode>() : nullptr;
      if (taken == nullptr) {
        stmts.push_back(rewritten);
      } else {
        stmts.insert(stmts.end(), taken->stmts.begin(), taken->stmts.end());
      }
    }
    return op::Sequence(stmts, op->span);
  }

 protected:
  virtual void Take(const NextTile& call, const ir::BindNode* op, std::vector<Stmt>* stmts) = 0;
  // Returns the turn of the loop around.
  Expr Turn() const { return loop_->var; }
  void Before(const Stmt& s) { before_.push_back(s); }

 private:
  const ir::ForNode* loop_ = nullptr;
  std::vector<Stmt> before_;
};

class Reader : public TileLoopMutator {
 public:
  Reader(const std::vector<Ring>& rings, const ir::KernelLaunchNode* launch)
      : rings_(rings), in_clusters_(AreInClusters(launch)) {}

 protected:
  void Take(const NextTile& call, const ir::BindNode* op, std::vector<Stmt>* stmts) override {
    const Ring& ring = rings_[static_cast<size_t>(call.number)];
    UseCounter uses(ring, "tiles_taken");
    Before(uses.Alloc());
    Expr slot = uses.BindSlot(op->span, stmts);
    ir::Scope scope = in_clusters_ ? ir::Scope::kPair : ir::Scope::kCta;
    stmts->push_back(uses.WaitFull(slot, op->span, scope));
    Expr number = ir::Load(ring.slots.front(), {slot, I32(0)});
    stmts->push_back(ir::Bind(op->var, number, op->span));
    stmts->push_back(Release(ring, slot, op->span));
    stmts->push_back(uses.Advance(op->span));
  }

 private:
  const std::vector<Ring>& rings_;
  bool in_clusters_;
};

class SchedulerWriter : public TileLoopMutator {
 public:
  SchedulerWriter(const std::vector<Ring>& rings, const ir::KernelLaunchNode* launch)
      : rings_(rings), launch_(launch) {}

 protected:
  void Take(const NextTile& call, const ir::BindNode* op, std::vector<Stmt>* stmts) override {
    const Ring& ring = rings_[static_cast<size_t>(call.number)];
    const ir::Span& span = op->span;
    UseCounter uses(ring, "tiles_given");
    Asker asker(call, launch_, span);
    Before(uses.Alloc());
    for (const Stmt& alloc : asker.Allocs()) Before(alloc);
    Expr slot = uses.BindSlot(span, stmts);
    // A tile is claimed when there is a slot for it, not before: others may come to it first.
    stmts->push_back(uses.WaitEmpty(slot, span));
    stmts->push_back(ir::If(I32(0) < Turn(), asker.Advance(), Stmt(), span));
    for (const Stmt& s : asker.LookUp()) stmts->push_back(s);
    const Buffer& numbers = ring.slots.front();
    stmts->push_back(ir::Store(numbers, {slot, I32(0)}, asker.Tile(), span));
    stmts->push_back(ir::Bind(op->var, ir::Load(numbers, {slot, I32(0)}), span));
    TellOthers(numbers, {slot, I32(0)}, op->var, launch_, span, stmts);
    stmts->push_back(Arrive(ring.full, slot, span));
    for (int64_t rank = kAskingBlock + 1; rank < op::ClusterSize(launch_); ++rank) {
      stmts->push_back(
          Arrive(ring.full, slot, span, {.block = op::U32(rank), .scope = ir::Scope::kPair}));
    }
    stmts->push_back(uses.Advance(span));
    stmts->push_back(ir::If(op->var < I32(0), asker.Finish(), Stmt(), span));
  }

 private:
  const std::vector<Ring>& rings_;
  const ir::KernelLaunchNode* launch_;
};

// Writes tile loops of kernels without roles.
class AloneWriter : public TileLoopMutator {
 public:
  explicit AloneWriter(const ir::KernelLaunchNode* launch)
      : launch_(launch), first_(ir::MakeEq(analysis::ThreadsOf(launch).linear, I32(0))) {
    if (AreInClusters(launch)) first_ = first_ && IsAskingBlock();
  }

 protected:
  void Take(const NextTile& call, const ir::BindNode* op, std::vector<Stmt>* stmts) override {
    const ir::Span& span = op->span;
    Asker asker(call, launch_, span);
    Buffer tiles = Numbers(kSlots, span);
    Before(ir::Alloc(tiles, span));
    for (const Stmt& alloc : asker.Allocs()) Before(alloc);
    Before(ByFirst(asker.LookUp(), span));
    // A thread that writes a slot again has passed the barrier after the last use of the slot.
    Expr slot = ir::FloorMod(Turn(), I32(kSlots));
    std::vector<Stmt> tell = {ir::Store(tiles, {slot}, asker.Tile(), span)};
    TellOthers(tiles, {slot}, asker.Tile(), launch_, span, &tell);
    stmts->push_back(ByFirst(tell, span));
    bool clusters = AreInClusters(launch_);
    stmts->push_back(
        ir::Barrier(clusters ? ir::BarrierKind::kCluster : ir::BarrierKind::kBlock, span));
    stmts->push_back(ir::Bind(op->var, ir::Load(tiles, {slot}), span));
    std::vector<Stmt> ahead = asker.LookUp();
    ahead.insert(ahead.begin(), asker.Advance());
    Stmt next = ir::If(op->var < I32(0), asker.Finish(), op::Sequence(ahead, span), span);
    stmts->push_back(ByFirst({next}, span));
  }

 private:
  Stmt ByFirst(const std::vector<Stmt>& stmts, const ir::Span& span) const {
    return ir::If(first_, op::Sequence(stmts, span), Stmt(), span);
  }

  const ir::KernelLaunchNode* launch_;
  Expr first_;
};

// Returns whether inner loops run equally often for each tile, and no branch skips work for some
// tiles. The proof uses constants and facts from before the loop, and no values in memory.
bool AreEven(const ir::ForNode* tiles) {
  std::unordered_set<const tvm::ffi::Object*> inside;
  bool even = true;
  ir::WalkStmts(tiles->body.as<ir::SeqNode>()->stmts[1].as<ir::IfNode>()->then_case,
                [&](const Stmt& s) {
                  if (const auto* bind = s.as<ir::BindNode>()) inside.insert(bind->var.get());
                  even = even && s->kind != ir::StmtKind::kIf && s->kind != ir::StmtKind::kWhile;
                  const auto* loop = s.as<ir::ForNode>();
                  if (loop == nullptr) return even;
                  ir::WalkExprs(loop->extent, [&](const Expr& e) {
                    even = even && e->kind != ir::ExprKind::kLoad && inside.count(e.get()) == 0;
                    return even;
                  });
                  return even;
                });
  return even;
}

// A loop in the body of one over tiles whose iterations follow from the number of the tile, or
// null.
const ir::ForNode* UnevenLoop(const ir::ForNode* tiles) {
  std::unordered_set<const tvm::ffi::Object*> known = {tiles->var.get()};
  auto follows = [&](const Expr& e) {
    return ir::HasExpr(e, [&](const Expr& part) { return known.count(part.get()) != 0; });
  };
  const ir::ForNode* uneven = nullptr;
  ir::WalkStmts(tiles->body, [&](const Stmt& s) {
    const auto* bind = s.as<ir::BindNode>();
    if (bind != nullptr && follows(bind->value)) known.insert(bind->var.get());
    const auto* loop = s.as<ir::ForNode>();
    if (loop != nullptr && uneven == nullptr && follows(loop->extent)) uneven = loop;
    return uneven == nullptr;
  });
  return uneven;
}

void RemarkUnevenTiles(const ir::ForNode* tiles) {
  if (tiles->annotations.count(kStaticTiles) == 0 || ir::AsInt(tiles->extent) == 1) return;
  const ir::ForNode* uneven = UnevenLoop(tiles);
  if (uneven == nullptr) return;
  std::string line = uneven->span.defined() ? " at line " + std::to_string(uneven->span->line) : "";
  Remark(tiles->span, "pipeline",
         "T.Persistent: how often `" + std::string(uneven->var->name) + "`" + line +
             " runs depends on the tile, and each block takes every wave_size-th tile whatever it "
             "costs: scheduler=\"counter\" with a table= of the deepest tiles first balances them");
}

}  // namespace

void RemarkTiles(const ir::KernelLaunchNode* launch) {
  ir::WalkStmts(launch->body, [](const Stmt& s) {
    const auto* loop = s.as<ir::ForNode>();
    if (loop != nullptr) RemarkUnevenTiles(loop);
    const auto* body = loop == nullptr ? nullptr : loop->body.as<ir::SeqNode>();
    auto call = body == nullptr ? std::nullopt : ir::AsNextTile(body->stmts[0]);
    if (!call || !call->counter.defined() || !AreEven(loop)) return true;
    Remark(s.span(), "pipeline",
           "T.Persistent(scheduler=\"counter\"): every tile takes as many steps, so a counter has "
           "little to balance; scheduler=\"static\" needs none");
    return true;
  });
}

TileLoops::TileLoops(const ir::KernelLaunchNode* launch) : launch_(launch), slice_(launch) {
  ir::WalkStmts(launch->body, [&](const Stmt& s) {
    if (!ir::AsNextTile(s)) return true;
    std::string reason = slice_.Add(s.as<ir::BindNode>());
    if (obstacle_.empty()) obstacle_ = reason;
    Channel channel;
    channel.tiles = {Numbers(1, s.span())};
    channel.slots = kSlots;
    channels_.push_back(channel);
    return true;
  });
}

void TileLoops::Connect(const std::vector<TileReader>& readers, Description* description) {
  for (size_t i = 0; i < channels_.size(); ++i) {
    int64_t threads = 0;
    std::string roles;
    for (const TileReader& reader : readers) {
      if (!Asks(*reader.program, static_cast<int64_t>(i))) continue;
      threads += reader.threads.count * op::ClusterSize(launch_) / reader.share;
      roles += (roles.empty() ? "" : ", ") + std::string(reader.name);
    }
    rings_.push_back(MakeRing(channels_[i], 1, threads));
    if (AreInClusters(launch_)) rings_.back().given_back_to = kAskingBlock;
    description->AddRing(rings_.back(), "scheduler", roles, std::to_string(threads) + " threads");
  }
  for (const TileReader& reader : readers) {
    *reader.program = Reader(rings_, launch_).MutateStmt(*reader.program);
  }
}

Stmt TileLoops::WriteScheduler() const {
  Stmt skeleton = SliceCopier(slice_).MutateStmt(launch_->body);
  Stmt program = SchedulerWriter(rings_, launch_).MutateStmt(skeleton);
  return AreInClusters(launch_) ? ir::If(IsAskingBlock(), program, Stmt(), launch_->span) : program;
}

std::vector<Channel> TilesAlone(const ir::KernelLaunchNode* launch) {
  std::vector<Channel> channels;
  ir::WalkStmts(launch->body, [&](const Stmt& s) {
    if (!ir::AsNextTile(s)) return true;
    channels.emplace_back();
    channels.back().tiles = {Numbers(1, s.span())};
    channels.back().slots = kSlots;
    return true;
  });
  return channels;
}

Stmt WriteTileLoops(const ir::KernelLaunchNode* launch) {
  Stmt body = AloneWriter(launch).MutateStmt(launch->body);
  return ir::WithBody(launch, body);
}

}  // namespace tilelang::schedule
