#include "lower/split_fragments.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <map>

#include "analysis/kernel_scope.h"
#include "analysis/scoped_mutator.h"
#include "check/check_parts.h"
#include "ir/effects.h"
#include "ir/error.h"
#include "ir/visitor.h"
#include "op/context.h"

namespace tilelang::lower {

namespace ffi = tvm::ffi;

using ir::Buffer;
using ir::Map;
using ir::Stmt;
using op::ThreadRange;

namespace {

// Describes the use of a fragment by one group of threads.
struct Group {
  ThreadRange threads;
  ir::Span first;  // its first access
  bool writes = false;
  Buffer own;
};

bool Overlap(const ThreadRange& a, const ThreadRange& b) {
  return a.begin < b.begin + b.count && b.begin < a.begin + a.count;
}

std::string Text(const Group& group) {
  const ThreadRange& t = group.threads;
  std::string text =
      "threads " + std::to_string(t.begin) + " to " + std::to_string(t.begin + t.count - 1);
  if (group.first.defined()) text += " (line " + std::to_string(group.first->line) + ")";
  return text;
}

class Groups : public analysis::ScopedMutator {
 public:
  explicit Groups(const ir::KernelLaunchNode* launch) : threads_(analysis::ThreadsOf(launch)) {
    MutateStmt(ffi::GetRef<Stmt>(launch));
  }

  Stmt MutateStmt(const Stmt& s) override {
    if (check::TileOpName(s) == nullptr) return ScopedMutator::MutateStmt(s);
    std::vector<ir::Effect> effects = ir::EffectsOf(s);
    std::erase_if(effects, [](const ir::Effect& effect) { return !effect.buffer.IsFragment(); });
    if (effects.empty()) return s;
    ThreadRange threads = analysis::ActiveThreads(threads_, &analyzer_);
    for (const ir::Effect& effect : effects) {
      GroupOf(effect.buffer, threads, s.span()).writes |= effect.Writes();
    }
    return s;
  }

  // The groups of each buffer, in program order.
  std::vector<std::pair<Buffer, std::vector<Group>>> all;

 private:
  Group& GroupOf(const Buffer& buffer, const ThreadRange& threads, const ir::Span& span) {
    auto known = std::find_if(all.begin(), all.end(),
                              [&](const auto& item) { return item.first.same_as(buffer); });
    if (known == all.end()) known = all.insert(all.end(), {buffer, {}});
    for (Group& group : known->second) {
      if (group.threads == threads) return group;
    }
    known->second.push_back({threads, span, false, buffer});
    return known->second.back();
  }

  analysis::LaunchThreads threads_;
};

// The groups of one fragment can have one each.
void CheckApart(const Buffer& buffer, const std::vector<Group>& groups) {
  for (size_t i = 0; i < groups.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (!Overlap(groups[i].threads, groups[j].threads)) continue;
      TL_USER_ERROR(kSemantics, groups[i].first,
                    check::Describe(buffer)
                        << " is used by " << Text(groups[j]) << " and by " << Text(groups[i])
                        << ": the registers of only one of these groups can hold its "
                           "elements. Use a fragment for each group, and pass values from "
                           "one group to the other through shared memory");
    }
    if (groups[i].writes) continue;
    TL_USER_ERROR(kSemantics, groups[i].first,
                  check::Describe(buffer)
                      << " is read by " << Text(groups[i])
                      << ", but these threads never write it. It is also used by "
                      << Text(groups[i == 0 ? 1 : 0])
                      << ". A thread cannot read the registers of another thread: pass the "
                         "values through shared memory (T.alloc_shared)");
  }
}

class Splitter : public analysis::ScopedMutator {
 public:
  Splitter(const ir::KernelLaunchNode* launch,
           const std::vector<std::pair<Buffer, std::vector<Group>>>& split)
      : threads_(analysis::ThreadsOf(launch)), split_(split) {}

  using ScopedMutator::Rewrite;
  Stmt MutateStmt(const Stmt& s) override {
    if (check::TileOpName(s) == nullptr) return ScopedMutator::MutateStmt(s);
    ThreadRange threads = analysis::ActiveThreads(threads_, &analyzer_);
    Map<Buffer, Buffer> own;
    for (const auto& [buffer, groups] : split_) {
      for (const Group& group : groups) {
        if (group.threads == threads) own.Set(buffer, group.own);
      }
    }
    return ir::ReplaceBuffers(s, own);
  }
  Stmt Rewrite(const ir::SeqNode* op) override {
    arith::Analyzer::Scope scope(&analyzer_);
    std::vector<Stmt> stmts;
    for (const Stmt& s : op->stmts) {
      const auto* alloc = s.as<ir::AllocNode>();
      if (alloc == nullptr || !AllocateOwn(alloc, &stmts)) stmts.push_back(MutateStmt(s));
    }
    return ir::Seq(ir::Array<Stmt>(stmts.begin(), stmts.end()), op->span);
  }

 private:
  bool AllocateOwn(const ir::AllocNode* alloc, std::vector<Stmt>* stmts) const {
    for (const auto& [buffer, groups] : split_) {
      if (!buffer.same_as(alloc->buffer)) continue;
      for (const Group& group : groups) stmts->push_back(ir::Alloc(group.own, alloc->span));
      return true;
    }
    return false;
  }

  analysis::LaunchThreads threads_;
  const std::vector<std::pair<Buffer, std::vector<Group>>>& split_;
};

class FragmentSplitter : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    std::vector<std::pair<Buffer, std::vector<Group>>> split;
    for (auto& [buffer, groups] : Groups(op).all) {
      if (groups.size() == 1) continue;
      CheckApart(buffer, groups);
      CheckNotAnnotated(op, buffer, groups);
      for (size_t i = 1; i < groups.size(); ++i) groups[i].own = Twin(buffer, groups[i]);
      split.emplace_back(buffer, groups);
    }
    if (split.empty()) return ffi::GetRef<Stmt>(op);
    return Splitter(op, split).MutateStmt(ffi::GetRef<Stmt>(op));
  }

 private:
  static Buffer Twin(const Buffer& b, const Group& group) {
    std::string name = std::string(b->name) + "_" + std::to_string(group.threads.begin);
    return Buffer(ir::String(name), b->dtype, b->shape, b->strides, b->scope, b->attrs, b->span);
  }
  static void CheckNotAnnotated(const ir::KernelLaunchNode* op, const Buffer& buffer,
                                const std::vector<Group>& groups) {
    if (!op::LayoutMap::Annotated(op).Has(buffer)) return;
    TL_USER_ERROR(kLayout, groups[1].first,
                  "fragment " << check::Describe(buffer)
                              << " has an annotated layout, but is used by " << Text(groups[0])
                              << " and by " << Text(groups[1])
                              << ": a layout belongs to the threads of one group. Allocate and "
                                 "annotate a fragment for each group");
  }
};

}  // namespace

ir::Func SplitFragments(const ir::Func& func, const Target& target) {
  return func.WithBody(FragmentSplitter().MutateStmt(func->body));
}

}  // namespace tilelang::lower
