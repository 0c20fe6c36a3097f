#include "reductions/reduce_tensors.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "ir/aliases.h"
#include "ir/effects.h"
#include "ir/printer.h"
#include "ir/remark.h"
#include "ir/visitor.h"
#include "layout/layout.h"
#include "op/scan.h"
#include "transform/remove_unused.h"

namespace tilelang::reductions {

namespace ffi = tvm::ffi;

using ir::Buffer;
using ir::Region;
using ir::Stmt;

namespace {

// Registers of a thread that other values need.
constexpr int64_t kOtherRegisters = 32;
constexpr int64_t kBytesOfRegister = 4;

// Returns whether each value of type `from` is one of type `to`.
bool Holds(ir::DType to, ir::DType from) {
  return to == from || (ir::IsFloat(to) && ir::IsFloat(from) && to.bits > from.bits);
}

// The dimensions with several elements; nullopt if an extent is no constant.
std::optional<std::vector<size_t>> MovingDims(const ir::Array<ir::Expr>& extents) {
  std::vector<size_t> dims;
  for (size_t d = 0; d < extents.size(); ++d) {
    auto extent = ir::AsInt(extents[d]);
    if (!extent) return std::nullopt;
    if (*extent != 1) dims.push_back(d);
  }
  return dims;
}

class TensorReducer : public ir::StmtMutator {
 public:
  explicit TensorReducer(const Target& target) : target_(target) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    launch_ = op;
    auto threads = ir::AsInts(op->threads);
    threads_ = threads ? layout::Product(*threads) : 0;
    return threads_ > 0 ? StmtMutator::Rewrite(op) : ffi::GetRef<Stmt>(op);
  }

  Stmt Rewrite(const ir::SeqNode* op) override {
    std::vector<Stmt> stmts(op->stmts.begin(), op->stmts.end());
    bool changed = false;
    for (size_t i = 0; i < stmts.size(); ++i) {
      const auto* copy = stmts[i].as<ir::CopyNode>();
      if (copy == nullptr || !IsTooLarge(copy)) continue;
      std::vector<size_t> users = ReductionsAfter(stmts, i);
      if (users.empty()) continue;
      for (size_t user : users) stmts[user] = OfTensor(stmts[user].as<ir::ReduceNode>(), copy);
      RemarkReduction(copy);
      stmts[i] = ir::Seq(ir::Array<Stmt>{}, copy->span);
      changed = true;
    }
    if (!changed) return StmtMutator::Rewrite(op);
    return ir::Seq(ir::Array<Stmt>(stmts.begin(), stmts.end()), op->span);
  }

 private:
  // Returns whether a copy brings a part of a tensor, which keeps its values, to a fragment that a
  // thread has no registers for.
  bool IsTooLarge(const ir::CopyNode* copy) const {
    const Buffer& tile = copy->dst->buffer;
    auto shape = ir::AsInts(tile->shape);
    bool loads = copy->src->buffer.IsGlobal() && tile.IsFragment() && copy->dst.IsWhole();
    if (!loads || !shape || !copy->IsPlain()) return false;
    if (!Holds(tile->dtype, copy->src->buffer->dtype)) return false;
    int64_t bytes = layout::Product(*shape) * ir::Bytes(tile->dtype);
    int64_t share =
        std::min<int64_t>(target_->max_registers_per_thread, target_->registers_per_sm / threads_);
    if (bytes / threads_ / kBytesOfRegister <= share - kOtherRegisters) return false;
    bool fixed = std::none_of(copy->src->mins.begin(), copy->src->mins.end(), ir::HasLoad);
    ir::WalkEffects(launch_->body, [&](const ir::Effect& effect) {
      fixed = fixed && !(effect.Writes() && ir::MayOverlap(effect.buffer, copy->src->buffer));
    });
    return fixed;
  }

  // Returns the statements after the copy that reduce the whole fragment; none if another statement
  // uses it.
  std::vector<size_t> ReductionsAfter(const std::vector<Stmt>& stmts, size_t at) const {
    const auto* copy = stmts[at].as<ir::CopyNode>();
    const Buffer& tile = copy->dst->buffer;
    std::vector<size_t> users;
    for (size_t i = at + 1; i < stmts.size(); ++i) {
      const auto* reduce = stmts[i].as<ir::ReduceNode>();
      if (reduce != nullptr && reduce->src->buffer.same_as(tile)) users.push_back(i);
    }
    bool fits = std::all_of(users.begin(), users.end(), [&](size_t i) {
      return DimOfTensor(stmts[i].as<ir::ReduceNode>(), copy).has_value();
    });
    int uses = 0;  // beside the copy
    ir::WalkEffects(launch_->body, [&](const ir::Effect& effect) {
      uses += effect.buffer.same_as(tile) && effect.node != copy &&
              effect.By<ir::AllocNode>() == nullptr;
    });
    return fits && uses == static_cast<int>(users.size()) ? users : std::vector<size_t>();
  }

  // The dimension of the tensor along which a reduction of the fragment goes.
  static std::optional<size_t> DimOfTensor(const ir::ReduceNode* reduce, const ir::CopyNode* copy) {
    auto from = MovingDims(copy->src->extents);
    auto to = MovingDims(copy->dst->extents);
    bool plain = reduce->src.IsWhole() && reduce->Partials() == 1 && !reduce->slack.defined() &&
                 !op::ScanOf(reduce) && !reduce->dst->buffer.same_as(copy->dst->buffer);
    if (!plain || !from || !to || from->size() != to->size()) return std::nullopt;
    std::optional<size_t> dim;
    for (size_t i = 0; i < to->size(); ++i) {
      bool same =
          ir::AsInt(copy->src->extents[(*from)[i]]) == ir::AsInt(copy->dst->extents[(*to)[i]]);
      if (!same) return std::nullopt;
      if (static_cast<int64_t>((*to)[i]) == reduce->dim) dim = (*from)[i];
    }
    return dim;
  }

  static Stmt OfTensor(const ir::ReduceNode* reduce, const ir::CopyNode* copy) {
    return ir::Reduce(copy->src, reduce->dst, reduce->op,
                      static_cast<int64_t>(*DimOfTensor(reduce, copy)), reduce->clear,
                      reduce->nan_propagate, ir::Expr(), reduce->span);
  }

  static void RemarkReduction(const ir::CopyNode* copy) {
    Remark(copy->span, "reduction",
           "fragment " + std::string(copy->dst->buffer->name) +
               " needs more registers than a thread has, and is only reduced: the reductions go "
               "through " +
               ir::Print(copy->src) + " in turns");
  }

  Target target_;
  const ir::KernelLaunchNode* launch_ = nullptr;
  int64_t threads_ = 0;
};

}  // namespace

ir::Func ReduceTensors(const ir::Func& func, const Target& target) {
  Stmt body = TensorReducer(target).MutateStmt(func->body);
  return body.same_as(func->body) ? func : func.WithBody(transform::RemoveUnused(body));
}

}  // namespace tilelang::reductions
