#include "memory/plan_shared_memory.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "analysis/uniformity.h"
#include "ir/async.h"
#include "ir/changed_launch.h"
#include "ir/error.h"
#include "ir/intrinsics.h"
#include "ir/same.h"
#include "ir/visitor.h"
#include "op/copy_cluster.h"
#include "op/issue.h"
#include "registry/functions.h"

namespace tilelang::memory {

using namespace ir;  // NOLINT(google-build-using-namespace)

namespace {

constexpr int64_t kForever = std::numeric_limits<int64_t>::max();

using Objects = std::unordered_set<const ffi::Object*>;

int64_t RoundUp(int64_t x, int64_t unit) { return (x + unit - 1) / unit * unit; }

// Times count the statements of a walk through the program.
struct Block {
  Buffer buffer;
  int64_t bytes = 0;
  int64_t align = 16;
  int64_t depth = 0;  // loops around the allocation
  int64_t first = kForever;
  int64_t last = -1;
  int64_t offset = 0;
  // Fields that decide whether the buffer may take bytes that its own threads have used for the
  // last time, and from which use on.
  bool overlays = false;
  int64_t last_use = -1;
  int64_t first_side = -1;  // of the outermost branch of some threads: 0 outside
  int64_t last_side = -1;
  bool in_loop = false;  // is allocated or used in one that waits for engines or threads

  bool IsUsed() const { return last >= 0; }
  bool IsSizedAtCall() const { return buffer->attrs.count(kBytesAtCall) != 0; }
  bool IsOverlaid() const { return buffer->attrs.count(kOverlaid) != 0; }
  bool OverlapsInTime(const Block& other) const {
    bool one_side = first_side == other.first_side && last_side == other.last_side;
    if (overlays && other.overlays && !one_side) return true;
    if (Follows(other) || other.Follows(*this)) return false;
    return first <= other.last && other.first <= last;
  }
  bool Follows(const Block& other) const {
    bool own = other.last_side == first_side;
    return overlays && (own ? other.last_use < first : other.IsOverlaid());
  }
};

// The buffers whose counterparts in other blocks the call writes.
Array<Buffer> RemoteWrites(const CallNode* call) {
  if (auto given = call->attrs.Get(op::kRemoteWrites)) return (*given).cast<Array<Buffer>>();
  if (!call->Is(Builtin::kStoreToBlock)) return {};
  return {AddressedElement(call->args[0])->buffer};
}

bool IsPlanned(const Buffer& buffer) { return buffer.IsShared() || buffer.IsBarrier(); }

class LiveRanges : public StmtVisitor {
 public:
  using StmtVisitor::Visit;

  // overlaying: buffers that may take used bytes, like buffers with kOverlays.
  explicit LiveRanges(const KernelLaunchNode* launch, Objects overlaying = {})
      : uniformity_(launch), overlaying_(std::move(overlaying)) {
    VisitStmt(launch->body);
    for (auto& [buffer, pending] : pending_) ExtendForever(buffer, pending);
  }
  std::vector<Block> blocks;
  // Some warps wait, inside a branch, for others on barriers of the program.
  bool has_roles = false;
  // The program has barriers.
  bool orders_itself = false;

  // Returns the tiles that no loop uses, such as tiles of an epilogue.
  Objects OutsideOfLoops() const {
    Objects found;
    for (const Block& block : blocks) {
      bool tile = block.buffer.IsShared() && block.IsUsed();
      if (tile && !block.in_loop && block.last != kForever) found.insert(block.buffer.get());
    }
    return found;
  }

  void VisitStmt(const Stmt& s) override {
    ++time_;
    StmtVisitor::VisitStmt(s);
  }
  void Visit(const AllocNode* op) override {
    const Buffer& buffer = op->buffer;
    if (!IsPlanned(buffer)) return;
    std::optional<int64_t> size = AsInt(buffer->shape[0]);
    TL_CHECK(buffer->shape.size() == 1 && size.has_value(), op->span,
             buffer->name << " is not a flat buffer of constant size");
    Block block{.buffer = buffer};
    // NVRTC joins loads of neighbours to one of 16 bytes, even of three elements: the fourth must
    // exist, and nobody may write to it meanwhile.
    block.bytes = RoundUp(*size * Bytes(buffer->dtype), block.align);
    if (buffer.IsBarrier()) {
      block.bytes = *size * Bytes(buffer->dtype);
      block.align = 8;
      block.first = 0;
      block.last = block.last_use = kForever;
      orders_itself |= op::IsProgramBarrier(buffer);
    }
    auto align = buffer->attrs.find("align");
    if (align != buffer->attrs.end()) block.align = (*align).second.cast<int64_t>();
    block.overlays = buffer->attrs.count(kOverlays) != 0 || overlaying_.count(buffer.get()) != 0;
    block.depth = static_cast<int64_t>(spans_.size());
    block.in_loop = std::any_of(spans_.begin(), spans_.end(),
                                [](const Enclosing& span) { return !span.divergent; });
    index_[buffer.get()] = blocks.size();
    blocks.push_back(block);
  }
  void Visit(const BindNode* op) override {
    // The variable may hold an address of a buffer.
    VisitExpr(op->value);
    WalkExprs(op->value, [&](const Expr& e) {
      const LoadNode* element = AddressedElement(e);
      if (element != nullptr) aliases_[op->var.get()].push_back(element->buffer);
      return true;
    });
  }
  void Visit(const VarNode* op) override {
    auto it = aliases_.find(op);
    if (it == aliases_.end()) return;
    for (const Buffer& buffer : it->second) Use(buffer);
  }
  void Visit(const CallNode* op) override {
    // A copy to another block completes on the barrier of that block, which nobody here waits for.
    const Array<Buffer> remote = RemoteWrites(op);
    for (const MemoryEffect& effect : CallEffects(op)) {
      Use(effect.buffer);
      if (effect.proxy == Proxy::kAsync && effect.buffer.IsShared() && !in_store_) {
        const Object* end = wgmma_ != nullptr ? wgmma_ : BarrierOf(op).get();
        Begin(effect.buffer, remote.empty() ? end : op);
      }
    }
    for (const Buffer& buffer : remote) Remote(buffer);
    if (op->Is(Builtin::kBlockVote)) MarkWaits();
    StmtVisitor::Visit(op);
  }
  void Visit(const ArriveNode* op) override {
    if (op->Kind() == ArriveKind::kCommit) Attach(op->barrier());
    StmtVisitor::Visit(op);
  }
  void Visit(const WaitParityNode* op) override {
    if (op->scope_kind() != Scope::kCluster) {
      Await(op->barrier());
      bool of_program =
          op::IsProgramBarrier(op->barrier()) && op->barrier()->attrs.count(op::kOfExchange) == 0;
      has_roles |= of_program && divergent_ > 0;
      MarkWaits();
    }
    StmtVisitor::Visit(op);
  }
  void Visit(const BarrierNode* op) override {
    bool half = op->Part() != BarrierPart::kWhole || op->Kind() == BarrierKind::kWarpgroups;
    if (!half) MarkWaits();
    StmtVisitor::Visit(op);
  }
  // The issuing threads wait before they write the bytes again, through any buffer.
  void Visit(const IssueNode* op) override {
    if (op->awaited) return VisitStmt(op->body);
    MarkWaits();
    in_store_ = op->engine() == Engine::kTmaStore;
    bool wgmma = op->engine() == Engine::kWgmma;
    if (wgmma) wgmmas_.insert(wgmma_ = op->completion.get());
    VisitStmt(op->body);
    in_store_ = false;
    wgmma_ = nullptr;
    if (op->completion->barrier.defined()) Await(op->completion->barrier);
  }
  void Visit(const IfNode* op) override {
    VisitExpr(op->condition);
    bool divergent = !uniformity_.IsUniform(op->condition);
    divergent_ += divergent;
    bool outermost = divergent && divergent_ == 1;
    auto sides = [&] {
      if (outermost) side_ = ++sides_;
      VisitStmt(op->then_case);
      if (outermost) side_ = ++sides_;
      if (op->else_case.defined()) VisitStmt(op->else_case);
    };
    divergent ? Enclosed(true, sides) : sides();
    divergent_ -= divergent;
    if (outermost) side_ = 0;
  }
  void Visit(const ForNode* op) override {
    Enclosed(false, [&] { StmtVisitor::Visit(op); });
  }
  void Visit(const WhileNode* op) override {
    Enclosed(false, [&] { StmtVisitor::Visit(op); });
  }

 protected:
  void VisitBuffer(const Buffer& buffer) override { Use(buffer); }

 private:
  using Object = ffi::Object;

  // The asynchronous uses of a buffer.
  struct Pending {
    std::vector<const Object*> uses;     // barriers and waits that tell the ends
    bool by_tensor_core = false;         // by tcgen05 instructions, too
    std::vector<const Object*> commits;  // barriers of which each tells the end of all tcgen05 uses
  };

  void Use(const Buffer& buffer) { Extend(buffer, time_); }
  void MarkWaits() {
    for (Enclosing& span : spans_) span.waits = true;
  }
  // Other blocks write it at any time.
  void Remote(const Buffer& buffer) {
    Extend(buffer, 0);
    Extend(buffer, kForever);
  }
  void Extend(const Buffer& buffer, int64_t time) {
    auto it = index_.find(buffer.get());
    if (it == index_.end()) return;
    Block& block = blocks[it->second];
    block.first = std::min(block.first, time);
    block.last = std::max(block.last, time);
    block.last_use = std::max(block.last_use, time);
    if (block.first_side < 0) block.first_side = side_;
    block.last_side = side_;
    // Touched in a region that its allocation is outside of: live all through the region. Sides of
    // a branch that different threads take run at the same time: so do their own buffers live.
    for (size_t i = 0; i < spans_.size(); ++i) {
      bool outside = i >= static_cast<size_t>(block.depth);
      bool beside = spans_[i].divergent && !block.overlays;
      if (outside || beside) spans_[i].touched.push_back(it->second);
    }
  }
  // Returns whether all uses are by wgmma gemms, whose threads wait for them before they write the
  // bytes again.
  bool HasOnlyWgmma(const Pending& pending) const {
    return !pending.by_tensor_core &&
           std::all_of(pending.uses.begin(), pending.uses.end(), [&](const Object* use) {
             return use != nullptr && wgmmas_.count(use) != 0;
           });
  }
  // Extends the life of a buffer that is in asynchronous use when the program ends.
  void ExtendForever(const Buffer& buffer, const Pending& pending) {
    auto it = index_.find(buffer.get());
    if (it == index_.end()) return;
    Block& block = blocks[it->second];
    Block before = block;
    Extend(buffer, kForever);
    if (!HasOnlyWgmma(pending)) return;
    block.last_use = before.last_use;
    block.last_side = before.last_side;
  }
  template <typename Body>
  void Enclosed(bool divergent, const Body& body) {
    int64_t begin = time_;
    spans_.push_back({.divergent = divergent, .waits = false, .touched = {}});
    body();
    bool waits = spans_.back().waits;
    std::vector<size_t> touched = std::move(spans_.back().touched);
    spans_.pop_back();
    int64_t end = ++time_;
    for (size_t i : touched) {
      blocks[i].first = std::min(blocks[i].first, begin);
      blocks[i].last = std::max(blocks[i].last, end);
      if (!divergent) blocks[i].last_use = std::max(blocks[i].last_use, end);
      blocks[i].in_loop |= waits && !divergent;
    }
  }
  static Buffer BarrierOf(const CallNode* op) {
    for (const Expr& arg : op->args) {
      const LoadNode* load = AddressedElement(arg);
      if (load == nullptr) load = arg.as<LoadNode>();
      if (load != nullptr && load->buffer.IsBarrier()) return load->buffer;
    }
    return Buffer();
  }
  // An asynchronous use whose end a barrier or wait tells; null: a commit that comes later.
  void Begin(const Buffer& buffer, const Object* end) {
    Pending& pending = pending_[buffer];
    if (end != nullptr) return pending.uses.push_back(end);
    pending.by_tensor_core = true;
    pending.commits.clear();
  }
  // Instructions issued so far complete on this barrier, too.
  void Attach(const Buffer& barrier) {
    for (auto& [buffer, pending] : pending_) {
      if (pending.by_tensor_core) pending.commits.push_back(barrier.get());
    }
  }
  void Await(const Buffer& barrier) {
    Array<Buffer>& ended = ended_[barrier.get()];
    for (auto it = pending_.begin(); it != pending_.end();) {
      if (!HasOnlyWgmma(it->second)) Use(it->first);
      auto& [uses, by_tensor_core, commits] = it->second;
      bool committed = std::find(commits.begin(), commits.end(), barrier.get()) != commits.end();
      bool ends = std::erase(uses, static_cast<const Object*>(barrier.get())) > 0 || committed;
      if (ends && divergent_ > 0) AddOnce(it->first, &ended);
      by_tensor_core &= !committed;
      it = uses.empty() && !by_tensor_core ? pending_.erase(it) : std::next(it);
    }
    // Warps of another branch, whose text ends before, use these again until the next phase.
    for (const Buffer& buffer : ended) Use(buffer);
  }

  struct Enclosing {
    bool divergent;
    bool waits;  // for an engine or other threads, somewhere in it
    std::vector<size_t> touched;
  };
  analysis::Uniformity uniformity_;
  Objects overlaying_;
  int64_t time_ = 0;
  int divergent_ = 0;
  int64_t side_ = 0;
  int64_t sides_ = 0;
  bool in_store_ = false;
  const Object* wgmma_ = nullptr;  // the completion of the gemm that is visited
  std::unordered_set<const Object*> wgmmas_;
  std::vector<Enclosing> spans_;
  std::unordered_map<const Object*, size_t> index_;
  std::unordered_map<const Object*, std::vector<Buffer>> aliases_;
  std::unordered_map<Buffer, Pending, ffi::ObjectPtrHash, ffi::ObjectPtrEqual> pending_;
  // The buffers whose uses ended with a wait inside a branch, by the barrier of the wait.
  std::unordered_map<const Object*, Array<Buffer>> ended_;
};

// Returns how long bytes that two blocks share are idle between their uses: negative if both live
// at the same time, kForever if whoever uses the later one has waited for the earlier one anyway.
int64_t IdleTime(const Block& a, const Block& b) {
  if (a.OverlapsInTime(b)) return -1;
  if ((a.overlays && b.IsOverlaid()) || (b.overlays && a.IsOverlaid())) return kForever;
  const Block& late = a.first > b.first ? a : b;
  const Block& early = a.first > b.first ? b : a;
  return late.first - (late.overlays ? early.last_use : early.last);
}

// Returns the lowest offset at which `block` overlaps no placed block that lives at the same time;
// with a limit to its end, of these offsets the one whose bytes have been idle for the longest
// time. Nothing if no offset below the limit is free.
std::optional<int64_t> Fit(const Block& block, const std::vector<const Block*>& placed,
                           std::optional<int64_t> limit) {
  std::vector<int64_t> offsets = {0};
  for (const Block* other : placed) {
    offsets.push_back(RoundUp(other->offset + other->bytes, block.align));
  }
  std::sort(offsets.begin(), offsets.end());
  std::optional<int64_t> best;
  int64_t longest = -1;
  for (int64_t offset : offsets) {
    if (limit && offset + block.bytes > *limit) break;
    int64_t idle = kForever;
    for (const Block* other : placed) {
      bool apart = offset + block.bytes <= other->offset || other->offset + other->bytes <= offset;
      if (!apart) idle = std::min(idle, IdleTime(block, *other));
    }
    if (idle <= longest) continue;
    best = offset;
    longest = idle;
    if (!limit) break;
  }
  return best;
}

// Places all blocks, big ones first, and returns the bytes in use; nothing if they do not fit below
// the limit.
std::optional<int64_t> PlaceBelow(std::optional<int64_t> limit, std::vector<Block>* blocks) {
  std::vector<Block*> order;
  for (Block& block : *blocks) {
    if (block.IsUsed() && !block.IsSizedAtCall()) order.push_back(&block);
  }
  std::stable_sort(order.begin(), order.end(), [](const Block* a, const Block* b) {
    return std::pair(a->align, a->bytes) > std::pair(b->align, b->bytes);
  });
  std::vector<const Block*> placed;
  int64_t total = 0;
  for (Block* block : order) {
    std::optional<int64_t> offset = Fit(*block, placed, limit);
    if (!offset) return std::nullopt;
    block->offset = *offset;
    total = std::max(total, block->offset + block->bytes);
    placed.push_back(block);
  }
  return total;
}

// Places all blocks and returns the bytes in use. Of the plans that take no more bytes, it prefers
// one in which threads rarely wait until others have left their bytes: the slices of a result then
// lie apart, and a slice does not wait for the TMA store of the one before it.
int64_t Place(std::vector<Block>* blocks) {
  int64_t total = *PlaceBelow(std::nullopt, blocks);
  std::vector<Block> apart = *blocks;
  if (PlaceBelow(total, &apart)) *blocks = std::move(apart);
  return total;
}

// Places the tiles whose sizes are known at the call behind the other blocks, in the order of the
// program, and returns the bytes in use at most. Each version of a part of the kernel has a copy of
// a tile, and all copies take the same bytes.
//
// The offset of a tile behind another one depends on the call: attrs["smem_offsets_at_call"] has
// it. The constant offset of such a tile is that for the largest tiles before it, so that constant
// offsets still say which tiles are apart. Sets attrs["smem_at_call"], too.
int64_t PlaceSizedAtCall(std::vector<Block>* blocks, int64_t total, Map<String, Any>* attrs) {
  struct Place {
    Expr bytes;
    Expr at_call;
    int64_t offset;
  };
  std::vector<Place> places;
  Expr next_at_call;
  int64_t end = total;
  int64_t align = 16;
  for (const Block& block : *blocks) {
    if (block.IsUsed() && block.IsSizedAtCall()) align = std::max(align, block.align);
  }
  Map<Buffer, Expr> at_call;
  for (Block& block : *blocks) {
    if (!block.IsUsed() || !block.IsSizedAtCall()) continue;
    Expr own = block.buffer->attrs.at(kBytesAtCall).cast<Expr>();
    auto same = [&](const Place& place) { return place.bytes.same_as(own); };
    auto place = std::find_if(places.begin(), places.end(), same);
    if (place == places.end()) {
      int64_t offset = RoundUp(end, align);
      if (places.empty()) next_at_call = Const(dtypes::kInt64, offset);
      place = places.insert(places.end(), {own, next_at_call, offset});
      Expr unit = Const(dtypes::kInt64, align);
      Expr taken = Max(own, Const(dtypes::kInt64, 0));  // an integer parameter may be negative
      next_at_call = next_at_call + CeilDiv(taken, unit) * unit;
      end = offset + block.bytes;
    }
    block.offset = place->offset;
    if (place != places.begin()) at_call.Set(block.buffer, place->at_call);
  }
  if (!places.empty()) attrs->Set("smem_at_call", next_at_call);
  if (!at_call.empty()) attrs->Set("smem_offsets_at_call", at_call);
  return end;
}

[[noreturn]] void TooMuch(const KernelLaunchNode* launch, const Target& target, int64_t total,
                          const std::vector<Block>& blocks) {
  std::string list;
  for (const Block& block : blocks) {
    if (!block.IsUsed()) continue;
    list += "\n  " + std::string(block.buffer->name) + ": " + std::to_string(block.bytes) +
            " bytes at offset " + std::to_string(block.offset);
    const Span& span = block.buffer->span;
    if (span.defined()) list += ", allocated in line " + std::to_string(span->line);
  }
  TL_USER_ERROR(kResource, launch->span,
                "the kernel needs " << total << " bytes of shared memory; " << target->arch
                                    << " has " << target->shared_memory_per_block
                                    << " bytes for a block. Use smaller tiles or fewer stages."
                                    << list);
}

class SharedMemoryPlanner : public StmtMutator {
 public:
  using StmtMutator::Rewrite;

  SharedMemoryPlanner(Target target, bool roles_share)
      : target_(std::move(target)), roles_share_(roles_share) {}

  Stmt Rewrite(const KernelLaunchNode* op) override {
    LiveRanges ranges(op);
    if (ranges.has_roles) {
      for (Block& block : ranges.blocks) {
        block.overlays = false;
        if (block.IsUsed() && !roles_share_) block.first = 0, block.last = kForever;
      }
    }
    int64_t total = Place(&ranges.blocks);
    if (total > target_->shared_memory_per_block && !ranges.has_roles && !ranges.orders_itself) {
      ranges = LiveRanges(op, ranges.OutsideOfLoops());
      total = Place(&ranges.blocks);
    }
    if (total > target_->shared_memory_per_block) TooMuch(op, target_, total, ranges.blocks);
    Map<String, Any> attrs = op->attrs;
    total = PlaceSizedAtCall(&ranges.blocks, total, &attrs);
    Map<Buffer, int64_t> offsets;
    for (const Block& block : ranges.blocks) offsets.Set(block.buffer, block.offset);
    attrs.Set("smem_offsets", offsets);
    attrs.Set("dyn_smem_bytes", total);
    return WithAttrs(op, attrs);
  }

 private:
  Target target_;
  bool roles_share_;
};

}  // namespace

Func PlanSharedMemory(const Func& func, const Target& target) {
  auto shares = func->attrs.Get(kRolesShare);
  bool roles_share = shares && (*shares).cast<bool>();
  return func.WithBody(SharedMemoryPlanner(target, roles_share).MutateStmt(func->body));
}

TVM_FFI_STATIC_INIT_BLOCK() {
  registry::Functions().Add("tl.transform.PlanSharedMemory", [](Func func, String arch) {
    return PlanSharedMemory(func, GetTarget(arch));
  });
}

}  // namespace tilelang::memory
