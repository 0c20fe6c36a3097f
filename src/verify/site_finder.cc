#include "verify/site_finder.h"

#include <algorithm>

#include "analysis/thread_set.h"
#include "ir/async.h"
#include "ir/effects.h"
#include "ir/visitor.h"

namespace tilelang::verify {

using ir::Expr;
using ir::Stmt;

namespace {

using Objects = std::unordered_set<const ir::ffi::Object*>;

// Of an answer of cluster launch control: whoever asked orders its accesses, not the placement.
bool IsQuery(const ir::CallNode* call) { return call->Is(ir::Builtin::kAnswerOfClc); }

// Accesses by threads, statement by statement.
class AccessWalker : public ir::StmtVisitor {
 public:
  using Add = std::function<void(const ir::Buffer&, bool, bool, bool, const ir::Span&)>;
  explicit AccessWalker(const Add& add) : add_(add) {}

  using StmtVisitor::Visit;
  void VisitStmt(const Stmt& s) override {
    ir::Span outer = span_;
    if (s.span().defined()) span_ = s.span();
    StmtVisitor::VisitStmt(s);
    span_ = outer;
  }
  void Visit(const ir::LoadNode* op) override {
    StmtVisitor::Visit(op);
    add_(op->buffer, true, false, false, op->span.defined() ? op->span : span_);
  }
  void Visit(const ir::StoreNode* op) override {
    StmtVisitor::Visit(op);
    add_(op->buffer, false, true, false, span_);
  }
  void Visit(const ir::CallNode* op) override {
    if (op->Is(ir::Builtin::kAddressOf)) {
      for (const Expr& index : op->args[0].as<ir::LoadNode>()->indices) VisitExpr(index);
      return;
    }
    StmtVisitor::Visit(op);
    if (IsQuery(op)) add_(ir::AddressedElement(op->args[0])->buffer, true, false, false, span_);
    bool atomic = ir::IsAtomic(op);
    for (const ir::MemoryEffect& effect : ir::CallEffects(op)) {
      add_(effect.buffer, effect.read, effect.write, atomic, span_);
    }
  }

 private:
  const Add& add_;
  ir::Span span_;
};

}  // namespace

SiteFinder::SiteFinder(const ir::KernelLaunchNode* launch, const Program* program)
    : program_(program) {
  for (const auto& vars : {launch->thread_vars, launch->block_vars}) {
    for (const ir::Var& var : vars) constant_.insert(var.get());
  }
  Objects set;
  analysis::BlockThreads threads(launch);
  ir::WalkStmts(launch->body, [&](const Stmt& s) {
    if (const auto* op = s.as<ir::BindNode>()) {
      set.insert(op->var.get());
      if (threads.UsesThread(op->value)) of_threads_.emplace(op->var.get(), op->value);
      threads.Bind(op->var, op->value);
    }
    if (const auto* op = s.as<ir::ForNode>()) set.insert(op->var.get());
    return true;
  });
  ir::WalkExprs(launch->body, [&](const Expr& e) {
    if (e->kind == ir::ExprKind::kVar && set.count(e.get()) == 0) constant_.insert(e.get());
    const auto* call = e.as<ir::CallNode>();
    if (call == nullptr || OperationOf(call).kind != OperationKind::kWgmma) return true;
    for (const Expr& arg : call->args) {
      const ir::LoadNode* load = ir::AddressedElement(arg);
      if (load != nullptr && load->buffer.IsLocal()) registers_.insert(load->buffer.get());
    }
    return true;
  });
}

Site SiteFinder::MakeSite(const ir::Buffer& buffer, const ir::Span& span) const {
  Site site;
  site.space = buffer.IsLocal() ? Space::kRegisters : Space::kShared;
  site.buffer = buffer;
  site.span = span;
  site.end = 1;
  if (site.space == Space::kShared) {
    auto offset = program_->offsets().Get(buffer);
    site.begin = offset.value_or(0);
    site.end = site.begin + ir::AsInt(buffer->shape[0]).value_or(1) * ir::Bytes(buffer->dtype);
  }
  return site;
}

std::vector<Site> SiteFinder::Find(const Stmt& s) const {
  std::vector<Site> sites;
  AccessWalker::Add add = [&](const ir::Buffer& buffer, bool reads, bool writes, bool atomic,
                              const ir::Span& span) {
    if (!IsTracked(buffer)) return;
    auto same = [&](const Site& site) {
      return site.buffer.same_as(buffer) && site.reads == reads && site.writes == writes &&
             site.atomic == atomic;
    };
    if (std::any_of(sites.begin(), sites.end(), same)) return;
    Site site = MakeSite(buffer, span);
    site.reads = reads;
    site.writes = writes;
    site.atomic = atomic;
    sites.push_back(site);
  };
  AccessWalker(add).VisitStmt(s);
  return sites;
}

Site SiteFinder::EngineSite(const ir::CallNode* call, const ir::MemoryEffect& effect,
                            size_t operand, OperationKind kind, const ir::Span& span) const {
  Site site = MakeSite(effect.buffer, span);
  site.reads = effect.read;
  site.writes = effect.write;
  site.by = kind;
  site.extent = effect.extent;
  // Descriptors are in the order of the operands.
  size_t before = operand;
  for (size_t i = 0; i < call->args.size(); ++i) {
    const ir::LoadNode* load = ir::AddressedElement(call->args[i]);
    bool names = load != nullptr && load->buffer.same_as(effect.buffer);
    bool descriptor = load == nullptr && call->args[i].dtype() == ir::dtypes::kUInt64;
    if (!names && !descriptor) continue;
    if (names || before-- == 0) {
      site.argument = static_cast<int>(i);
      break;
    }
  }
  return site;
}

void SiteFinder::AddRegisters(const ir::CallNode* call, const ir::Span& span,
                              std::vector<Site>* sites) const {
  // The accumulators come first.
  for (size_t i = 0; i < call->args.size(); ++i) {
    const ir::LoadNode* load = ir::AddressedElement(call->args[i]);
    if (load == nullptr || !load->buffer.IsLocal()) continue;
    Site site = MakeSite(load->buffer, span);
    site.by = OperationKind::kWgmma;
    site.reads = i != 0;
    site.writes = i == 0;
    sites->push_back(site);
  }
}

std::vector<Site> SiteFinder::FindOfOperation(const Stmt& s, OperationKind kind) const {
  std::vector<Site> sites;
  ir::Call made = CallOf(s);
  const ir::CallNode* call = made.get();
  const ir::Span& span = call->span.defined() ? call->span : s.span();
  bool device = kind >= OperationKind::kTmaLoad;
  bool memory = device && kind != OperationKind::kHold && kind != OperationKind::kFreeTmem &&
                kind != OperationKind::kCommitTensorCore;
  if (call->Is(ir::Builtin::kAskForBlock)) {
    ir::MemoryEffect answer{ir::AddressedElement(call->args[0])->buffer};
    answer.write = true;
    sites.push_back(EngineSite(call, answer, 0, kind, span));
  } else if (memory) {
    size_t operand = 0;
    for (const ir::MemoryEffect& effect : ir::CallEffects(call)) {
      if (effect.buffer.IsShared()) {
        sites.push_back(EngineSite(call, effect, operand++, kind, span));
      }
      if (effect.buffer.IsLocal() && kind != OperationKind::kWgmma && IsTracked(effect.buffer)) {
        Site site = MakeSite(effect.buffer, span);
        site.reads = effect.read;
        site.writes = effect.write;
        sites.push_back(site);
      }
    }
  }
  if (kind == OperationKind::kWgmma) AddRegisters(call, span, &sites);
  // The address is written, nothing is read.
  for (Site& site : sites) site.reads = site.reads && kind != OperationKind::kAllocTmem;
  for (const ir::TmemEffect& effect : ir::TmemEffects(call)) {
    Site site;
    site.space = Space::kTmem;
    site.span = span;
    site.by = kind;
    site.reads = !effect.write;
    site.writes = effect.write;
    site.extent = effect.columns;
    site.lanes = effect.lanes;
    auto at = std::find_if(call->args.begin(), call->args.end(),
                           [&](const Expr& arg) { return arg.same_as(effect.address); });
    site.argument = static_cast<int>(at - call->args.begin());
    sites.push_back(site);
  }
  if (kind == OperationKind::kFreeTmem) {
    Site site;
    site.space = Space::kTmem;
    site.span = span;
    site.by = kind;
    site.writes = true;
    sites.push_back(site);
  }
  return sites;
}

std::vector<ir::ffi::ObjectRef> SiteFinder::FreeOf(const Stmt& s) const {
  std::unordered_map<const ir::ffi::Object*, Expr> bound;
  Objects inner;
  std::vector<Expr> todo;
  auto need_all = [&](const ir::Array<Expr>& indices) {
    for (const Expr& index : indices) todo.push_back(index);
  };
  ir::WalkStmts(s, [&](const Stmt& part) {
    if (const auto* op = part.as<ir::BindNode>()) bound.emplace(op->var.get(), op->value);
    if (const auto* op = part.as<ir::ForNode>()) {
      inner.insert(op->var.get());
      todo.push_back(op->min);
      todo.push_back(op->extent);
    }
    const auto* store = part.as<ir::StoreNode>();
    if (store != nullptr && store->buffer.IsShared()) need_all(store->indices);
    return true;
  });
  ir::WalkExprs(s, [&](const Expr& e) {
    const auto* load = e.as<ir::LoadNode>();
    if (load != nullptr && load->buffer.IsShared()) need_all(load->indices);
    return true;
  });
  std::vector<ir::ffi::ObjectRef> free;
  Objects seen;
  while (!todo.empty()) {
    Expr e = todo.back();
    todo.pop_back();
    ir::WalkExprs(e, [&](const Expr& part) {
      const auto* load = part.as<ir::LoadNode>();
      bool local = load != nullptr && load->buffer.IsLocal();
      if (local && seen.insert(load->buffer.get()).second) free.push_back(load->buffer);
      if (part->kind != ir::ExprKind::kVar || inner.count(part.get()) != 0) return true;
      if (constant_.count(part.get()) != 0 || !seen.insert(part.get()).second) return true;
      auto it = bound.find(part.get());
      auto of_thread = of_threads_.find(part.get());
      if (it != bound.end()) {
        todo.push_back(it->second);
      } else if (of_thread != of_threads_.end()) {
        todo.push_back(of_thread->second);
      } else {
        free.push_back(part);
      }
      return true;
    });
  }
  return free;
}

}  // namespace tilelang::verify
