#include "analysis/thread_set.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <bit>

#include "arith/host_eval.h"
#include "ir/same.h"
#include "ir/visitor.h"
#include "target/warp.h"

namespace tilelang::analysis {

namespace ffi = tvm::ffi;

using ir::Expr;
using ir::ExprKind;

namespace {

// Integer arithmetic on the given variables alone.
bool IsComputable(const Expr& e, const ir::Array<ir::Var>& vars) {
  bool result = true;
  ir::WalkExprs(e, [&](const Expr& part) {
    bool known = part->kind != ExprKind::kVar || ir::HasSame(vars, part);
    bool memory = part->kind == ExprKind::kLoad || part->kind == ExprKind::kCall;
    result = result && known && !memory && ir::IsIntegral(part.dtype());
    return result;
  });
  return result;
}

bool SameInEachWarp(const std::vector<int64_t>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] != values[i / kWarp * kWarp]) return false;
  }
  return true;
}

}  // namespace

ThreadSet::ThreadSet(const std::vector<bool>& members)
    : words_((members.size() + kWord - 1) / kWord),
      block_size_(static_cast<int64_t>(members.size())) {
  for (int64_t i = 0; i < block_size_; ++i) {
    if (members[i]) words_[i / kWord] |= uint64_t{1} << (i % kWord);
  }
}

int64_t ThreadSet::Count() const {
  int64_t count = 0;
  for (uint64_t word : words_) count += std::popcount(word);
  return count;
}

template <typename Combine>
ThreadSet ThreadSet::CombinedWith(const ThreadSet& other, Combine combine) const {
  ThreadSet result = *this;
  for (size_t i = 0; i < words_.size(); ++i) result.words_[i] = combine(words_[i], other.words_[i]);
  return result;
}

ThreadSet ThreadSet::operator&(const ThreadSet& other) const {
  return CombinedWith(other, [](uint64_t a, uint64_t b) { return a & b; });
}

ThreadSet ThreadSet::operator|(const ThreadSet& other) const {
  return CombinedWith(other, [](uint64_t a, uint64_t b) { return a | b; });
}

ThreadSet ThreadSet::operator-(const ThreadSet& other) const {
  return CombinedWith(other, [](uint64_t a, uint64_t b) { return a & ~b; });
}

int64_t ThreadSet::Find(int64_t begin, bool member) const {
  for (int64_t i = begin; i < block_size_; i = (i / kWord + 1) * kWord) {
    uint64_t word = (member ? words_[i / kWord] : ~words_[i / kWord]) >> (i % kWord);
    if (word != 0) return std::min(i + std::countr_zero(word), block_size_);
  }
  return block_size_;
}

std::vector<op::ThreadRange> ThreadSet::Ranges() const {
  std::vector<op::ThreadRange> result;
  for (int64_t begin = Find(0, true); begin < block_size_;) {
    int64_t end = Find(begin, false);
    result.push_back({begin, end - begin});
    begin = Find(end, true);
  }
  return result;
}

std::optional<op::ThreadRange> ThreadSet::AsRange() const {
  std::vector<op::ThreadRange> ranges = Ranges();
  if (ranges.size() != 1) return std::nullopt;
  return ranges[0];
}

std::optional<op::ThreadRange> ThreadSet::AsWarps() const {
  auto range = AsRange();
  if (!range) return std::nullopt;
  int64_t end = range->begin + range->count;
  bool whole = range->begin % kWarp == 0 && (end % kWarp == 0 || end == BlockSize());
  return whole ? range : std::nullopt;
}

std::string ThreadSet::ToString() const {
  constexpr size_t kShown = 4;
  std::vector<op::ThreadRange> ranges = Ranges();
  if (ranges.empty()) return "no thread";
  if (Count() == 1) return "thread " + std::to_string(ranges[0].begin);
  std::string text = "threads ";
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (i == kShown) return text + ", ...";
    if (i > 0) text += i + 1 == ranges.size() ? " and " : ", ";
    text += std::to_string(ranges[i].begin);
    if (ranges[i].count > 1) {
      text += " to " + std::to_string(ranges[i].begin + ranges[i].count - 1);
    }
  }
  return text;
}

BlockThreads::BlockThreads(const ir::KernelLaunchNode* launch) : vars_(launch->thread_vars) {
  for (const Expr& extent : launch->threads) {
    extents_.push_back(*ir::AsInt(extent));
    count_ *= extents_.back();
  }
  int64_t stride = 1;
  for (int64_t extent : extents_) {
    std::vector<int64_t>& index = indices_.emplace_back();
    for (int64_t thread = 0; thread < count_; ++thread) index.push_back(thread / stride % extent);
    stride *= extent;
  }
  all_ = ThreadSet(std::vector<bool>(static_cast<size_t>(count_), true));
}

ThreadSet BlockThreads::Of(const op::ThreadRange& range) const {
  std::vector<bool> members(static_cast<size_t>(count_), false);
  auto begin = members.begin() + range.begin;
  std::fill(begin, begin + range.count, true);
  return ThreadSet(std::move(members));
}

Expr BlockThreads::Is(int64_t thread) const {
  Expr result;
  for (size_t d = 0; d < extents_.size(); ++d) {
    if (extents_[d] == 1) continue;
    Expr same = ir::MakeEq(vars_[d], ir::Const(vars_[d].dtype(), thread % extents_[d]));
    result = result.defined() ? result && same : same;
    thread /= extents_[d];
  }
  return result.defined() ? result : Expr(ir::IntImm(ir::dtypes::kBool, 1));
}

void BlockThreads::Bind(const ir::Var& var, const Expr& value) {
  Expr resolved = Resolve(value);
  if (UsesThread(resolved) && IsComputable(resolved, vars_)) values_.Set(var, resolved);
}

bool BlockThreads::UsesThread(const Expr& e) const {
  bool found = false;
  ir::WalkExprs(e, [&](const Expr& part) {
    const auto* node = part.as<ir::VarNode>();
    if (node == nullptr) return !found;
    auto var = ffi::GetRef<ir::Var>(node);
    found = found || values_.count(var) != 0 || ir::HasSame(vars_, var);
    return !found;
  });
  return found;
}

// Variables replaced by their values, shuffles within a warp by what they distribute.
Expr BlockThreads::Resolve(const Expr& e) const {
  class Resolver : public ir::ExprMutator {
   public:
    explicit Resolver(const BlockThreads* threads) : threads_(threads) {}
    using ExprMutator::Rewrite;
    Expr Rewrite(const ir::VarNode* op) override {
      auto var = ffi::GetRef<ir::Var>(op);
      auto it = threads_->values_.find(var);
      return it == threads_->values_.end() ? Expr(var) : (*it).second;
    }
    Expr Rewrite(const ir::CallNode* op) override {
      Expr call = ExprMutator::Rewrite(op);
      if (!op->Is(ir::Builtin::kShuffle) || !ir::IsIntegral(op->dtype)) return call;
      const Expr& value = call.as<ir::CallNode>()->args[0];
      auto values = threads_->Evaluate(value);
      return values && SameInEachWarp(*values) ? value : call;
    }

   private:
    const BlockThreads* threads_;
  };
  return Resolver(this).Mutate(e);
}

std::optional<std::vector<int64_t>> BlockThreads::Evaluate(const Expr& resolved) const {
  if (!IsComputable(resolved, vars_)) return std::nullopt;
  arith::HostProgram::Columns values;
  arith::HostProgram({resolved}, vars_).RunMany(indices_, static_cast<size_t>(count_), &values);
  return std::move(values[0]);
}

std::optional<std::vector<int64_t>> BlockThreads::ValuesOf(const Expr& e) const {
  return Evaluate(Resolve(e));
}

bool BlockThreads::IsOfWarp(const Expr& e) const {
  auto values = ValuesOf(e);
  return values && SameInEachWarp(*values);
}

std::optional<ThreadSet> BlockThreads::Where(const Expr& condition) const {
  auto values = ValuesOf(condition);
  if (!values) return std::nullopt;
  std::vector<bool> members;
  for (int64_t value : *values) members.push_back(value != 0);
  return ThreadSet(std::move(members));
}

// Replaces the largest parts that have one value.
class ThreadFolder : public ir::ExprMutator {
 public:
  ThreadFolder(const BlockThreads* threads, const ThreadSet& active)
      : threads_(threads), active_(active) {}
  Expr Mutate(const Expr& e) override {
    if (!ir::IsIntegral(e.dtype()) || !threads_->UsesThread(e)) return ExprMutator::Mutate(e);
    auto values = threads_->Evaluate(e);
    if (!values) return ExprMutator::Mutate(e);
    std::optional<int64_t> common;
    for (int64_t i = 0; i < threads_->count(); ++i) {
      if (!active_.Has(i)) continue;
      int64_t value = (*values)[static_cast<size_t>(i)];
      if (common.value_or(value) != value) return ExprMutator::Mutate(e);
      common = value;
    }
    return common ? ir::Const(e.dtype(), *common) : e;
  }

 private:
  const BlockThreads* threads_;
  const ThreadSet& active_;
};

Expr BlockThreads::Fold(const Expr& e, const ThreadSet& active) const {
  return UsesThread(e) ? ThreadFolder(this, active).Mutate(Resolve(e)) : e;
}

ThreadSelection BlockThreads::Select(const Expr& condition, const ThreadSet& active) const {
  ThreadSelection result{active, {}};
  std::vector<Expr> parts;
  Conjuncts(Fold(condition, active), &parts);
  for (const Expr& part : parts) {
    if (auto value = ir::AsInt(part)) {
      if (*value == 0) result.threads = result.threads - active;
    } else if (auto where = UsesThread(part) ? Where(part) : std::nullopt) {
      result.threads = result.threads & *where;
    } else {
      result.rest.push_back(part);
    }
  }
  for (Expr& part : result.rest) part = Fold(part, result.threads);
  return result;
}

void Conjuncts(const Expr& e, std::vector<Expr>* out) {
  const auto* op = e.as<ir::BinaryNode>();
  if (op != nullptr && op->Op() == ir::BinaryOp::kAnd) {
    Conjuncts(op->a, out);
    Conjuncts(op->b, out);
  } else {
    out->push_back(e);
  }
}

}  // namespace tilelang::analysis
