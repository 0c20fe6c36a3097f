// Unrolled loops that convert floats to numbers of 8 bits in registers: two by one instruction.
//
//   for r in unrolled(16): y[b + r] = fp8(f(r))      becomes
//
//   float y_numbers[16];
//   for (int r = 0; r < 16; ++r) y_numbers[r] = f(r);
//   tl::narrow(y + b, y_numbers);
#include "codegen/stmt_printer.h"
#include "ir/visitor.h"

namespace tilelang {

using namespace ir;  // NOLINT(google-build-using-namespace)

bool StmtPrinter::PrintNarrowed(const ForNode* loop) {
  const auto* store = loop->body.as<StoreNode>();
  const auto* cast = store == nullptr ? nullptr : store->value.as<CastNode>();
  auto extent = AsInt(loop->extent);
  bool converts = cast != nullptr && IsFloat8(cast->dtype) && store->buffer.IsLocal() &&
                  cast->value.dtype() == dtypes::kFloat32 && store->indices.size() == 1;
  bool even = extent && *extent % 2 == 0 && *extent > 0 && IsConst(loop->min, 0);
  // All elements are computed before the first one is stored.
  bool reads = converts && HasExpr(cast->value, [&](const Expr& e) {
                 const auto* load = e.as<LoadNode>();
                 return load != nullptr && load->buffer.same_as(store->buffer);
               });
  bool next = converts && exprs_->analyzer()->StrideOf(store->indices[0], loop->var) == 1;
  if (!even || reads || !next || !loop->annotations.empty()) return false;
  if (store->span.defined()) out_->SetSpan(store->span);
  std::string numbers = names_->Fresh(std::string(store->buffer->name) + "_numbers");
  out_->Line("float " + numbers + "[" + std::to_string(*extent) + "];");
  exprs_->analyzer()->Bind(loop->var, loop->min, loop->extent);
  const std::string& name = names_->Of(loop->var);
  out_->Line("#pragma unroll");
  out_->Open("for (int " + name + " = 0; " + name + " < " + std::to_string(*extent) + "; ++" +
             name + ")");
  out_->Line(numbers + "[" + name + "] = " + exprs_->Print(cast->value) + ";");
  out_->Close();
  Expr first = Substitute(store->indices[0], {{loop->var, Const(loop->var.dtype(), 0)}});
  out_->Line("tl::narrow(" + exprs_->Pointer(store->buffer, {first}) + ", " + numbers + ");");
  return true;
}

}  // namespace tilelang
