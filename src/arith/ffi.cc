// The analyzer for Python: `tl.arith.*`.
#include <tvm/ffi/reflection/registry.h>

#include "arith/analyzer.h"
#include "arith/boxes_apart.h"
#include "arith/host_eval.h"
#include "registry/functions.h"

namespace tilelang::arith {

namespace ffi = tvm::ffi;
using ir::Expr;

namespace {

class AnalyzerObj : public ffi::Object {
 public:
  Analyzer analyzer;
  std::vector<std::unique_ptr<Analyzer::Scope>> scopes;

  ~AnalyzerObj() {
    while (!scopes.empty()) scopes.pop_back();
  }
  static constexpr bool _type_mutable = true;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.arith.Analyzer", AnalyzerObj, ffi::Object);
};

class AnalyzerRef : public ffi::ObjectRef {
 public:
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(AnalyzerRef, ffi::ObjectRef, AnalyzerObj);
};

AnalyzerObj* Get(const AnalyzerRef& ref) { return const_cast<AnalyzerObj*>(ref.get()); }
Analyzer& Of(const AnalyzerRef& ref) { return Get(ref)->analyzer; }

ffi::Array<int64_t> HostEvaluateAll(ffi::Array<Expr> exprs, ffi::Array<ir::Var> vars,
                                    ffi::Array<int64_t> values) {
  HostProgram program(exprs, vars);
  std::vector<int64_t> inputs(values.begin(), values.end());
  std::vector<int64_t> outputs(program.num_outputs());
  program.Run(inputs.data(), outputs.data());
  return ffi::Array<int64_t>(outputs.begin(), outputs.end());
}

// Takes a column of values for each variable, and returns a column for each expression.
ffi::Array<ffi::Array<int64_t>> HostEvaluateMany(ffi::Array<Expr> exprs, ffi::Array<ir::Var> vars,
                                                 ffi::Array<ffi::Array<int64_t>> values) {
  HostProgram::Columns inputs;
  for (const auto& column : values) inputs.emplace_back(column.begin(), column.end());
  HostProgram::Columns outputs;
  HostProgram(exprs, vars).RunMany(inputs, inputs.empty() ? 1 : inputs[0].size(), &outputs);
  ffi::Array<ffi::Array<int64_t>> result;
  for (const auto& column : outputs) result.push_back({column.begin(), column.end()});
  return result;
}

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = ffi::reflection;
  refl::ObjectDef<AnalyzerObj>();
  registry::Functions()
      .Add("tl.arith.Analyzer", [] { return AnalyzerRef(ffi::make_object<AnalyzerObj>()); })
      .Add("tl.arith.BindRange",
           [](AnalyzerRef a, ir::Var var, Expr min, Expr extent) { Of(a).Bind(var, min, extent); })
      .Add("tl.arith.BindValue",
           [](AnalyzerRef a, ir::Var var, Expr value) { Of(a).Bind(var, value); })
      .Add("tl.arith.Assume", [](AnalyzerRef a, Expr condition) { Of(a).Assume(condition); })
      .Add("tl.arith.EnterScope",
           [](AnalyzerRef a) {
             Get(a)->scopes.push_back(std::make_unique<Analyzer::Scope>(&Of(a)));
           })
      .Add("tl.arith.ExitScope", [](AnalyzerRef a) { Get(a)->scopes.pop_back(); })
      .Add("tl.arith.ConstBounds",
           [](AnalyzerRef a, Expr e) {
             Interval bounds = Of(a).ConstBounds(e);
             return ffi::Array<int64_t>{bounds.lo, bounds.hi};
           })
      .Add("tl.arith.Modular",
           [](AnalyzerRef a, Expr e) {
             ModularSet set = Of(a).Modular(e);
             return ffi::Array<int64_t>{set.coeff, set.base};
           })
      .Add("tl.arith.CanProve", [](AnalyzerRef a, Expr e) { return Of(a).CanProve(e); })
      .Add("tl.arith.CanProveEqual",
           [](AnalyzerRef a, Expr x, Expr y) { return Of(a).CanProveEqual(x, y); })
      .Add("tl.arith.Simplify", [](AnalyzerRef a, Expr e) { return Of(a).Simplify(e); })
      .Add("tl.arith.LinearIn",
           [](AnalyzerRef a, Expr e, ir::Var var) -> ffi::Optional<Expr> {
             auto stride = Of(a).LinearIn(e, var);
             return stride ? ffi::Optional<Expr>(*stride) : ffi::Optional<Expr>();
           })
      .Add("tl.arith.AreApart",
           [](Expr index, ir::Var var, int64_t min, int64_t extent, int64_t distance) {
             return AreApart(index, {var, min, extent}, distance);
           })
      .Add("tl.arith.MayMeet",
           [](Expr earlier, Expr later, ir::Var var, int64_t elements, int64_t extent,
              int64_t distance, int64_t most) {
             return MayMeet({earlier, elements}, {later, elements}, {var, 0, extent}, distance,
                            most);
           })
      .Add("tl.arith.AreBoxesApart",
           [](ffi::Array<Expr> corner, ffi::Array<int64_t> extents, ir::Var var, int64_t turns,
              ir::Var other, int64_t choices, ffi::Array<Expr> conditions) {
             return AreBoxesApart({corner, extents}, {var, 0, turns}, {{other, 0, choices}},
                                  conditions);
           })
      .Add("tl.arith.HostEvaluate", HostEvaluateAll)
      .Add("tl.arith.HostEvaluateMany", HostEvaluateMany);
}

}  // namespace tilelang::arith
