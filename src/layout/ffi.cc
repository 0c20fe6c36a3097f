// Registers the functions of layouts and fragments for Python.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tuple.h>
#include <tvm/ffi/reflection/registry.h>

#include "layout/algebra.h"
#include "layout/fragment.h"
#include "layout/symbolic.h"
#include "layout/tcgen05_layout.h"
#include "registry/functions.h"

namespace tilelang::layout {

namespace refl = tvm::ffi::reflection;

namespace {

std::vector<size_t> ToAxes(const ffi::Shape& shape) {
  return std::vector<size_t>(shape.begin(), shape.end());
}
std::vector<ir::Expr> ToVector(const ffi::Array<ir::Expr>& exprs) {
  return std::vector<ir::Expr>(exprs.begin(), exprs.end());
}
ffi::Array<ir::Expr> ToArray(const std::vector<ir::Expr>& exprs) {
  return ffi::Array<ir::Expr>(exprs.begin(), exprs.end());
}

Layout MakeTree(ffi::Any shape, ffi::Any stride, int64_t offset, ffi::Shape swizzle) {
  Swizzle xor_swizzle;
  if (swizzle.size() == 3) xor_swizzle = {swizzle[0], swizzle[1], swizzle[2]};
  return Layout(IntTuple::FromAny(shape), IntTuple::FromAny(stride), offset, xor_swizzle);
}

ffi::Array<ffi::Any> Slot(const Fragment& fragment, int64_t thread, int64_t reg) {
  ffi::Array<ffi::Any> result;
  if (auto content = fragment->Inverse(thread, reg)) {
    result.push_back(ffi::Shape(content->first));
    result.push_back(content->second);
  }
  return result;
}

/*! How the printer of the IR writes them. */
void RegisterText() {
  registry::Functions()
      .Add("tl.print.tl.Layout", [](Layout l) { return ffi::String(l->ToString()); })
      .Add("tl.print.tl.Fragment", [](Fragment f) { return ffi::String(f->ToString()); })
      .Add("tl.print.tl.TmemLayout", [](TmemLayout t) { return ffi::String(t->ToString()); });
}

void RegisterLayout() {
  refl::ObjectDef<FormulaNode>(refl::init(false))
      .def_ro("coordinates", &FormulaNode::coordinates)
      .def_ro("value", &FormulaNode::value);
  refl::ObjectDef<LayoutNode>()
      .def_ro("extents", &LayoutNode::extents)
      .def_ro("shape", &LayoutNode::shape)
      .def_ro("stride", &LayoutNode::stride)
      .def_ro("offset", &LayoutNode::offset)
      .def_ro("swizzle_bits", &LayoutNode::swizzle_bits)
      .def_ro("swizzle_base", &LayoutNode::swizzle_base)
      .def_ro("swizzle_shift", &LayoutNode::swizzle_shift)
      .def_ro("table", &LayoutNode::table)
      // The table says it all; two spellings of one map are one layout.
      .def_ro("formula", &LayoutNode::formula, refl::AttachFieldFlag::SEqHashIgnore());
  registry::Functions()
      .Add("tl.layout.Formula", [](ffi::Array<ir::Var> c, ir::Expr v) { return Formula(c, v); })
      .Add("tl.layout.Tree", MakeTree)
      .Add("tl.layout.RowMajor", [](ffi::Shape e) { return Layout::RowMajor(ToCoord(e)); })
      .Add("tl.layout.FromValues",
           [](ffi::Shape e, ffi::Shape v) { return Layout::FromValues(ToCoord(e), ToCoord(v)); })
      .Add("tl.layout.FromFunction",
           [](ffi::Shape e, ffi::Shape v, ffi::Array<ir::Var> coordinates,
              ffi::Optional<ir::Expr> formula) {
             ffi::Optional<Formula> known;
             if (formula) known = Formula(coordinates, formula.value());
             return Layout::FromValues(ToCoord(e), ToCoord(v), known);
           })
      .Add("tl.layout.Size", [](Layout l) { return l->Size(); })
      .Add("tl.layout.Cosize", [](Layout l) { return l->Cosize(); })
      .Add("tl.layout.IsTable", [](Layout l) { return l->IsTable(); })
      .Add("tl.layout.IsInjective", [](Layout l) { return l->IsInjective(); })
      .Add("tl.layout.Forward", [](Layout l, ffi::Shape c) { return l->Forward(ToCoord(c)); })
      .Add("tl.layout.Tabulate", [](Layout l) { return ffi::Shape(l->Tabulate()); })
      .Add("tl.layout.ToString", [](Layout l) { return ffi::String(l->ToString()); })
      .Add("tl.layout.Transpose", [](Layout l, ffi::Shape a) { return l.Transpose(ToAxes(a)); })
      .Add("tl.layout.Slice",
           [](Layout l, ffi::Shape b, ffi::Shape e) { return l.Slice(ToCoord(b), ToCoord(e)); })
      .Add("tl.layout.Reshape", [](Layout l, ffi::Shape e) { return l.Reshape(ToCoord(e)); })
      .Add("tl.layout.SameMap", [](Layout a, Layout b) { return a.SameMap(b); })
      .Add("tl.layout.Add", AddLayouts)
      .Add("tl.layout.ForwardExpr", [](Layout l, ffi::Array<ir::Expr> indices) {
        return ForwardExpr(l, ToVector(indices));
      });
}

void RegisterAlgebra() {
  registry::Functions()
      .Add("tl.layout.Coalesce", Coalesce)
      .Add("tl.layout.Composition", Composition)
      .Add("tl.layout.Complement", Complement)
      .Add("tl.layout.RightInverse", RightInverse)
      .Add("tl.layout.LeftInverse", LeftInverse)
      .Add("tl.layout.Concatenate",
           [](ffi::Array<Layout> parts) {
             return Concatenate(std::vector<Layout>(parts.begin(), parts.end()));
           })
      .Add("tl.layout.LogicalProduct", LogicalProduct)
      .Add("tl.layout.LogicalDivide", LogicalDivide)
      .Add("tl.layout.LogicalDivideDims",
           [](Layout l, ffi::Shape tile) { return LogicalDivideDims(l, ToCoord(tile)); })
      .Add("tl.layout.ZippedDivide",
           [](Layout l, ffi::Shape tile) { return ZippedDivide(l, ToCoord(tile)); })
      .Add("tl.layout.TiledDivide",
           [](Layout l, ffi::Shape tile) { return TiledDivide(l, ToCoord(tile)); });
}

void RegisterFragment() {
  refl::ObjectDef<FragmentNode>(refl::init(false))
      .def_ro("thread", &FragmentNode::thread)
      .def_ro("reg", &FragmentNode::reg)
      .def_ro("replica", &FragmentNode::replica);
  registry::Functions()
      .Add("tl.layout.Fragment", [](Layout t, Layout r, Layout rep) { return Fragment(t, r, rep); })
      .Add("tl.layout.FragmentPartition",
           [](ffi::Shape e, int64_t threads, int64_t vector) {
             return Fragment::Partition(ToCoord(e), threads, vector);
           })
      .Add("tl.layout.FragmentReplicated",
           [](ffi::Shape e, int64_t threads) { return Fragment::Replicated(ToCoord(e), threads); })
      .Add("tl.layout.FragmentNumThreads", [](Fragment f) { return f->NumThreads(); })
      .Add("tl.layout.FragmentRegs", [](Fragment f) { return f->RegsPerThread(); })
      .Add("tl.layout.FragmentReplicas", [](Fragment f) { return f->Replicas(); })
      .Add("tl.layout.FragmentForward",
           [](Fragment f, ffi::Shape c, int64_t rep) {
             auto [thread, reg] = f->Forward(ToCoord(c), rep);
             return ffi::Shape({thread, reg});
           })
      .Add("tl.layout.FragmentInverse", Slot)
      .Add("tl.layout.FragmentInverseTable",
           [](Fragment f) { return ffi::Shape(f->InverseTable()); })
      .Add("tl.layout.FragmentHasClosedInverse",
           [](Fragment f) { return InverseDigits(f).has_value(); })
      .Add("tl.layout.FragmentIsBijective", [](Fragment f) { return f->IsBijective(); })
      .Add("tl.layout.FragmentVectorWidth",
           [](Fragment f, int64_t dim) { return f->VectorWidth(dim); })
      .Add("tl.layout.FragmentToString", [](Fragment f) { return ffi::String(f->ToString()); })
      .Add("tl.layout.FragmentSameMap", [](Fragment a, Fragment b) { return a.SameMap(b); })
      .Add("tl.layout.Conversion",
           [](Fragment a, Fragment b) { return static_cast<int64_t>(ConversionBetween(a, b)); });
}

void RegisterFragmentOperations() {
  registry::Functions()
      .Add("tl.layout.FragmentRepeat", [](Fragment f, int64_t dim, int64_t n,
                                          bool threads) { return f.Repeat(dim, n, threads); })
      .Add("tl.layout.FragmentReplicate", [](Fragment f, int64_t n) { return f.Replicate(n); })
      .Add("tl.layout.FragmentBindThreads",
           [](Fragment f, int64_t begin) { return f.BindThreads(begin); })
      .Add("tl.layout.FragmentReduceDim",
           [](Fragment f, int64_t dim, bool keep) { return f.ReduceDim(dim, keep); })
      .Add("tl.layout.FragmentCondense", [](Fragment f) { return f.CondenseRegisters(); })
      .Add("tl.layout.FragmentTranspose",
           [](Fragment f, ffi::Shape axes) { return f.Transpose(ToAxes(axes)); })
      .Add("tl.layout.FragmentSlice",
           [](Fragment f, ffi::Shape b, ffi::Shape e) { return f.Slice(ToCoord(b), ToCoord(e)); })
      .Add("tl.layout.FragmentReshape",
           [](Fragment f, ffi::Shape e) { return f.Reshape(ToCoord(e)); })
      .Add("tl.layout.FragmentExprs",
           [](Fragment f, ffi::Array<ir::Expr> c) {
             return ToArray({ThreadExpr(f, ToVector(c)), RegExpr(f, ToVector(c))});
           })
      .Add("tl.layout.FragmentInverseExprs",
           [](Fragment f, ir::Expr thread, ir::Expr reg, int64_t num_threads) {
             SlotExprs slot = InverseExprs(f, thread, reg, num_threads);
             std::vector<ir::Expr> all = slot.coord;
             all.push_back(slot.rep);
             all.push_back(slot.valid.defined() ? slot.valid : ir::Const(ir::dtypes::kBool, 1));
             return ToArray(all);
           });
}

TVM_FFI_STATIC_INIT_BLOCK() {
  RegisterText();
  RegisterLayout();
  RegisterAlgebra();
  RegisterFragment();
  RegisterFragmentOperations();
}

}  // namespace

}  // namespace tilelang::layout
