#include "ir/gemm.h"

#include <algorithm>

#include "ir/error.h"
#include "ir/make_node.h"
#include "registry/functions.h"

namespace tilelang::ir {

namespace {

enum class Use { kInput, kResult, kScratch };

struct OperandRow {
  GemmOperandKind kind;
  const char* name;
  Use use;
  std::optional<GemmDim> rows;  // of a matrix
  std::optional<GemmDim> columns;
};

constexpr OperandRow kOperandRows[] = {
    {GemmOperandKind::kA, "A", Use::kInput, GemmDim::kM, GemmDim::kK},
    {GemmOperandKind::kB, "B", Use::kInput, GemmDim::kK, GemmDim::kN},
    {GemmOperandKind::kC, "C", Use::kResult, GemmDim::kM, GemmDim::kN},
    {GemmOperandKind::kScaleA, "scale_A", Use::kInput, std::nullopt, std::nullopt},
    {GemmOperandKind::kScaleB, "scale_B", Use::kInput, std::nullopt, std::nullopt},
    {GemmOperandKind::kScaleColumns, "scale_columns", Use::kScratch, std::nullopt, std::nullopt},
    {GemmOperandKind::kMetadata, "E", Use::kInput, GemmDim::kM, std::nullopt},
};

const OperandRow& RowOf(const GemmOperandNode* operand) { return kOperandRows[operand->kind]; }

}  // namespace

GemmOperand::GemmOperand(GemmOperandKind kind, Region region, bool transposed, GemmFormat format) {
  auto node = ffi::make_object<GemmOperandNode>();
  node->kind = static_cast<int64_t>(kind);
  node->region = std::move(region);
  node->transposed = transposed;
  node->format = static_cast<int64_t>(format);
  data_ = std::move(node);
}

const char* GemmOperandNode::name() const { return RowOf(this).name; }

bool GemmOperandNode::IsResult() const { return RowOf(this).use == Use::kResult; }
bool GemmOperandNode::IsScratch() const { return RowOf(this).use == Use::kScratch; }
bool GemmOperandNode::IsMatrix() const { return RowOf(this).rows.has_value(); }

std::optional<size_t> GemmOperandNode::DimAlong(GemmDim dim) const {
  const OperandRow& row = RowOf(this);
  if (!IsMatrix() || (dim != row.rows && dim != row.columns)) return std::nullopt;
  bool first = (dim == row.rows) != transposed;
  return region->extents.size() - (first ? 2 : 1);
}

Gemm::Gemm(Array<GemmOperand> operands, Expr clear_accum, Expr mbar, Map<String, Any> annotations,
           Span span, Expr k_start) {
  auto node = MakeNode<GemmNode>(std::move(span));
  node->operands = std::move(operands);
  node->clear_accum = std::move(clear_accum);
  node->mbar = std::move(mbar);
  node->annotations = std::move(annotations);
  node->k_start = std::move(k_start);
  data_ = std::move(node);
}

Gemm::Gemm(const GemmNode* op, Array<GemmOperand> operands)
    : Gemm(std::move(operands), op->clear_accum, op->mbar, op->annotations, op->span, op->k_start) {
}

const GemmOperandNode* GemmNode::Operand(GemmOperandKind kind) const {
  auto it = std::find_if(operands.begin(), operands.end(), [&](const GemmOperand& operand) {
    return operand->operand_kind() == kind;
  });
  return it == operands.end() ? nullptr : (*it).get();
}

bool GemmNode::HasScalesInTmem() const {
  return IsScaled() && Operand(GemmOperandKind::kScaleA)->buffer().IsTmem();
}

const Region& GemmNode::result() const {
  auto it = std::find_if(operands.begin(), operands.end(),
                         [](const GemmOperand& operand) { return operand->IsResult(); });
  return (*it).get()->region;
}

std::vector<const GemmOperandNode*> GemmNode::Inputs() const {
  std::vector<const GemmOperandNode*> inputs;
  for (const GemmOperand& operand : operands) {
    if (!operand->IsResult() && !operand->IsScratch()) inputs.push_back(operand.get());
  }
  return inputs;
}

bool GemmNode::HasInput(const Buffer& tile) const {
  std::vector<const GemmOperandNode*> inputs = Inputs();
  return std::any_of(inputs.begin(), inputs.end(),
                     [&](const auto* input) { return input->buffer().same_as(tile); });
}

Expr GemmNode::Depth() const {
  for (const GemmOperand& operand : operands) {
    if (auto dim = operand->DimAlong(GemmDim::kK)) return operand->region->extents[*dim];
  }
  TL_CHECK(false, span, "a gemm without K");
}

Array<GemmOperand> GemmNode::WithRegions(
    const std::function<Region(const GemmOperandNode* operand)>& region_of) const {
  Array<GemmOperand> others;
  for (const GemmOperand& operand : operands) {
    Region region = region_of(operand.get());
    bool same = region.same_as(operand->region);
    others.push_back(same ? operand
                          : GemmOperand(operand->operand_kind(), region, operand->transposed,
                                        operand->element_format()));
  }
  return others;
}

bool ClearsFirst(const GemmNode* gemm, const ForNode* loop) {
  if (IsTrue(gemm->clear_accum)) return true;
  const auto* eq = gemm->clear_accum.as<BinaryNode>();
  if (loop == nullptr || eq == nullptr || eq->Op() != BinaryOp::kEq) return false;
  bool left = eq->a.same_as(loop->var);
  bool right = eq->b.same_as(loop->var);
  const Expr& value = left ? eq->b : eq->a;
  if (left == right) return false;
  return value.same_as(loop->min) || (AsInt(value) && AsInt(value) == AsInt(loop->min));
}

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = ffi::reflection;
  refl::ObjectDef<GemmOperandNode>()
      .def_ro("kind", &GemmOperandNode::kind)
      .def_ro("region", &GemmOperandNode::region)
      .def_ro("transposed", &GemmOperandNode::transposed)
      .def_ro("format", &GemmOperandNode::format);
  refl::ObjectDef<GemmNode>()
      .def_ro("operands", &GemmNode::operands)
      .def_ro("clear_accum", &GemmNode::clear_accum)
      .def_ro("mbar", &GemmNode::mbar)
      .def_ro("annotations", &GemmNode::annotations)
      .def_ro("k_start", &GemmNode::k_start);
  registry::Functions()
      .Add("tl.ir.GemmOperand",
           [](int64_t kind, Region region, bool transposed, int64_t format) {
             return GemmOperand(static_cast<GemmOperandKind>(kind), region, transposed,
                                static_cast<GemmFormat>(format));
           })
      .Add("tl.ir.Gemm", [](Array<GemmOperand> operands, Expr clear_accum, Expr mbar,
                            Map<String, Any> notes, Span s, Expr k_start) {
        return Gemm(operands, clear_accum, mbar, notes, s, k_start);
      });
}

}  // namespace tilelang::ir
