// What Python sees of layouts and fragments.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tuple.h>
#include <tvm/ffi/reflection/registry.h>

#include "layout/algebra.h"
#include "layout/fragment.h"
#include "layout/symbolic.h"
#include "layout/tcgen05_layout.h"

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
  refl::GlobalDef()
      .def("tl.print.tl.Layout", [](Layout l) { return ffi::String(l->ToString()); })
      .def("tl.print.tl.Fragment", [](Fragment f) { return ffi::String(f->ToString()); })
      .def("tl.print.tl.TmemLayout", [](TmemLayout t) { return ffi::String(t->ToString()); });
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
  refl::GlobalDef()
      .def("tl.layout.Formula", [](ffi::Array<ir::Var> c, ir::Expr v) { return Formula(c, v); })
      .def("tl.layout.Tree", MakeTree)
      .def("tl.layout.RowMajor", [](ffi::Shape e) { return Layout::RowMajor(ToCoord(e)); })
      .def("tl.layout.FromValues",
           [](ffi::Shape e, ffi::Shape v) { return Layout::FromValues(ToCoord(e), ToCoord(v)); })
      .def("tl.layout.FromFunction",
           [](ffi::Shape e, ffi::Shape v, ffi::Array<ir::Var> coordinates,
              ffi::Optional<ir::Expr> formula) {
             ffi::Optional<Formula> known;
             if (formula) known = Formula(coordinates, formula.value());
             return Layout::FromValues(ToCoord(e), ToCoord(v), known);
           })
      .def("tl.layout.Size", [](Layout l) { return l->Size(); })
      .def("tl.layout.Cosize", [](Layout l) { return l->Cosize(); })
      .def("tl.layout.IsTable", [](Layout l) { return l->IsTable(); })
      .def("tl.layout.IsInjective", [](Layout l) { return l->IsInjective(); })
      .def("tl.layout.Forward", [](Layout l, ffi::Shape c) { return l->Forward(ToCoord(c)); })
      .def("tl.layout.Tabulate", [](Layout l) { return ffi::Shape(l->Tabulate()); })
      .def("tl.layout.ToString", [](Layout l) { return ffi::String(l->ToString()); })
      .def("tl.layout.Transpose", [](Layout l, ffi::Shape a) { return l.Transpose(ToAxes(a)); })
      .def("tl.layout.Slice",
           [](Layout l, ffi::Shape b, ffi::Shape e) { return l.Slice(ToCoord(b), ToCoord(e)); })
      .def("tl.layout.Reshape", [](Layout l, ffi::Shape e) { return l.Reshape(ToCoord(e)); })
      .def("tl.layout.SameMap", [](Layout a, Layout b) { return a.SameMap(b); })
      .def("tl.layout.Add", AddLayouts)
      .def("tl.layout.ForwardExpr", [](Layout l, ffi::Array<ir::Expr> indices) {
        return ForwardExpr(l, ToVector(indices));
      });
}

void RegisterAlgebra() {
  refl::GlobalDef()
      .def("tl.layout.Coalesce", Coalesce)
      .def("tl.layout.Composition", Composition)
      .def("tl.layout.Complement", Complement)
      .def("tl.layout.RightInverse", RightInverse)
      .def("tl.layout.LeftInverse", LeftInverse)
      .def("tl.layout.Concatenate",
           [](ffi::Array<Layout> parts) {
             return Concatenate(std::vector<Layout>(parts.begin(), parts.end()));
           })
      .def("tl.layout.LogicalProduct", LogicalProduct)
      .def("tl.layout.LogicalDivide", LogicalDivide)
      .def("tl.layout.LogicalDivideDims",
           [](Layout l, ffi::Shape tile) { return LogicalDivideDims(l, ToCoord(tile)); })
      .def("tl.layout.ZippedDivide",
           [](Layout l, ffi::Shape tile) { return ZippedDivide(l, ToCoord(tile)); })
      .def("tl.layout.TiledDivide",
           [](Layout l, ffi::Shape tile) { return TiledDivide(l, ToCoord(tile)); });
}

void RegisterFragment() {
  refl::ObjectDef<FragmentNode>(refl::init(false))
      .def_ro("thread", &FragmentNode::thread)
      .def_ro("reg", &FragmentNode::reg)
      .def_ro("replica", &FragmentNode::replica);
  refl::GlobalDef()
      .def("tl.layout.Fragment", [](Layout t, Layout r, Layout rep) { return Fragment(t, r, rep); })
      .def("tl.layout.FragmentPartition",
           [](ffi::Shape e, int64_t threads, int64_t vector) {
             return Fragment::Partition(ToCoord(e), threads, vector);
           })
      .def("tl.layout.FragmentReplicated",
           [](ffi::Shape e, int64_t threads) { return Fragment::Replicated(ToCoord(e), threads); })
      .def("tl.layout.FragmentNumThreads", [](Fragment f) { return f->NumThreads(); })
      .def("tl.layout.FragmentRegs", [](Fragment f) { return f->RegsPerThread(); })
      .def("tl.layout.FragmentReplicas", [](Fragment f) { return f->Replicas(); })
      .def("tl.layout.FragmentForward",
           [](Fragment f, ffi::Shape c, int64_t rep) {
             auto [thread, reg] = f->Forward(ToCoord(c), rep);
             return ffi::Shape({thread, reg});
           })
      .def("tl.layout.FragmentInverse", Slot)
      .def("tl.layout.FragmentInverseTable",
           [](Fragment f) { return ffi::Shape(f->InverseTable()); })
      .def("tl.layout.FragmentHasClosedInverse",
           [](Fragment f) { return InverseDigits(f).has_value(); })
      .def("tl.layout.FragmentIsBijective", [](Fragment f) { return f->IsBijective(); })
      .def("tl.layout.FragmentVectorWidth",
           [](Fragment f, int64_t dim) { return f->VectorWidth(dim); })
      .def("tl.layout.FragmentToString", [](Fragment f) { return ffi::String(f->ToString()); })
      .def("tl.layout.FragmentSameMap", [](Fragment a, Fragment b) { return a.SameMap(b); })
      .def("tl.layout.Conversion",
           [](Fragment a, Fragment b) { return static_cast<int64_t>(ConversionBetween(a, b)); });
}

void RegisterFragmentOperations() {
  refl::GlobalDef()
      .def("tl.layout.FragmentRepeat", [](Fragment f, int64_t dim, int64_t n,
                                          bool threads) { return f.Repeat(dim, n, threads); })
      .def("tl.layout.FragmentReplicate", [](Fragment f, int64_t n) { return f.Replicate(n); })
      .def("tl.layout.FragmentBindThreads",
           [](Fragment f, int64_t begin) { return f.BindThreads(begin); })
      .def("tl.layout.FragmentReduceDim",
           [](Fragment f, int64_t dim, bool keep) { return f.ReduceDim(dim, keep); })
      .def("tl.layout.FragmentCondense", [](Fragment f) { return f.CondenseRegisters(); })
      .def("tl.layout.FragmentTranspose",
           [](Fragment f, ffi::Shape axes) { return f.Transpose(ToAxes(axes)); })
      .def("tl.layout.FragmentSlice",
           [](Fragment f, ffi::Shape b, ffi::Shape e) { return f.Slice(ToCoord(b), ToCoord(e)); })
      .def("tl.layout.FragmentReshape",
           [](Fragment f, ffi::Shape e) { return f.Reshape(ToCoord(e)); })
      .def("tl.layout.FragmentExprs",
           [](Fragment f, ffi::Array<ir::Expr> c) {
             return ToArray({ThreadExpr(f, ToVector(c)), RegExpr(f, ToVector(c))});
           })
      .def("tl.layout.FragmentInverseExprs",
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
