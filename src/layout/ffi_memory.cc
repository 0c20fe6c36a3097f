// Registers the functions of shared-memory and tensor-memory layouts for Python.
#include <tvm/ffi/reflection/registry.h>

#include "layout/matrix_operand.h"
#include "layout/smem_layout.h"
#include "layout/tmem_copy.h"
#include "layout/tmem_cp.h"
#include "registry/functions.h"

namespace tilelang::layout {

namespace refl = tvm::ffi::reflection;

namespace {

MmaForm ToForm(int64_t cta_group, bool weight_stationary, int64_t lane_alignment) {
  return {cta_group, weight_stationary, lane_alignment};
}

TmemCopyOptions ToOptions(int64_t thread_begin, int64_t num_threads, int64_t max_repeat,
                          bool may_clobber) {
  return {thread_begin, num_threads, max_repeat, may_clobber};
}

/*! [name, lanes, bits, regs, columns, max_repeat] of every atom. */
ffi::Array<ffi::Any> AtomTable() {
  ffi::Array<ffi::Any> rows;
  for (int i = 0; i < kNumTmemShapes; ++i) {
    const TmemAtom& atom = GetTmemAtom(static_cast<TmemShape>(i));
    rows.push_back(ffi::Array<ffi::Any>{ffi::String(atom.name), atom.lanes, atom.bits, atom.regs,
                                        atom.columns, atom.max_repeat});
  }
  return rows;
}

ffi::Shape AtomCell(ffi::String name, int64_t thread, int64_t reg, int64_t half, bool pack) {
  TmemCell cell = TmemCellOf(FindTmemAtom(name), thread, reg, half, pack);
  return ffi::Shape({cell.lane, cell.column});
}

/*! A fragment, or the reason why there is none. */
ffi::Any FragmentOrReason(const TmemFragment& found) {
  if (found.fragment) return *found.fragment;
  return ffi::String(found.reason);
}

void RegisterShared() {
  registry::Functions()
      .Add("tl.layout.Swizzled",
           [](ffi::Shape e, int64_t bits, int64_t bytes, int64_t atomicity) {
             return SwizzledLayout(ToCoord(e), bits, bytes, atomicity);
           })
      .Add("tl.layout.Operand",
           [](ffi::Shape e, int64_t bits, bool k_major) {
             return ffi::Optional<Layout>(OperandLayout(ToCoord(e), bits, k_major));
           })
      .Add("tl.layout.WidestSwizzle",
           [](ffi::Shape e, int64_t bits) { return WidestSwizzle(ToCoord(e), bits); })
      .Add("tl.layout.Padded",
           [](ffi::Shape e, int64_t pad) { return PaddedLayout(ToCoord(e), pad); })
      .Add(
          "tl.layout.BankCycles",
          [](ffi::Shape addresses, int64_t bytes) { return BankCycles(ToCoord(addresses), bytes); })
      .Add("tl.layout.MatrixOperand",
           [](Layout l, int64_t bits, bool k_major) {
             MatrixOperandResult found = DescribeMatrixOperand(l, bits, k_major);
             if (!found.operand) return ffi::Any(ffi::String(found.reason));
             const MatrixOperand& o = *found.operand;
             return ffi::Any(
                 ffi::Shape({o.swizzle_bytes, o.leading_bytes, o.stride_bytes, o.atomicity_bytes}));
           })
      .Add("tl.layout.PlainByteOffset",
           [](Layout l, int64_t bits, ffi::Shape coord) {
             return PlainByteOffset(l, bits, ToCoord(coord));
           })
      .Add("tl.layout.SharedAccessCost", [](Layout l, Fragment f, int64_t bits, int64_t vector) {
        SharedCost cost = SharedAccessCost(l, f, bits, vector);
        return ffi::Shape({cost.cycles, cost.ideal});
      });
}

void RegisterTmem() {
  refl::ObjectDef<TmemLayoutNode>(refl::init(false))
      .def_ro("lane", &TmemLayoutNode::lane)
      .def_ro("bit", &TmemLayoutNode::bit)
      .def_ro("copies", &TmemLayoutNode::copies)
      .def_ro("element_bits", &TmemLayoutNode::element_bits);
  registry::Functions()
      .Add("tl.layout.TmemAtoms", AtomTable)
      .Add("tl.layout.TmemCell", AtomCell)
      .Add("tl.layout.Tmem", [](Layout lane, Layout bit, int64_t bits,
                                Layout copies) { return TmemLayout(lane, bit, bits, copies); })
      .Add("tl.layout.TmemAccumulator",
           [](int64_t m, int64_t n, int64_t bits, int64_t group, bool ws, int64_t align) {
             return AccumulatorLayout(m, n, bits, ToForm(group, ws, align));
           })
      .Add("tl.layout.TmemOperandA",
           [](int64_t m, int64_t k, int64_t bits, int64_t group, bool ws, int64_t align) {
             return OperandALayout(m, k, bits, ToForm(group, ws, align));
           })
      .Add("tl.layout.TmemColumns", [](TmemLayout t) { return t->Columns(); })
      .Add("tl.layout.TmemIsUnpacked", [](TmemLayout t) { return t->IsUnpacked(); })
      .Add("tl.layout.TmemToString", [](TmemLayout t) { return ffi::String(t->ToString()); })
      .Add("tl.layout.TmemSlice",
           [](TmemLayout t, ffi::Shape b, ffi::Shape e) { return t.Slice(ToCoord(b), ToCoord(e)); })
      .Add("tl.layout.TmemReshape",
           [](TmemLayout t, ffi::Shape e) { return t.Reshape(ToCoord(e)); })
      .Add("tl.layout.TmemStaged", [](TmemLayout t, int64_t n) { return t.Staged(n); });
}

void RegisterTmemCopy() {
  refl::ObjectDef<TmemInstructionNode>()
      .def_ro("repeat", &TmemInstructionNode::repeat)
      .def_ro("lane", &TmemInstructionNode::lane)
      .def_ro("column", &TmemInstructionNode::column)
      .def_ro("reg", &TmemInstructionNode::reg)
      .def_ro("num_regs", &TmemInstructionNode::num_regs);
  refl::ObjectDef<TmemCopyPlanNode>()
      .def_ro("shape", &TmemCopyPlanNode::shape)
      .def_ro("name", &TmemCopyPlanNode::name)
      .def_ro("pack", &TmemCopyPlanNode::pack)
      .def_ro("half_offset", &TmemCopyPlanNode::half_offset)
      .def_ro("first_column", &TmemCopyPlanNode::first_column)
      .def_ro("warpgroup_columns", &TmemCopyPlanNode::warpgroup_columns)
      .def_ro("warps", &TmemCopyPlanNode::warps)
      .def_ro("instructions", &TmemCopyPlanNode::instructions);
  registry::Functions()
      .Add("tl.layout.PlanToString",
           [](TmemCopyPlan plan) { return ffi::String(plan->ToString()); })
      .Add("tl.layout.PlanTmemCopy",
           [](TmemLayout tmem, Fragment fragment, bool store, int64_t thread_begin,
              int64_t num_threads, int64_t max_repeat, bool may_clobber,
              ffi::Optional<Fragment> whole) {
             auto options = ToOptions(thread_begin, num_threads, max_repeat, may_clobber);
             if (whole) options.whole = (*whole).get();
             TmemCopyPlans found = PlanTmemCopy(
                 tmem, fragment, store ? TmemDirection::kStore : TmemDirection::kLoad, options);
             ffi::Array<ffi::Any> result;
             for (const TmemCopyPlan& plan : found.plans) result.push_back(plan);
             if (found.plans.empty()) result.push_back(ffi::String(found.reason));
             return result;
           })
      .Add("tl.layout.TmemFragmentForShape",
           [](TmemLayout tmem, ffi::String shape, int64_t thread_begin, int64_t num_threads) {
             return FragmentOrReason(FragmentForShape(
                 tmem, FindTmemAtom(shape).shape, ToOptions(thread_begin, num_threads, 64, false)));
           })
      .Add("tl.layout.TmemNaturalFragment",
           [](TmemLayout tmem, bool store, int64_t thread_begin, int64_t num_threads) {
             return FragmentOrReason(
                 NaturalTmemFragment(tmem, ToOptions(thread_begin, num_threads, 64, false),
                                     store ? TmemDirection::kStore : TmemDirection::kLoad));
           })
      .Add("tl.layout.TmemNearestFragment", [](TmemLayout tmem, Fragment fragment, bool store,
                                               int64_t thread_begin, int64_t num_threads) {
        return FragmentOrReason(NearestTmemFragment(
            tmem, fragment, store ? TmemDirection::kStore : TmemDirection::kLoad,
            ToOptions(thread_begin, num_threads, 64, false)));
      });
}

/*! [shape, column, bytes] of each instruction, or the reason why there is none. */
ffi::Array<ffi::Any> TmemCpTable(TmemLayout tmem, Layout shared, ffi::Shape begin) {
  TmemCpPlan plan = PlanTmemCp(tmem, shared, ToCoord(begin));
  if (!plan.reason.empty()) return {ffi::String(plan.reason)};
  ffi::Array<ffi::Any> rows;
  for (const TmemCpInstruction& inst : plan.instructions) {
    rows.push_back(
        ffi::Array<ffi::Any>{ffi::String(GetTmemCpAtom(inst.shape).name), inst.column, inst.bytes});
  }
  return rows;
}

TVM_FFI_STATIC_INIT_BLOCK() {
  registry::Functions().Add("tl.layout.PlanTmemCp", TmemCpTable);
  RegisterShared();
  RegisterTmem();
  RegisterTmemCopy();
}

}  // namespace

}  // namespace tilelang::layout
