#include "analysis/access_table.h"

namespace tilelang::analysis {

using ir::Stmt;

const std::vector<AccessPtr>& AccessTable::Of(const Stmt& s, const AccessContext& context) {
  std::list<Place>& places = places_[s.get()];
  for (const Place& place : places) {
    if (IsSamePlace(place.context, context)) return place.accesses;
  }
  if (places.empty()) alive_.push_back(s);
  Place& place = places.emplace_back();
  place.context = context;
  AccessContext inside = context;
  CollectParts(s, &inside, &place.accesses);
  return place.accesses;
}

void AccessTable::Append(const Stmt& s, AccessContext* context, std::vector<AccessPtr>* out) {
  const std::vector<AccessPtr>& accesses = Of(s, *context);
  out->insert(out->end(), accesses.begin(), accesses.end());
  if (const auto* bind = s.as<ir::BindNode>()) context->Bind(bind);
}

void AccessTable::CollectParts(const Stmt& s, AccessContext* context, std::vector<AccessPtr>* out) {
  if (const auto* seq = s.as<ir::SeqNode>()) {
    for (const Stmt& child : seq->stmts) Append(child, context, out);
  } else if (const auto* op = s.as<ir::IssueNode>()) {
    context->Enter(op);
    Append(op->body, context, out);
    context->Leave();
  } else if (const auto* op = s.as<ir::IfNode>()) {
    Append(Head(op->condition), context, out);
    context->guards.push_back(op->condition);
    Append(op->then_case, context, out);
    context->guards.back() = ir::Not(op->condition);
    if (op->else_case.defined()) Append(op->else_case, context, out);
    context->guards.pop_back();
  } else if (const auto* op = s.as<ir::WhileNode>()) {
    Append(Head(op->condition), context, out);
    Append(op->body, context, out);
  } else if (const auto* op = s.as<ir::ForNode>();
             op != nullptr && op->Kind() != ir::ForKind::kVectorized) {
    Append(Head(op->extent), context, out);
    auto min = ir::AsInt(op->min);
    auto extent = ir::AsInt(op->extent);
    bool constant = min && extent;
    if (constant) context->loops.push_back({op->var, *min, *extent});
    Append(op->body, context, out);
    if (constant) context->loops.pop_back();
  } else {
    CollectAccesses(s, *context, offsets_, out);
  }
}

std::vector<AccessPtr> AccessTable::Anywhere(const Stmt& s, const AccessContext& context) {
  auto known = places_.find(s.get());
  if (known == places_.end()) return Of(s, context);
  std::vector<AccessPtr> all;
  for (const Place& place : known->second) {
    all.insert(all.end(), place.accesses.begin(), place.accesses.end());
  }
  return all;
}

void AccessTable::Set(const Stmt& rewritten, const AccessContext& context,
                      const std::vector<AccessPtr>& accesses) {
  alive_.push_back(rewritten);
  places_[rewritten.get()] = {{context, accesses}};
}

const Stmt& AccessTable::Head(const ir::Expr& e) {
  Stmt& head = heads_[e.get()];
  if (!head.defined()) head = ir::Evaluate(e, e.span());
  return head;
}

}  // namespace tilelang::analysis
