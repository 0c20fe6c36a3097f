#include "schedule/channel.h"

#include <algorithm>

#include "ir/effects.h"
#include "ir/remark.h"
#include "ir/same.h"
#include "ir/visitor.h"
#include "layout/layout.h"
#include "op/copy_async.h"
#include "op/copy_cluster.h"
#include "op/cta_pair.h"
#include "op/instruction.h"

namespace tilelang::schedule {

using ir::Buffer;
using ir::Stmt;

namespace {

const ir::CopyNode* AsTmaLoad(const Stmt& s) {
  const auto* copy = s.as<ir::CopyNode>();
  const op::TileInstruction* instruction = copy != nullptr ? op::InstructionOf(copy) : nullptr;
  bool loads = instruction != nullptr && instruction->engine() == op::Engine::kTmaLoad;
  return loads && !copy->mbar.defined() ? copy : nullptr;
}

// A tile, and the sequences that load it.
struct Tile {
  Buffer buffer;
  int64_t slots = 0;
  std::vector<Handover> handovers;
  std::vector<Stmt> loads;
};

class LoadFinder : public ir::StmtVisitor {
 public:
  explicit LoadFinder(Loader loader) : loader_(loader) {}

  using StmtVisitor::Visit;

  std::vector<Tile> tiles;

  void Visit(const ir::ForNode* op) override {
    int64_t outer = stages_;
    int64_t outer_slots = slots_;
    if (op->Kind() == ir::ForKind::kPipelined) {
      stages_ = StagesOf(op);
      slots_ = SlotsOf(op);
    }
    StmtVisitor::Visit(op);
    stages_ = outer;
    slots_ = outer_slots;
  }
  void Visit(const ir::SeqNode* op) override {
    if (stages_ >= 2) {
      for (size_t i = 0; i < op->stmts.size(); ++i) {
        Buffer tile = LoadedBy(op->stmts[i]);
        if (tile.defined()) Add(op, i, tile);
      }
    }
    StmtVisitor::Visit(op);
  }

 private:
  Buffer LoadedBy(const Stmt& s) const {
    if (loader_ == Loader::kThreads) {
      auto copy = op::AsTileCopy(s);
      return copy ? copy->tile : Buffer();
    }
    const ir::CopyNode* load = AsTmaLoad(s);
    return load != nullptr ? load->dst->buffer : Buffer();
  }
  void Add(const ir::SeqNode* seq, size_t at, const Buffer& buffer) {
    auto tile = std::find_if(tiles.begin(), tiles.end(),
                             [&](const Tile& t) { return t.buffer.same_as(buffer); });
    if (tile == tiles.end()) tile = tiles.insert(tiles.end(), {buffer, 0, {}, {}});
    tile->slots = std::max(tile->slots, slots_);
    tile->loads.push_back(seq->stmts[at]);
    auto& handovers = tile->handovers;
    if (handovers.empty() || handovers.back().seq != seq) handovers.push_back({seq, {}, 0, 0});
    handovers.back().loads.push_back(at);
  }

  Loader loader_;
  int64_t stages_ = 0;  // of the innermost pipelined loop
  int64_t slots_ = 0;   // of its tiles
};

int64_t MaskOf(const Stmt& load) {
  const auto* copy = load.as<ir::CopyNode>();
  return copy != nullptr ? copy->options->cluster_mask : 0;
}
int64_t MaskOf(const Tile& tile) { return MaskOf(tile.loads.front()); }

// Returns whether the statement has a gemm that reads the buffer, runs beside the threads, and
// signals its completion by tcgen05.commit.
bool UsedByTensorCoreAlone(const Stmt& stmt, const Buffer& buffer) {
  bool used = false;
  ir::WalkStmts(stmt, [&](const Stmt& s) {
    const auto* gemm = s.as<ir::GemmNode>();
    used |= gemm != nullptr && op::InstructionOf(gemm) != nullptr &&
            op::InstructionOf(gemm)->engine() == op::Engine::kTcgen05 && gemm->HasInput(buffer);
    return !used;
  });
  return used;
}

// Returns whether such a gemm stands in an inner loop. The warp that issues it does not follow the
// slots of tiles that arrive less often.
bool UsedInInnerLoop(const Handover& handover, const Buffer& buffer) {
  return std::any_of(handover.seq->stmts.begin(), handover.seq->stmts.end(), [&](const Stmt& s) {
    return s.as<ir::ForNode>() != nullptr && UsedByTensorCoreAlone(s, buffer);
  });
}

bool TakesAddress(const Stmt& s, const Buffer& buffer) {
  bool taken = false;
  ir::WalkEffects(s, [&](const ir::Effect& effect) {
    taken |= effect.buffer.same_as(buffer) && effect.kind == ir::EffectKind::kAddress;
  });
  return taken;
}

// Constant boxes that do not overlap and are together as large as the buffer.
bool CoverWhole(const std::vector<const ir::CopyNode*>& loads) {
  if (loads.front() == nullptr) return loads.size() == 1;  // by threads: of all elements
  if (loads.size() == 1) return loads.front()->dst.IsWhole();
  const Buffer& buffer = loads.front()->dst->buffer;
  std::vector<std::pair<std::vector<int64_t>, std::vector<int64_t>>> boxes;
  int64_t covered = 0;
  for (const ir::CopyNode* load : loads) {
    auto mins = ir::AsInts(load->dst->mins);
    auto extents = ir::AsInts(load->dst->extents);
    if (!mins || !extents) return false;
    for (const auto& [other_mins, other_extents] : boxes) {
      bool apart = false;
      for (size_t d = 0; d < mins->size(); ++d) {
        apart |= (*mins)[d] + (*extents)[d] <= other_mins[d] ||
                 other_mins[d] + other_extents[d] <= (*mins)[d];
      }
      if (!apart) return false;
    }
    covered += layout::Product(*extents);
    boxes.emplace_back(*mins, *extents);
  }
  return covered == layout::Product(*ir::AsInts(buffer->shape));
}

// Finds where the sequence uses the tile; why it cannot be a handover, or nothing.
std::string FindUses(const Buffer& buffer, Handover* handover, int* accesses) {
  const auto& stmts = handover->seq->stmts;
  std::vector<const ir::CopyNode*> loads;
  for (size_t at : handover->loads) loads.push_back(stmts[at].as<ir::CopyNode>());
  if (!CoverWhole(loads)) return "it does not load the whole tile";
  size_t last_load = handover->loads.back();
  bool used = false;
  for (size_t i = 0; i < stmts.size(); ++i) {
    bool is_load = std::count(handover->loads.begin(), handover->loads.end(), i) != 0;
    int count = ir::CountEffects(stmts[i], buffer);
    *accesses += count;
    if (is_load || count == 0) continue;
    if (i < last_load) return "it is used before it is loaded in the same iteration";
    if (!used) handover->first_use = i;
    handover->last_use = i;
    used = true;
  }
  if (!used) return "it is not used in the iteration that loads it";
  for (size_t i = handover->loads.front(); i <= handover->last_use; ++i) {
    if (ir::MayLeaveLoop(stmts[i])) return "the loop may be left between the load and its use";
  }
  return "";
}

std::string FindUses(const ir::KernelLaunchNode* launch, Tile* tile) {
  if (TakesAddress(launch->body, tile->buffer)) return "its address is taken";
  if (MaskOf(*tile) != 0 && op::HasGemmsInPairs(launch->body)) {
    return "it is for several blocks, and pairs of blocks compute the gemms";
  }
  for (const Stmt& load : tile->loads) {
    if (MaskOf(load) != MaskOf(*tile)) {
      return "its loads are for different blocks of the cluster";
    }
  }
  int accesses = 0;
  for (Handover& handover : tile->handovers) {
    std::string reason = FindUses(tile->buffer, &handover, &accesses);
    if (!reason.empty()) return reason;
    if (UsedInInnerLoop(handover, tile->buffer)) return "tcgen05.mma reads it in an inner loop";
  }
  int all = ir::CountEffects(launch->body, tile->buffer);
  return all == accesses ? "" : "it is also used outside of the sequence that loads it";
}

}  // namespace

bool Channel::Has(const Buffer& tile) const { return ir::HasSame(tiles, tile); }

bool Channel::HasInputOf(const ir::GemmNode* gemm) const {
  std::vector<const ir::GemmOperandNode*> inputs = gemm->Inputs();
  return std::any_of(inputs.begin(), inputs.end(),
                     [&](const auto* input) { return Has(input->buffer()); });
}

// An annotation of pipelined loops (int).
static constexpr const char* kStages = "num_stages";

Buffer Marked(const Buffer& buffer, const char* mark) {
  ir::Map<ir::String, ir::Any> attrs = buffer->attrs;
  attrs.Set(mark, true);
  return Buffer(buffer->name, buffer->dtype, buffer->shape, buffer->strides, buffer->scope, attrs,
                buffer->span);
}

int64_t StagesOf(const ir::ForNode* loop) {
  if (loop->Kind() != ir::ForKind::kPipelined) return 0;
  auto stages = loop->annotations.Get(kStages);
  return stages ? (*stages).cast<int64_t>() : 0;
}

ir::For WithStages(const ir::ForNode* loop, int64_t stages, const char* kept) {
  auto annotations = loop->annotations;
  annotations.Set(kStages, stages);
  if (kept != nullptr && annotations.count(kept) == 0) annotations.Set(kept, StagesOf(loop));
  return ir::For(loop->var, loop->min, loop->extent, loop->Kind(), loop->body, annotations,
                 loop->span);
}

int64_t SlotsOf(const ir::ForNode* loop) {
  auto slots = loop->annotations.Get(kTileSlots);
  return slots ? (*slots).cast<int64_t>() : StagesOf(loop);
}

void RemarkLoad(const Stmt& load, const std::string& text) {
  if (const auto* copy = load.as<ir::CopyNode>()) return RemarkCopy(copy, text);
  auto copy = op::AsTileCopy(load);
  Remark(load.span(), "copy",
         "the load of " + std::string(copy->tile->name) + " from " +
             std::string(copy->source->name) + " " + text);
}

std::vector<Channel> FindChannels(const ir::KernelLaunchNode* launch, Loader loader) {
  LoadFinder finder(loader);
  finder.VisitStmt(launch->body);
  std::vector<Channel> channels;
  for (Tile& tile : finder.tiles) {
    std::string reason = FindUses(launch, &tile);
    if (!reason.empty()) {
      for (const Stmt& load : tile.loads) RemarkLoad(load, "is not pipelined: " + reason);
      continue;
    }
    // Tiles that go together share the barriers.
    auto together = [&](const Channel& channel) {
      auto same = [](const Handover& a, const Handover& b) {
        return a.seq == b.seq && a.first_use == b.first_use && a.last_use == b.last_use;
      };
      return channel.blocks == MaskOf(tile) &&
             std::equal(channel.handovers.begin(), channel.handovers.end(), tile.handovers.begin(),
                        tile.handovers.end(), same);
    };
    auto channel = std::find_if(channels.begin(), channels.end(), together);
    if (channel == channels.end()) {
      channels.push_back(
          {{tile.buffer}, tile.slots, tile.handovers, MaskOf(tile), op::ClusterSize(launch)});
      continue;
    }
    channel->tiles.push_back(tile.buffer);
    for (size_t i = 0; i < tile.handovers.size(); ++i) {
      auto& loads = channel->handovers[i].loads;
      loads.insert(loads.end(), tile.handovers[i].loads.begin(), tile.handovers[i].loads.end());
      std::sort(loads.begin(), loads.end());
    }
  }
  return channels;
}

}  // namespace tilelang::schedule
