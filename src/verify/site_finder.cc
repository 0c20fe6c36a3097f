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

// Reports the accesses of threads, statement by statement.
class AccessWalker : public ir::StmtVisitor {
 public:
  using Add = std::function<void(const ir::Buffer&, bool, bool, bool, const ir::Span&)>;
  AccessWalker(const OperandReader& operands, const Add& add) : operands_(operands), add_(add) {}

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
    for (const Operand& operand : operands_.Of(op)) {
      if (!operand.buffer.defined()) continue;
      add_(operand.buffer, operand.reads, operand.writes, operand.atomic, span_);
    }
  }

 private:
  const OperandReader& operands_;
  const Add& add_;
  ir::Span span_;
};

}  // namespace

bool TouchesShared(const Stmt& s) {
  bool found = false;
  ir::WalkEffects(s, [&](const ir::Effect& effect) { found |= effect.buffer.IsShared(); });
  return found;
}

SiteFinder::SiteFinder(const ir::KernelLaunchNode* launch, const Program* program)
    : program_(program), operands_(launch) {
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
  AccessWalker(operands_, add).VisitStmt(s);
  return sites;
}

Site SiteFinder::EngineSite(const ir::CallNode* call, const Operand& operand, size_t number,
                            OperationKind kind, const ir::Span& span) const {
  Site site = MakeSite(operand.buffer, span);
  site.reads = operand.reads;
  site.writes = operand.writes;
  site.by = kind;
  site.argument = operand.argument;
  // `extents` has how many bytes the instruction touches from its address on. Without it the
  // instruction may touch the whole buffer.
  auto given = call->attrs.Get("extents");
  auto extents = given ? (*given).cast<ir::Array<int64_t>>() : ir::Array<int64_t>();
  if (number < extents.size()) site.extent = extents[static_cast<int64_t>(number)];
  return site;
}

Site SiteFinder::TmemSite(const ir::CallNode* call, const Operand& operand, OperationKind kind,
                          const ir::Span& span) {
  Site site;
  site.space = Space::kTmem;
  site.span = span;
  site.by = kind;
  site.reads = operand.reads;
  site.writes = operand.writes;
  auto given = call->attrs.Get("tmem");
  if (!given) return site;
  // Each box is (argument, lanes, columns, ...).
  for (const auto& box : (*given).cast<ir::Array<ir::Array<int64_t>>>()) {
    if (box[0] != operand.argument) continue;
    site.argument = operand.argument;
    site.lanes = box[1];
    site.extent = box[2];
  }
  return site;
}

void SiteFinder::AddRegisters(const ir::CallNode* call, const ir::Span& span,
                              std::vector<Site>* sites) const {
  // The first argument is the accumulator.
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
  size_t shared = 0;
  for (const Operand& operand : operands_.Of(call)) {
    if (!memory) break;
    if (!operand.buffer.defined()) {
      sites.push_back(TmemSite(call, operand, kind, span));
    } else if (operand.buffer.IsShared()) {
      sites.push_back(EngineSite(call, operand, shared++, kind, span));
    } else if (kind != OperationKind::kWgmma && IsTracked(operand.buffer)) {
      Site site = MakeSite(operand.buffer, span);
      site.reads = operand.reads;
      site.writes = operand.writes;
      sites.push_back(site);
    }
  }
  if (kind == OperationKind::kWgmma) AddRegisters(call, span, &sites);
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
    const auto* branch = part.as<ir::IfNode>();
    if (branch != nullptr && TouchesShared(part)) todo.push_back(branch->condition);
    return true;
  });
  ir::WalkExprs(s, [&](const Expr& e) {
    const auto* load = e.as<ir::LoadNode>();
    if (load != nullptr && load->buffer.IsShared()) need_all(load->indices);
    const auto* select = e.as<ir::SelectNode>();
    if (select != nullptr && TouchesShared(ir::Evaluate(e))) todo.push_back(select->condition);
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
