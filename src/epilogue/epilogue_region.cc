#include "epilogue/epilogue_region.h"

#include <algorithm>

#include "arith/structural.h"
#include "check/check_parts.h"
#include "epilogue/epilogue_loop.h"
#include "ir/aliases.h"
#include "ir/async.h"
#include "ir/effects.h"
#include "ir/printer.h"
#include "ir/same.h"
#include "ir/visitor.h"
#include "op/scan.h"
#include "transform/dead_after.h"

namespace tilelang::epilogue {

using ir::Buffer;
using ir::Expr;
using ir::Region;
using ir::Stmt;
using Kind = EpilogueTile::Kind;
using Place = EpilogueStep::Place;

namespace {

bool HasGemm(const Stmt& s) {
  return ir::HasStmt(s, [&](const Stmt& inner) { return inner->kind == ir::StmtKind::kGemm; });
}

// Results of gemms that the compiler waits for; or, with `own`, of gemms that the program waits
// for.
void AddAccumulators(const Stmt& s, bool own, std::vector<Buffer>* found) {
  ir::WalkStmts(s, [&](const Stmt& inner) {
    const auto* gemm = inner.as<ir::GemmNode>();
    if (gemm == nullptr || gemm->mbar.defined() != own || !gemm->result().IsWhole()) return true;
    const Buffer& c = gemm->result()->buffer;
    if (ir::AsInts(c->shape) && c->shape.size() == 2) ir::AddOnce(c, found);
    return true;
  });
}

// Returns whether a statement of the sequence stores to a tensor, from the one at `begin` on.
bool StoresToGlobal(const ir::SeqNode* seq, size_t begin) {
  bool stores = false;
  for (size_t i = begin; i < seq->stmts.size(); ++i) {
    ir::WalkEffects(seq->stmts[i],
                    [&](const ir::Effect& e) { stores |= e.Writes() && e.buffer.IsGlobal(); });
  }
  return stores;
}

int64_t WidthOf(const Buffer& buffer) {
  return buffer->shape.empty() ? 0 : ir::AsInt(buffer->shape.back()).value_or(0);
}

int64_t WidthOf(const Region& region) {
  return region->extents.empty() ? 0 : ir::AsInt(region->extents.back()).value_or(0);
}

// The extent of the last dimension that a copy goes along, where the dimension is `region`'s last.
bool GoesAlongLast(const Region& region, int64_t width) {
  return !region->extents.empty() && ir::IsConst(region->extents.back(), width);
}

std::string Named(const Stmt& s) {
  const char* name = check::TileOpName(s);
  return name != nullptr ? name : "this statement";
}

// Any order of its operands gives the same bits.
bool IsInAnyOrder(const ir::ReduceNode* op) {
  std::string_view name(op->op.data(), op->op.size());
  if (name == "sum" || name == "abssum" || name == "prod")
    return !ir::IsFloat(op->dst->buffer->dtype);
  return !op->slack.defined();
}

class Collector {
 public:
  Collector(const ir::KernelLaunchNode* launch, const ir::SeqNode* seq, const ColumnSlices& slices)
      : launch_(launch), seq_(seq) {
    region_.slices = slices;
  }

  EpilogueRegion Run(const EpilogueCandidate& candidate) {
    region_.begin = candidate.begin;
    for (const Buffer& c : candidate.accumulators) AddTile(c);
    for (EpilogueTile& tile : region_.tiles) tile.kind = Kind::kAccumulator;
    while (FindTiles()) {
    }
    for (size_t i = region_.begin; i < seq_->stmts.size() && obstacle.text.empty(); ++i) Take(i);
    Trim();
    for (EpilogueTile& tile : region_.tiles) Classify(&tile);
    return region_;
  }

  EpilogueObstacle obstacle;

 private:
  const EpilogueTile* Find(const Buffer& buffer) const { return region_.Find(buffer); }
  bool Touches(const Stmt& s) const {
    bool touches = false;
    ir::WalkEffects(s, [&](const ir::Effect& e) { touches |= Find(e.buffer) != nullptr; });
    return touches;
  }
  void Refuse(const std::string& text, const ir::Span& span) {
    if (obstacle.text.empty()) obstacle = {text, span};
  }

  bool AddTile(const Buffer& buffer) {
    if (Find(buffer) != nullptr || buffer.IsGlobal() || WidthOf(buffer) == 0) return false;
    region_.tiles.push_back({buffer, WidthOf(buffer), Kind::kRegisters});
    return true;
  }

  // Adds the tiles that statements fill from known ones, or use beside them at the same columns.
  bool FindTiles() {
    bool changed = false;
    for (size_t i = region_.begin; i < seq_->stmts.size(); ++i) {
      const Stmt& s = seq_->stmts[i];
      if (!Touches(s)) continue;
      if (const auto* loop = s.as<ir::ParallelForNode>()) {
        for (const Buffer& buffer : EpilogueLoop(loop, region_).AtColumns()) {
          changed |= AddTile(buffer);
        }
      } else if (const auto* copy = s.as<ir::CopyNode>()) {
        bool from = Find(copy->src->buffer) != nullptr;
        const Region& known = from ? copy->src : copy->dst;
        const Region& other = from ? copy->dst : copy->src;
        bool whole = known.IsWhole() || region_.HalfOf(known).has_value();
        changed |= whole && GoesAlongLast(other, WidthOf(known)) && AddTile(other->buffer);
      } else if (const auto* reduce = s.as<ir::ReduceNode>()) {
        bool rows = Find(reduce->src->buffer) != nullptr &&
                    reduce->dim + 1 < static_cast<int64_t>(reduce->src->extents.size());
        changed |= rows && AddTile(reduce->dst->buffer);
      }
    }
    return changed;
  }

  void Take(size_t i) {
    const Stmt& s = seq_->stmts[i];
    std::vector<ir::Effect> effects = ir::EffectsOf(s);
    if (!Touches(s)) return TakeOther(s, effects);
    if (!fixed_.text.empty()) return Refuse(fixed_.text, fixed_.span);
    EpilogueStep step{s, Place::kSliced};
    bool known = TakeLoop(&step) || TakeCopy(s) || TakeFill(s) || TakeReduce(s);
    if (!known) Refuse(Named(s) + " needs the whole tile", s.span());
    if (Conflicts(effects, after_)) Refuse(Named(s) + " needs what the slices leave", s.span());
    sliced_.insert(sliced_.end(), effects.begin(), effects.end());
    region_.steps.push_back(step);
    last_ = region_.steps.size();
    region_.end = i + 1;
  }

  // Moves the statement before the slices if possible, else after them. A statement that can
  // do neither ends the epilogue.
  void TakeOther(const Stmt& s, const std::vector<ir::Effect>& effects) {
    bool fixed = HasGemm(s) || ir::MayLeaveLoop(s);
    fixed = fixed || ir::HasStmt(s, ir::IsOrdering) ||
            ir::HasCall(s, [](const ir::CallNode* call) { return !arith::IsPureCall(call); });
    bool names = s->kind == ir::StmtKind::kBind || s->kind == ir::StmtKind::kAlloc;
    bool before = !Conflicts(effects, sliced_) && !Conflicts(effects, after_);
    if (fixed || (names && !before) || s->kind == ir::StmtKind::kAssume) {
      if (fixed_.text.empty()) {
        fixed_ = {Named(s) + " stands between statements that use the tile", s.span()};
      }
    } else if (!before) {
      after_.insert(after_.end(), effects.begin(), effects.end());
    }
    region_.steps.push_back({s, before ? Place::kBefore : Place::kAfter});
  }

  static bool Conflicts(const std::vector<ir::Effect>& a, const std::vector<ir::Effect>& b) {
    return std::any_of(a.begin(), a.end(), [&](const ir::Effect& x) {
      return std::any_of(b.begin(), b.end(), [&](const ir::Effect& y) {
        return ir::MayOverlap(x.buffer, y.buffer) && (x.Writes() || y.Writes());
      });
    });
  }

  bool TakeLoop(EpilogueStep* step) {
    const auto* loop = step->stmt.as<ir::ParallelForNode>();
    if (loop == nullptr) return false;
    EpilogueLoop view(loop, region_);
    obstacle = view.Check();
    step->column = view.column();
    for (const ir::Effect& e : ir::EffectsOf(step->stmt)) CheckRow(e);
    for (const GlobalAccess& access : view.global()) CheckGlobal(access);
    return true;
  }

  // The result of a reduction along the columns is known after the last slice.
  void CheckRow(const ir::Effect& e) {
    for (const ir::ReduceNode* reduce : folds_) {
      if (!reduce->dst->buffer.same_as(e.buffer)) continue;
      Refuse(std::string(e.buffer->name) + ", which T.reduce_" + std::string(reduce->op) +
                 " makes of all columns, is used beside the tile",
             e.span);
    }
  }

  // Two statements may touch a tensor, one of them writing, at the same elements alone.
  void CheckGlobal(const GlobalAccess& access) {
    for (const GlobalAccess& other : global_) {
      if (!ir::MayOverlap(other.buffer, access.buffer) || !(other.writes || access.writes))
        continue;
      bool same = other.buffer.same_as(access.buffer);
      if (same && (SameElements(other, access) || OtherColumns(other, access))) continue;
      Refuse("tensor " + std::string(access.buffer->name) +
                 " is stored to, and used at other elements: a slice may change what the next one "
                 "needs",
             access.span);
    }
    global_.push_back(access);
  }

  bool TakeCopy(const Stmt& s) {
    const auto* op = s.as<ir::CopyNode>();
    if (op == nullptr) return false;
    ir::Copy others(op, [](ir::CopyNode* copy) {
      copy->options = copy->options.But([&](ir::CopyOptionsNode* options) {
        if (copy->Adds()) options->call = 0;
        options->coalesced_width = options->eviction = 0;
        options->disable_tma = options->prefer_tma = false;
      });
    });
    if (!others->IsPlain()) Refuse("T.copy has options, so it stays whole", s.span());
    int64_t width = 0;
    for (const Region* side : {&op->src, &op->dst}) {
      const EpilogueTile* tile = Find((*side)->buffer);
      if (tile == nullptr) continue;
      width = WidthOf(*side);
      bool whole = side->IsWhole() || region_.HalfOf(*side);
      if (!whole) Refuse("T.copy of a part of " + NameOf(*tile), s.span());
    }
    for (const Region* side : {&op->src, &op->dst}) {
      if (!GoesAlongLast(*side, width)) Refuse("T.copy changes the shape of the tile", s.span());
      if (!(*side)->buffer.IsGlobal()) continue;
      CheckGlobal(AccessOf(*side, side == &op->dst, s.span()));
    }
    return true;
  }

  bool TakeFill(const Stmt& s) {
    const auto* op = s.as<ir::FillNode>();
    if (op == nullptr) return false;
    if (!op->dst.IsWhole()) Refuse("T.fill writes only a part of the tile", s.span());
    if (ir::HasLoad(op->value)) Refuse("T.fill with a value from memory", s.span());
    return true;
  }

  bool TakeReduce(const Stmt& s) {
    const auto* op = s.as<ir::ReduceNode>();
    if (op == nullptr) return false;
    if (auto scan = op::ScanOf(op)) {
      Refuse(scan->combine == "sum" ? "T.cumsum" : "T.cummax", s.span());
      return true;
    }
    const EpilogueTile* from = Find(op->src->buffer);
    if (from == nullptr || !op->src.IsWhole() || !op->dst.IsWhole() || op->Partials() != 1) {
      Refuse("T.reduce_" + std::string(op->op) + " reduces only a part of the tile", s.span());
      return true;
    }
    if (op->dim + 1 < static_cast<int64_t>(op->src->extents.size())) return true;
    if (!IsInAnyOrder(op)) {
      Refuse("T.reduce_" + std::string(op->op) + " along the columns depends on their order",
             s.span());
    }
    bool used = std::any_of(sliced_.begin(), sliced_.end(),
                            [&](const ir::Effect& e) { return e.buffer.same_as(op->dst->buffer); });
    if (used) {
      Refuse(std::string(op->dst->buffer->name) + " is used before T.reduce_" +
                 std::string(op->op) + " writes it",
             s.span());
    }
    folds_.push_back(op);
    return true;
  }

  // Statements after the last slice stay where they are.
  void Trim() { region_.steps.resize(last_); }

  // Decides whether slices may use the tile's memory alone.
  void Classify(EpilogueTile* tile) {
    const Buffer& b = tile->buffer;
    int inside = 0;
    bool written = false;
    bool read_first = false;
    for (size_t i = region_.begin; i < region_.end; ++i) {
      for (const ir::Effect& e : ir::EffectsOf(seq_->stmts[i])) {
        if (!e.buffer.same_as(b)) continue;
        if (inside++ == 0) read_first = e.Reads();
        written |= e.Writes();
      }
    }
    if (inside == 0) return;
    if (!region_.slices.Divides(tile->width)) {
      Refuse(NameOf(*tile) + " has no " + std::to_string(region_.slices.count) + " equal slices",
             b->span);
    }
    if (b.IsShared()) {
      bool alone = inside == ir::CountEffects(launch_->body, b) && !read_first;
      tile->kind = alone && !HasLayout(b) ? Kind::kStaging : Kind::kWhole;
      return;
    }
    if (tile->kind != Kind::kAccumulator && read_first) {
      Refuse(NameOf(*tile) + " is read before the epilogue writes it", b->span);
    }
    if (!b.IsFragment() && !b.IsTmem()) Refuse(NameOf(*tile) + " is not a tile", b->span);
    if (HasLayout(b)) Refuse(NameOf(*tile) + " has a layout that the program gives", b->span);
    ir::Span later;
    if (written && !transform::IsDeadAfter(launch_, seq_, region_.end, b, &later)) {
      Refuse("the whole " + NameOf(*tile) + " is used later", later);
    }
  }

  bool HasLayout(const Buffer& buffer) const {
    auto map = launch_->attrs.Get("layout_map");
    return map && (*map).cast<ir::Map<Buffer, ir::Any>>().count(buffer) != 0;
  }
  static std::string NameOf(const EpilogueTile& tile) { return std::string(tile.buffer->name); }

  const ir::KernelLaunchNode* launch_;
  const ir::SeqNode* seq_;
  EpilogueRegion region_;
  size_t last_ = 0;  // steps up to the last one in slices
  EpilogueObstacle fixed_;
  std::vector<ir::Effect> sliced_;
  std::vector<ir::Effect> after_;
  std::vector<const ir::ReduceNode*> folds_;
  std::vector<GlobalAccess> global_;
};

}  // namespace

const EpilogueTile* EpilogueRegion::Find(const Buffer& buffer) const {
  auto it = std::find_if(tiles.begin(), tiles.end(),
                         [&](const EpilogueTile& tile) { return tile.buffer.same_as(buffer); });
  return it == tiles.end() ? nullptr : &*it;
}

std::optional<int64_t> EpilogueRegion::HalfOf(const Region& region) const {
  const Buffer& buffer = region->buffer;
  int64_t width = WidthOf(buffer);
  bool halves = slices.Parts(width) > 1 && slices.group == width && WidthOf(region) == width / 2;
  if (!halves) return std::nullopt;
  size_t last = region->mins.size() - 1;
  for (size_t i = 0; i < last; ++i) {
    if (!ir::IsConst(region->mins[i], 0)) return std::nullopt;
    if (ir::AsInt(region->extents[i]) != ir::AsInt(buffer->shape[i])) return std::nullopt;
  }
  auto first = ir::AsInt(region->mins[last]);
  if (!first || *first % (width / 2) != 0) return std::nullopt;
  return *first / (width / 2);
}

EpilogueCandidate FindEpilogue(const ir::SeqNode* seq) {
  EpilogueCandidate found;
  std::vector<Buffer> results;
  for (size_t i = 0; i < seq->stmts.size(); ++i) {
    if (!HasGemm(seq->stmts[i])) continue;
    AddAccumulators(seq->stmts[i], /*own=*/false, &results);
    found.begin = i + 1;
  }
  if (results.empty() || !StoresToGlobal(seq, found.begin)) return {};
  for (const Buffer& c : results) {
    int uses = 0;
    for (size_t i = found.begin; i < seq->stmts.size(); ++i) {
      uses += ir::CountEffects(seq->stmts[i], c);
    }
    if (uses > 0) found.accumulators.push_back(c);
  }
  return found;
}

EpilogueCandidate FindOwnEpilogue(const ir::KernelLaunchNode* launch, const ir::SeqNode* seq) {
  std::vector<Buffer> results;
  AddAccumulators(launch->body, /*own=*/true, &results);
  EpilogueCandidate found;
  for (size_t i = 0; i < seq->stmts.size(); ++i) {
    const Stmt& s = seq->stmts[i];
    if (HasGemm(s) || ir::HasStmt(s, ir::IsOrdering)) {
      if (!found.accumulators.empty()) break;
      found.begin = i + 1;
      continue;
    }
    for (const Buffer& c : results) {
      if (ir::CountEffects(s, c) > 0) ir::AddOnce(c, &found.accumulators);
    }
  }
  bool follows = found.begin > 0 && StoresToGlobal(seq, found.begin);
  return follows ? found : EpilogueCandidate();
}

EpilogueRegion CollectEpilogue(const ir::KernelLaunchNode* launch, const ir::SeqNode* seq,
                               const EpilogueCandidate& candidate, const ColumnSlices& slices,
                               EpilogueObstacle* obstacle) {
  Collector collector(launch, seq, slices);
  EpilogueRegion region = collector.Run(candidate);
  *obstacle = collector.obstacle;
  return region;
}

}  // namespace tilelang::epilogue
