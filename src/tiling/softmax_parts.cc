#include "tiling/softmax_parts.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <unordered_set>
#include <vector>

#include "ir/changed_launch.h"
#include "ir/effects.h"
#include "ir/same.h"
#include "ir/visitor.h"
#include "op/effect.h"
#include "tiling/peer_blocks.h"
#include "tiling/row_exchange.h"
#include "tiling/staged_results.h"
#include "tiling/tile_cutter.h"

namespace tilelang::tiling {

using analysis::RunningSoftmax;
using ir::Array;
using ir::Buffer;
using ir::Expr;
using ir::Region;
using ir::Stmt;
using op::I32;

namespace {

// Returns the number that a statement fills the whole tile with; none where it does something else.
std::optional<double> FillOf(const Stmt& s, const Buffer& tile) {
  const auto* fill = s.as<ir::FillNode>();
  if (fill == nullptr || !fill->dst->buffer.same_as(tile) || !fill->dst.IsWhole()) {
    return std::nullopt;
  }
  const auto* number = fill->value.as<ir::FloatImmNode>();
  if (number != nullptr) return number->value;
  auto integer = ir::AsInt(fill->value);
  return integer ? std::optional<double>(static_cast<double>(*integer)) : std::nullopt;
}

class SoftmaxDivider {
 public:
  SoftmaxDivider(const ir::Func& func, const ir::KernelLaunchNode* launch, const PlainGemm& chain,
                 const RunningSoftmax& softmax, int64_t parts)
      : func_(func),
        launch_(launch),
        chain_(chain),
        softmax_(softmax),
        peers_(launch->span, parts) {}

  DividedSoftmax Write() {
    if (!FindStart() || !KeepsIterationsApart() || !LeavesMaximum()) return found_;
    bool by_rows = CutBehind();
    if (!by_rows) KeepBehind();
    RowExchange exchange(peers_, softmax_, sums_, maxima_, begin_, chain_.loop->span);
    std::vector<Stmt> body = exchange.Allocations(/*gathers=*/!by_rows);
    body.insert(body.end(), allocs_.begin(), allocs_.end());
    body.insert(body.end(), before_.begin(), before_.end());
    body.push_back(OwnIterations());
    exchange.Exchange(&body);
    if (by_rows) {
      body.insert(body.end(), behind_.begin(), behind_.end());
    } else {
      exchange.Gather(&body);
      std::vector<Stmt> last;
      exchange.TakeAll(&last);
      last.insert(last.end(), behind_.begin(), behind_.end());
      body.push_back(peers_.ByLeader(op::Sequence(last, launch_->span)));
    }
    ir::KernelLaunch launch = peers_.InClusters(launch_, op::Sequence(body, launch_->span));
    found_.launch =
        ir::WithAttr(launch.operator->(), "layout_map", exchange.Layouts(/*gathers=*/!by_rows));
    return found_;
  }

 private:
  bool Refuse(const std::string& obstacle, const ir::Span& span) {
    found_.obstacle = obstacle;
    found_.span = span;
    return false;
  }

  // Finds the loop among the statements of the launch, and what fills maxima and sums before it.
  bool FindStart() {
    const auto* seq = launch_->body.as<ir::SeqNode>();
    bool found = false;
    std::vector<Buffer> filled = softmax_.sums;
    filled.push_back(softmax_.carried);
    std::vector<int> fills(filled.size());
    for (size_t n = 0; seq != nullptr && n < seq->stmts.size() && !found; ++n) {
      const Stmt& s = seq->stmts[n];
      found = s.get() == chain_.loop;
      if (found) break;
      if (StoresToTensor(s)) return Refuse("each part would store this before the loop", s.span());
      Stmt own = s;
      for (size_t t = 0; t < filled.size(); ++t) {
        if (ir::CountEffects(s, filled[t]) == 0) continue;
        auto value = FillOf(s, filled[t]);
        bool maxima = t + 1 == filled.size();
        bool fits = value && ++fills[t] == 1 && (maxima ? CanBegin(*value) : *value == 0);
        if (!fits) return Refuse("maxima and sums must be filled once, sums with zeros", s.span());
        if (maxima) own = FillLowest(s.as<ir::FillNode>(), *value);
      }
      before_.push_back(own);
    }
    if (!found) return Refuse("the loop is in another statement", chain_.loop->span);
    bool all = std::all_of(fills.begin(), fills.end(), [](int count) { return count == 1; });
    return all || Refuse("maxima and sums must be filled once, sums with zeros", launch_->span);
  }
  static bool StoresToTensor(const Stmt& s) {
    bool stores = false;
    ir::WalkEffects(s, [&](const ir::Effect& effect) {
      stores = stores || (effect.Writes() && effect.buffer.IsGlobal());
    });
    return stores;
  }
  static bool CanBegin(double value) { return !std::isnan(value) && value < HUGE_VAL; }
  Stmt FillLowest(const ir::FillNode* fill, double value) {
    begin_ = value;
    double from = std::isfinite(value) ? value : LowestMaximum(softmax_.scale);
    return ir::Fill(fill->dst, ir::Const(ir::dtypes::kFloat32, from), fill->span);
  }

  bool IsOfSoftmax(const Buffer& b) const {
    return b.same_as(softmax_.carried) || ir::HasSame(softmax_.sums, b);
  }

  // Returns whether iterations have nothing in common but maxima and sums, and leave nothing else.
  bool KeepsIterationsApart() {
    const Stmt& body = chain_.loop->body;
    std::optional<ir::Span> span;
    ir::WalkEffects(body, [&](const ir::Effect& effect) {
      const Buffer& tile = effect.buffer;
      if (span || !effect.Writes() || IsOfSoftmax(tile)) return;
      bool apart = !tile.IsGlobal() && ir::OverwritesFirst(body, tile) &&
                   ir::CountEffects(body, tile) == ir::CountEffects(launch_->body, tile);
      if (!apart) span = effect.span;
    });
    if (!span) return true;
    return Refuse(
        "other iterations, or statements outside of the loop, may use what this "
        "statement writes",
        *span);
  }

  // Returns whether statements behind the loop have the same maxima, or do not depend on them.
  bool LeavesMaximum() {
    bool same = softmax_.rises && softmax_.bounds && !softmax_.guards;
    return same || softmax_.ends_in_quotients ||
           Refuse("statements behind the loop depend on the maximum of its last iteration",
                  chain_.loop->span);
  }

  // Cuts the statements behind the loop to the rows of this block. Returns false if they do not
  // treat rows one by one.
  bool CutBehind() {
    int64_t rows = *ir::AsInt(softmax_.carried->shape[0]);
    ir::KernelLaunch one = peers_.WithAxis(launch_, 1);
    TileCutter cutter(func_, one.get(), chain_,
                      {ir::GemmDim::kM, peers_.part(), rows, rows / peers_.parts()});
    Stmt cut = cutter.Body();
    if (!cut.defined()) return false;
    behind_ = BehindLoop(cut);
    for (Stmt& s : behind_) s = WithStagedResults(s);
    SetTiles([&](const Buffer& tile) { return cutter.CutOf(tile); });
    return AllocateTiles();
  }

  // Keeps the statements behind the loop as they are, for a block that gets all rows.
  void KeepBehind() {
    allocs_.clear();
    behind_ = BehindLoop(launch_->body);
    SetTiles([&](const Buffer& tile) {
      Array<Expr> shape = tile->shape;
      shape.Set(0, I32(*ir::AsInt(shape[0]) / peers_.parts()));
      return Buffer(tile->name, tile->dtype, shape, {}, tile->scope, {}, tile->span);
    });
    for (const DividedTile& sum : sums_) allocs_.push_back(ir::Alloc(sum.own, sum.own->span));
    allocs_.push_back(ir::Alloc(maxima_.own, maxima_.own->span));
  }

  // The cut loop is the only one.
  std::vector<Stmt> BehindLoop(const Stmt& body) const {
    bool cut = !body.same_as(launch_->body);
    std::vector<Stmt> behind;
    bool found = false;
    for (const Stmt& s : body.as<ir::SeqNode>()->stmts) {
      if (found) behind.push_back(s);
      found = found || (cut ? s->kind == ir::StmtKind::kFor : s.get() == chain_.loop);
    }
    return behind;
  }

  template <typename F>
  void SetTiles(F own) {
    sums_.clear();
    int64_t column = 0;
    for (const Buffer& sum : softmax_.sums) {
      sums_.push_back({sum, own(sum), column});
      column += sum->shape.size() == 1 ? 1 : *ir::AsInt(sum->shape[1]);
    }
    maxima_ = {softmax_.carried, own(softmax_.carried), column};
  }

  // Allocates the tiles that cut statements use. Returns false if they read cut rows of another
  // tile from before the loop.
  bool AllocateTiles() {
    Stmt behind = op::Sequence(behind_, launch_->span);
    std::unordered_set<const ir::ffi::Object*> known;
    for (const auto* stmts : {&before_, &behind_}) {
      for (const Stmt& s : *stmts) {
        ir::WalkStmts(s, [&](const Stmt& inner) {
          if (const auto* alloc = inner.as<ir::AllocNode>()) known.insert(alloc->buffer.get());
          return true;
        });
      }
    }
    auto allocate = [&](const Buffer& tile) {
      bool is_new = known.insert(tile.get()).second;
      if (is_new) allocs_.push_back(ir::Alloc(tile, tile->span));
      return is_new;
    };
    std::vector<DividedTile> merged = sums_;
    merged.push_back(maxima_);
    for (const DividedTile& tile : merged) {
      if (!tile.own.defined()) return false;
      allocate(tile.own);
    }
    bool fits = true;
    ir::WalkEffects(behind, [&](const ir::Effect& effect) {
      const Buffer& tile = effect.buffer;
      if (tile.IsGlobal() || !allocate(tile)) return;
      fits = fits && ir::OverwritesFirst(behind, tile);
    });
    if (fits) DropTilesOfUncutRows(behind);
    return fits;
  }

  // Drops allocations of tiles of which only the cut ones are used.
  void DropTilesOfUncutRows(const Stmt& behind) {
    Stmt all = ir::MakeSeq({op::Sequence(before_, launch_->span), chain_.loop->body, behind},
                           launch_->span);
    std::erase_if(before_, [&](const Stmt& s) {
      const auto* alloc = s.as<ir::AllocNode>();
      return alloc != nullptr && ir::CountEffects(all, alloc->buffer) == 0;
    });
  }

  Stmt OwnIterations() const {
    const ir::ForNode* loop = chain_.loop;
    int64_t parts = peers_.parts();
    auto count = ir::AsInt(loop->extent);
    if (count && *count % parts == 0) {
      Expr steps = I32(*count / parts);
      return peers_.Iterations(loop, steps, steps);
    }
    Expr all = ir::CastTo(ir::dtypes::kInt32, loop->extent);
    Expr steps = ir::CeilDiv(all, I32(parts));
    Expr left = ir::Min(steps, all - peers_.part() * steps);
    return peers_.Iterations(loop, steps, ir::Max(left, I32(0)));
  }

  const ir::Func& func_;
  const ir::KernelLaunchNode* launch_;
  const PlainGemm& chain_;
  const RunningSoftmax& softmax_;
  PeerBlocks peers_;
  DividedSoftmax found_;
  std::vector<DividedTile> sums_;
  DividedTile maxima_;
  double begin_ = 0;  // of the maxima
  std::vector<Stmt> allocs_;
  std::vector<Stmt> before_;
  std::vector<Stmt> behind_;
};

}  // namespace

DividedSoftmax WithSoftmaxParts(const ir::Func& func, const ir::KernelLaunchNode* launch,
                                const PlainGemm& chain, const RunningSoftmax& softmax,
                                int64_t parts) {
  return SoftmaxDivider(func, launch, chain, softmax, parts).Write();
}

}  // namespace tilelang::tiling
