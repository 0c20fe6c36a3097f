#include "tiling/load_rows.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "analysis/kernel_scope.h"
#include "ir/effects.h"
#include "ir/visitor.h"
#include "layout/digits.h"
#include "tiling/row_program.h"
#include "transform/loaded_elements.h"

namespace tilelang::tiling {

using ir::Buffer;
using ir::Expr;
using ir::Region;
using ir::Stmt;

namespace {

constexpr int64_t kWholeVector = 16;
// The elements of a thread that are loaded earlier, at most. More of them leave an SM two blocks:
// with tcgen05, whose HBM needs most bytes in flight for each SM, they still gain.
constexpr int64_t kMostElements = 64;
constexpr int64_t kMostWithTcgen05 = 128;

// Returns the copy if the statement loads a tensor to a whole fragment.
const ir::CopyNode* AsLoad(const Stmt& s) {
  const auto* copy = s.as<ir::CopyNode>();
  bool loads = copy != nullptr && copy->src->buffer.IsGlobal() && copy->dst->buffer.IsFragment() &&
               copy->dst.IsWhole() && !copy->safe_value.defined();
  return loads ? copy : nullptr;
}

// Returns whether neither TMA nor vectors of 16 bytes load its rows.
bool HasOddRows(const ir::CopyNode* load) {
  auto columns = ir::AsInt(load->src->buffer->shape.back());
  return columns && *columns * ir::Bytes(load->src->buffer->dtype) % kWholeVector != 0;
}

// Returns whether the loop computes and stores under no condition.
bool IsUnconditional(const ir::ParallelForNode* loop) {
  return loop->annotations.empty() && !ir::HasStmt(loop->body, [](const Stmt& s) {
           return s->kind != ir::StmtKind::kSeq && s->kind != ir::StmtKind::kStore &&
                  s->kind != ir::StmtKind::kBind;
         });
}

class RowLoader : public ir::StmtMutator {
 public:
  explicit RowLoader(int64_t most_elements) : most_elements_(most_elements) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    if (!HasRowsOnly(op) || !Reduces(op)) return self;
    const auto& stmts = op->body.as<ir::SeqNode>()->stmts;
    size_t begin = 0;  // of what computes
    bool odd = false;
    while (begin < stmts.size() && Precedes(stmts[begin])) {
      const ir::CopyNode* load = AsLoad(stmts[begin++]);
      odd = odd || (load != nullptr && HasOddRows(load));
    }
    if (!odd || WritesTwice(stmts, begin)) return self;
    threads_ = std::max<int64_t>(1, analysis::ThreadsOf(op).count);
    NoteUnknown(op, begin);
    std::vector<Stmt> loads, conversions, rest;
    for (size_t i = 0; i < begin; ++i) SplitConversion(stmts[i], &loads, &conversions);
    for (size_t i = begin; i < stmts.size(); ++i) rest.push_back(LoadedBefore(stmts[i], &loads));
    loads.insert(loads.end(), conversions.begin(), conversions.end());
    loads.insert(loads.end(), rest.begin(), rest.end());
    return ir::KernelLaunch(op->block_vars, op->grid, op->thread_vars, op->threads, op->attrs,
                            ir::MakeSeq(loads, op->span), op->span);
  }

 private:
  static bool Precedes(const Stmt& s) {
    return s->kind == ir::StmtKind::kAlloc || s->kind == ir::StmtKind::kBind ||
           AsLoad(s) != nullptr;
  }

  static bool WritesTwice(const ir::Array<Stmt>& stmts, size_t count) {
    std::unordered_set<const ir::BufferNode*> written;
    for (size_t i = 0; i < count; ++i) {
      const ir::CopyNode* load = AsLoad(stmts[i]);
      if (load != nullptr && !written.insert(load->dst->buffer.get()).second) return true;
    }
    return false;
  }

  // Notes the tensors that the launch writes, and the names that are not known where it loads.
  void NoteUnknown(const ir::KernelLaunchNode* op, size_t begin) {
    unknown_.clear();
    room_ = most_elements_;
    ir::WalkEffects(op->body, [&](const ir::Effect& effect) {
      if (effect.Writes()) unknown_.insert(effect.buffer.get());
    });
    const auto& stmts = op->body.as<ir::SeqNode>()->stmts;
    for (size_t i = begin; i < stmts.size(); ++i) {
      if (const auto* bind = stmts[i].as<ir::BindNode>()) unknown_.insert(bind->var.get());
    }
  }

  bool IsKnown(const ir::LoadNode* load) const {
    bool known = unknown_.count(load->buffer.get()) == 0;
    for (const Expr& index : load->indices) {
      ir::WalkExprs(index,
                    [&](const Expr& e) { return known = known && !unknown_.count(e.get()); });
    }
    return known;
  }

  // Loads elements of their own type before they are converted.
  static void SplitConversion(const Stmt& s, std::vector<Stmt>* loads,
                              std::vector<Stmt>* conversions) {
    const ir::CopyNode* load = AsLoad(s);
    if (load == nullptr || load->src->buffer->dtype == load->dst->buffer->dtype) {
      loads->push_back(s);
      return;
    }
    const Buffer& tensor = load->src->buffer;
    Buffer row(ir::String(std::string(tensor->name) + "_row"), tensor->dtype,
               load->dst->buffer->shape, {}, "local.fragment", {}, load->span);
    loads->push_back(ir::Alloc(row, load->span));
    loads->push_back(ir::Copy(load, load->src, Region::Whole(row)));
    conversions->push_back(ir::Copy(Region::Whole(row), load->dst, load->span));
  }

  // Returns the statement without the loads that `loads` get.
  Stmt LoadedBefore(const Stmt& s, std::vector<Stmt>* loads) {
    const auto* loop = s.as<ir::ParallelForNode>();
    auto extents = loop != nullptr ? ir::AsInts(loop->extents) : std::nullopt;
    if (!extents || !IsUnconditional(loop)) return s;
    transform::SplitLoop split =
        transform::SplitLoads(loop, [&](const ir::LoadNode* load) { return !IsKnown(load); });
    int64_t each = (layout::Product(*extents) + threads_ - 1) / threads_;
    int64_t elements = each * static_cast<int64_t>(split.loaded.size());
    bool whole = std::none_of(split.loaded.begin(), split.loaded.end(),
                              [](const auto& one) { return one.vars.empty(); });
    if (split.loaded.empty() || !whole || elements > room_) return s;
    room_ -= elements;
    for (const transform::LoadedElements& one : split.loaded) {
      loads->push_back(ir::Alloc(one.tile, loop->span));
      loads->push_back(one.Load(loop->span));
    }
    return ir::ParallelFor(loop->vars, loop->extents, split.body, loop->annotations, loop->span);
  }

  int64_t most_elements_;
  std::unordered_set<const tvm::ffi::Object*> unknown_;
  int64_t threads_ = 1;
  int64_t room_ = 0;
};

}  // namespace

ir::Func LoadRows(const ir::Func& func, const Target& target) {
  int64_t most = target->has_tcgen05 ? kMostWithTcgen05 : kMostElements;
  return func.WithBody(RowLoader(most).MutateStmt(func->body));
}

}  // namespace tilelang::tiling
