#include "schedule/gather_gemms.h"

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ir/remark.h"
#include "ir/visitor.h"
#include "op/effect.h"
#include "schedule/channel.h"
#include "schedule/task.h"
#include "schedule/turn_loop.h"

namespace tilelang::schedule {

using ir::Stmt;

namespace {

// The statements of one body, and the batches of its gemms: slot n of the threads stands before
// batch n.
class Batches {
 public:
  explicit Batches(const std::vector<Task>& tasks) : nodes_(tasks.begin(), tasks.end()) {
    FindDependences();
    SetBatches();
    SetSlots();
  }

  // Counts the batches of gemms in program order: work of threads that touches operands or results
  // of a gemm separates them.
  size_t CountInProgram() const {
    size_t count = 0;
    bool joins = false;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (IsGemm(i)) {
        if (IsApart(i)) continue;
        count += joins ? 0 : 1;
        joins = true;
      } else if (TakesPart(i)) {
        joins = false;
      }
    }
    return count;
  }
  size_t Count() const { return last_ + 1; }

  std::vector<Stmt> InOrder() const {
    std::vector<Stmt> stmts;
    std::vector<bool> done(nodes_.size());
    while (stmts.size() < nodes_.size()) {
      std::optional<size_t> next;
      for (size_t i = 0; i < nodes_.size(); ++i) {
        bool ready = !done[i] && std::all_of(before_[i].begin(), before_[i].end(),
                                             [&](size_t j) { return done[j]; });
        if (ready && (!next || Place(i) < Place(*next))) next = i;
      }
      done[*next] = true;
      stmts.push_back(StmtOf(*next));
    }
    return stmts;
  }

 private:
  const Stmt& StmtOf(size_t i) const { return nodes_[i].task->stmts.front(); }
  bool IsGemm(size_t i) const { return AsTurnGemm(StmtOf(i)) != nullptr; }
  // A gemm touches the same tile in tensor memory, or in shared memory that the statement writes.
  bool TakesPart(size_t i) const {
    for (size_t j = 0; j < nodes_.size(); ++j) {
      if (IsGemm(j) && nodes_[i].ConflictsWith(nodes_[j]) && !IsLoad(i)) return true;
    }
    return false;
  }
  bool IsLoad(size_t i) const {
    const auto* copy = StmtOf(i).as<ir::CopyNode>();
    return copy != nullptr && copy->src->buffer.IsGlobal() && copy->dst->buffer.IsShared();
  }
  // Returns whether a gemm neither needs work of threads nor is needed in its iteration. It can run
  // beside the threads after all other gemms, and would delay them in a batch.
  bool IsApart(size_t i) const {
    const ir::GemmNode* gemm = AsTurnGemm(StmtOf(i));
    std::vector<const ir::GemmOperandNode*> inputs = gemm->Inputs();
    return !leads_on_[i] && std::none_of(before_[i].begin(), before_[i].end(), [&](size_t j) {
      return !IsLoad(j) && std::any_of(inputs.begin(), inputs.end(), [&](const auto* input) {
        return nodes_[j].writes.count(input->buffer().get()) != 0;
      });
    });
  }
  // Touches results of the iteration before alone.
  bool IsCarried(size_t i) const { return !IsGemm(i) && !follows_gemm_[i] && TakesPart(i); }

  // Returns the order inside of a slot: first the statements that need the fewest batches, then the
  // ones that read results of the iteration before last, for which the threads wait.
  std::tuple<size_t, bool, bool, size_t> Place(size_t i) const {
    return {place_[i], IsGemm(i), IsCarried(i), earliest_[i]};
  }

  void FindDependences() {
    before_.resize(nodes_.size());
    for (size_t i = 0; i < nodes_.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (nodes_[j].ConflictsWith(nodes_[i])) before_[i].push_back(j);
      }
    }
  }

  // The first slot or batch that each may be in.
  void SetBatches() {
    earliest_.resize(nodes_.size());
    follows_gemm_.resize(nodes_.size());
    leads_on_.resize(nodes_.size());
    for (size_t i = 0; i < nodes_.size(); ++i) {
      for (size_t j : before_[i]) {
        bool next = IsGemm(j) && !IsGemm(i);
        earliest_[i] = std::max(earliest_[i], earliest_[j] + (next ? 1 : 0));
        if (IsGemm(j) || follows_gemm_[j]) follows_gemm_[i] = true;
        leads_on_[j] = true;
      }
    }
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (IsGemm(i) && !IsApart(i)) last_ = std::max(last_, earliest_[i]);
    }
  }

  // Places the statements that gemms need as late as the gemms allow, and all others after a batch.
  void SetSlots() {
    constexpr size_t kNone = SIZE_MAX;
    place_.assign(nodes_.size(), kNone);
    for (size_t i = nodes_.size(); i-- > 0;) {
      if (IsGemm(i)) place_[i] = IsApart(i) ? last_ + 1 : earliest_[i];
      for (size_t j : before_[i]) place_[j] = std::min(place_[j], place_[i]);
    }
    std::vector<bool> needed(nodes_.size());
    for (size_t i = 0; i < nodes_.size(); ++i) needed[i] = place_[i] != kNone;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (needed[i]) continue;
      place_[i] = 1;
      for (size_t j : before_[i]) {
        place_[i] = std::max(place_[i], std::min(place_[j] + (needed[j] ? 1 : 0), last_ + 1));
      }
    }
  }

  std::vector<TaskNode> nodes_;
  std::vector<std::vector<size_t>> before_;  // what each depends on
  std::vector<size_t> earliest_;
  std::vector<bool> follows_gemm_;
  std::vector<bool> leads_on_;  // others of the iteration depend on it
  std::vector<size_t> place_;
  size_t last_ = 0;  // batch
};

class GemmGatherer : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::ForNode* op) override {
    Stmt inner = StmtMutator::Rewrite(op);
    const auto* loop = inner.as<ir::ForNode>();
    const auto* body = loop->body.as<ir::SeqNode>();
    if (body == nullptr || StagesOf(loop) < 2) return inner;
    std::vector<Stmt> allocs;
    std::vector<Task> tasks;
    size_t gemms = 0;
    for (const Stmt& s : body->stmts) {
      Task task{TaskKind::kWork, {s}, {}};
      if (!CanMove(task)) return inner;
      gemms += AsTurnGemm(s) != nullptr ? 1 : 0;
      if (s->kind == ir::StmtKind::kAlloc) {
        allocs.push_back(s);
      } else {
        tasks.push_back(std::move(task));
      }
    }
    if (gemms < 2) return inner;
    Batches batches(tasks);
    if (batches.Count() >= batches.CountInProgram()) return inner;
    std::vector<Stmt> ordered = batches.InOrder();
    allocs.insert(allocs.end(), ordered.begin(), ordered.end());
    Remark(loop->span, "pipeline",
           "T.Pipelined: the gemms of an iteration are issued in " +
               std::to_string(batches.Count()) + " batches, not in " +
               std::to_string(batches.CountInProgram()) +
               " as written: operands are put in place before the first gemm of a batch, and "
               "results read behind its last");
    return ir::For(loop->var, loop->min, loop->extent, loop->Kind(),
                   op::Sequence(allocs, body->span), loop->annotations, loop->span);
  }
};

}  // namespace

Stmt GatherGemms(const Stmt& launch) { return GemmGatherer().MutateStmt(launch); }

}  // namespace tilelang::schedule
