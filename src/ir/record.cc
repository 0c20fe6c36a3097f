#include "ir/record.h"

#include <tvm/ffi/cast.h>
#include <tvm/ffi/reflection/registry.h>

#include <unordered_map>

#include "ir/build.h"
#include "ir/visitor.h"
#include "registry/functions.h"

namespace tilelang::ir {

namespace {

bool IsLeaf(const Expr& e) {
  return e->kind == ExprKind::kVar || e.as<IntImmNode>() != nullptr ||
         e.as<FloatImmNode>() != nullptr;
}

// Counts how often some expressions use each node. The nodes below a node count once.
class UseCounter : public ExprMutator {
 public:
  std::unordered_map<const ffi::Object*, int> uses;

  Expr Mutate(const Expr& e) override {
    if (++uses[e.get()] == 1) ExprMutator::Mutate(e);
    return e;
  }
};

// Names what is used several times.
class Namer : public ExprMutator {
 public:
  Namer(const std::unordered_map<const ffi::Object*, int>& uses, Map<Var, Expr> values, Span span,
        std::vector<Stmt>* stmts)
      : uses_(uses), values_(std::move(values)), span_(std::move(span)), stmts_(stmts) {}

  Expr Mutate(const Expr& e) override {
    auto done = named_.find(e.get());
    if (done != named_.end()) return done->second;
    Expr value = ExprMutator::Mutate(e);
    if (!IsLeaf(e) && uses_.at(e.get()) > 1) value = Name(value);
    named_.emplace(e.get(), value);
    return value;
  }
  Expr Name(const Expr& value) {
    if (IsLeaf(value)) return value;
    Var var("t", value.dtype(), span_);
    stmts_->push_back(Bind(var, value, span_));
    return var;
  }

 protected:
  Expr Rewrite(const VarNode* op) override {
    auto it = values_.find(ffi::GetRef<Var>(op));
    return it == values_.end() ? Expr(ffi::GetRef<Var>(op)) : (*it).second;
  }

 private:
  const std::unordered_map<const ffi::Object*, int>& uses_;
  Map<Var, Expr> values_;
  Span span_;
  std::vector<Stmt>* stmts_;
  std::unordered_map<const ffi::Object*, Expr> named_;
};

}  // namespace

RecordUpdate::RecordUpdate(String name, Array<Var> left, Array<Var> right, Array<Expr> combined,
                           Array<Expr> identity) {
  auto node = ffi::make_object<RecordUpdateNode>();
  node->name = std::move(name);
  node->left = std::move(left);
  node->right = std::move(right);
  node->combined = std::move(combined);
  node->identity = std::move(identity);
  data_ = std::move(node);
}

Stmt RecordUpdate::Apply(const std::vector<Expr>& fields, const std::vector<Expr>& incoming,
                         const std::function<Stmt(size_t k, const Expr& value)>& store,
                         const Span& span) const {
  const RecordUpdateNode* node = get();
  std::vector<Stmt> stmts;
  Map<Var, Expr> values;
  auto name = [&](const Array<Var>& vars, const std::vector<Expr>& given) {
    for (size_t k = 0; k < vars.size(); ++k) {
      Var var(vars[k]->name, vars[k].dtype(), span);
      stmts.push_back(Bind(var, CastTo(var.dtype(), given[k]), span));
      values.Set(vars[k], var);
    }
  };
  name(node->left, fields);
  name(node->right, incoming);
  UseCounter counter;
  for (const Expr& e : node->combined) counter.Mutate(e);
  Namer namer(counter.uses, values, span, &stmts);
  std::vector<Expr> results;
  for (const Expr& e : node->combined) results.push_back(namer.Name(namer.Mutate(e)));
  for (size_t k = 0; k < results.size(); ++k) stmts.push_back(store(k, results[k]));
  return MakeSeq(stmts, span);
}

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = ffi::reflection;
  refl::ObjectDef<RecordUpdateNode>()
      .def_ro("name", &RecordUpdateNode::name)
      .def_ro("left", &RecordUpdateNode::left, refl::AttachFieldFlag::SEqHashDefPattern())
      .def_ro("right", &RecordUpdateNode::right, refl::AttachFieldFlag::SEqHashDefPattern())
      .def_ro("combined", &RecordUpdateNode::combined)
      .def_ro("identity", &RecordUpdateNode::identity);
  registry::Functions().Add("tl.ir.RecordUpdate", [](String name, Array<Var> left, Array<Var> right,
                                                     Array<Expr> combined, Array<Expr> identity) {
    return RecordUpdate(name, left, right, combined, identity);
  });
}

}  // namespace tilelang::ir
