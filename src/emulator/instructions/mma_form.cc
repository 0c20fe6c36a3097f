#include "emulator/instructions/mma_form.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/core/function_decoder.h"

namespace tilelang::emulator {
namespace {

// Lists the shapes that go with the type of A. Types of B with the same `group` may go with it.
struct OperandRule {
  std::string_view name;
  MatrixType type;
  int bits;  // of an element
  int group;
  std::string_view shapes;
  std::string_view d_types;
  std::string_view sparse_shapes = {};
};

constexpr int kFp8 = 3;
constexpr std::string_view kByteShapes = "m8n8k16 m16n8k16 m16n8k32";
constexpr std::string_view kNibbleShapes = "m8n8k32 m16n8k32 m16n8k64";

constexpr OperandRule kRules[] = {
    {"f16", MatrixType::kF16, 16, 0, "m8n8k4 m16n8k8 m16n8k16", "f16 f32", "m16n8k16 m16n8k32"},
    {"bf16", MatrixType::kBf16, 16, 1, "m16n8k8 m16n8k16", "f32", "m16n8k16 m16n8k32"},
    {"tf32", MatrixType::kTf32, 32, 2, "m16n8k4 m16n8k8", "f32", "m16n8k8 m16n8k16"},
    {"e4m3", MatrixType::kE4m3, 8, kFp8, "m16n8k16 m16n8k32", "f16 f32", "m16n8k64"},
    {"e5m2", MatrixType::kE5m2, 8, kFp8, "m16n8k16 m16n8k32", "f16 f32", "m16n8k64"},
    // Shapes of f64 do not depend on the type of A.
    {"f64", MatrixType::kF16, 64, 4, "m8n8k4 m16n8k4 m16n8k8 m16n8k16", "f64"},
    {"s8", MatrixType::kS8, 8, 5, kByteShapes, "s32", "m16n8k32 m16n8k64"},
    {"u8", MatrixType::kU8, 8, 5, kByteShapes, "s32", "m16n8k32 m16n8k64"},
    {"s4", MatrixType::kS4, 4, 6, kNibbleShapes, "s32", "m16n8k64 m16n8k128"},
    {"u4", MatrixType::kU4, 4, 6, kNibbleShapes, "s32", "m16n8k64 m16n8k128"},
    {"b1", MatrixType::kB1, 1, 7, "m8n8k128 m16n8k128 m16n8k256", "s32"},
};

const OperandRule& RuleOf(Decoder& d, const std::string& name) {
  for (const OperandRule& rule : kRules) {
    if (rule.name == name) return rule;
  }
  d.Unsupported("mma of ." + name);
}

bool HasWord(std::string_view words, std::string_view word) {
  for (size_t at = 0; at < words.size();) {
    const size_t end = std::min(words.find(' ', at), words.size());
    if (words.substr(at, end - at) == word) return true;
    at = end + 1;
  }
  return false;
}

std::string Spaced(std::string_view words, const char* separator) {
  std::string text;
  for (const char c : words) text += c == ' ' ? std::string(separator) : std::string(1, c);
  return text;
}

struct Layouts {
  bool a_column = false;
  bool b_row = false;
};

std::string TakeShape(Decoder& d, MultiplierShape& shape) {
  for (const std::string& name : std::vector<std::string>(d.mods.rest())) {
    if (std::sscanf(name.c_str(), "m%dn%dk%d", &shape.m, &shape.n, &shape.k) != 3) continue;
    d.mods.Take(name);
    return name;
  }
  d.Illegal("mma needs a shape, .mMnNkK");
}

Layouts TakeLayouts(Decoder& d) {
  std::vector<std::string> found;
  for (const std::string& name : std::vector<std::string>(d.mods.rest())) {
    if (name != "row" && name != "col") continue;
    found.push_back(name);
    d.mods.Take(name);
  }
  if (found.size() != 2) d.Illegal("mma needs the layouts of A and B: .row.col");
  return {found[0] == "col", found[1] == "row"};
}

void TakeBitOperation(Decoder& d, MultiplierShape& shape, bool b1) {
  const std::string operation = d.mods.TakeOneOf({"xor", "and"});
  if (d.mods.Take("popc") != b1 || operation.empty() == b1) {
    d.Illegal("mma needs .xor.popc or .and.popc for .b1, and allows them for no other type");
  }
  shape.exclusive = operation == "xor";
}

AccumulatorType AccumulatorOf(const std::string& name) {
  return name == "s32"   ? AccumulatorType::kS32
         : name == "f16" ? AccumulatorType::kF16
                         : AccumulatorType::kF32;
}

void CheckTypes(Decoder& d, const OperandRule& a, const OperandRule& b, const std::string& shape,
                const std::vector<std::string>& types, MmaSparsity sparsity) {
  const bool sparse = sparsity != MmaSparsity::kDense;
  if (a.group != b.group) {
    d.Illegal("mma does not multiply ." + std::string(a.name) + " with ." + std::string(b.name));
  }
  const std::string name = (sparse ? "mma.sp of ." : "mma of .") + std::string(a.name);
  const std::string_view shapes = sparse ? a.sparse_shapes : a.shapes;
  if (sparse && shapes.empty()) d.Illegal(name + " does not exist");
  if (!HasWord(shapes, shape)) {
    d.Illegal("the shape of " + name + " is ." + Spaced(shapes, ", .") + ", not ." + shape);
  }
  // ptxas 13 has the same rule.
  const bool f32_only =
      sparse && a.group == kFp8 &&
      (sparsity == MmaSparsity::kSparse || d.function().context().device.sm < 120);
  const std::string_view d_types = f32_only ? "f32" : a.d_types;
  if (!HasWord(d_types, types[0])) {
    d.Illegal("D of " + name + " is ." + Spaced(d_types, " or .") + ", not ." + types[0]);
  }
  const bool widens = shape == "m8n8k4" && types[0] == "f32" && types[3] == "f16";
  if (types[3] != types[0] && !widens) {
    d.Illegal("C of this mma must be ." + types[0] + " like D, not ." + types[3]);
  }
}

void PlaceFragments(MmaForm& form, const OperandRule& a, const Layouts& layouts, bool c16,
                    bool d16) {
  using L = FragmentLayout;
  MultiplierShape& shape = form.shape;
  const int accumulator = form.kind == MmaKind::kDouble ? 64 : 32;
  if (form.kind == MmaKind::kQuads) {
    form.a = {layouts.a_column ? L::kQuadAColumn : L::kQuadARow, 32, 4, 16};
    form.b = {layouts.b_row ? L::kQuadBRow : L::kQuadBColumn, 4, 32, 16};
    form.c = {c16 ? L::kQuadD16 : L::kQuadD32, 32, 8, c16 ? 16 : 32};
    form.d = {d16 ? L::kQuadD16 : L::kQuadD32, 32, 8, d16 ? 16 : 32};
    return;
  }
  const int bits = std::max(a.bits, form.a_type == MatrixType::kB1 ? 8 : 4);
  if (form.a_type == MatrixType::kB1) shape.k /= 8;
  form.a = {L::kA, shape.m, shape.k, bits};
  form.b = {L::kB, shape.lines(), shape.n, bits};
  form.c = {L::kD, shape.m, shape.n, c16 ? 16 : accumulator};
  form.d = {L::kD, shape.m, shape.n, d16 ? 16 : accumulator};
}

// The arithmetic of the unit that the device has.
void ChooseArithmetic(MmaForm& form, int sm) {
  MultiplierShape& shape = form.shape;
  const bool fp8 = form.a_type == MatrixType::kE4m3 || form.a_type == MatrixType::kE5m2;
  form.through_f16 = fp8 && sm >= 90 && sm < 120;
  shape.a_type = form.through_f16 ? MatrixType::kF16 : form.a_type;
  shape.b_type = form.through_f16 ? MatrixType::kF16 : form.b_type;
  shape.options =
      AccumulationOf(sm >= 90 ? TensorCore::kHopper : TensorCore::kAmpere, shape.a_type);
  if (form.through_f16) shape.options.sum_bytes = shape.k / 2 * ContainerBytes(shape.a_type);
}

}  // namespace

Place Fragment::At(int lane, int i) const {
  const int group = lane / 4, c = lane % 4, per = per_register();
  const int r = i / per, e = i % per;
  const int half = lane / 16, quad = 8 * (lane % 16 / 4);
  const int own = c + 4 * half;  // of eight rows or columns
  switch (layout) {
    case FragmentLayout::kA:
      return {group + 8 * (r % (rows / 8)), r / (rows / 8) * 4 * per + c * per + e};
    case FragmentLayout::kB:
      return {r * 4 * per + c * per + e, group};
    case FragmentLayout::kD:
      return {group + 8 * (i / 2), 2 * c + i % 2};
    case FragmentLayout::kQuadARow:
      return {quad + own, i};
    case FragmentLayout::kQuadAColumn:
      return {quad + i + 4 * half, c};
    case FragmentLayout::kQuadBRow:
      return {c, quad + i + 4 * half};
    case FragmentLayout::kQuadBColumn:
      return {i, quad + own};
    case FragmentLayout::kQuadD16:
      return {quad + own, i};
    case FragmentLayout::kQuadD32:
      return {quad + (lane & 1) + (i & 2) + 4 * half, (i & 4) + (lane & 2) + (i & 1)};
  }
  return {};
}

SparseOperand SparseOperandOf(MmaSparsity sparsity, int element_bits, int stored) {
  SparseOperand sparse;
  if (sparsity == MmaSparsity::kDense) return sparse;
  sparse.pattern = element_bits == 32  ? SparsePattern::kOneOfTwo
                   : element_bits == 4 ? SparsePattern::kTwoPairsOfFour
                                       : SparsePattern::kTwoOfFour;
  sparse.order = sparsity == MmaSparsity::kOrdered ? IndexOrder::kGrowing : IndexOrder::kAny;
  sparse.metadata = MetadataOfWarp(sparse.pattern, element_bits, stored);
  return sparse;
}

void TakeMetadata(Decoder& d, size_t index, SparseOperand& sparse) {
  if (d.operand(index).kind != ptx::Operand::Kind::kName) {
    d.Illegal("the metadata of mma.sp must be in a register");
  }
  sparse.slot = d.Source(d.operand(index), Type::kB32);
  const int64_t selector = d.Integer(d.operand(index + 1));
  const int selectors = sparse.metadata.selectors();
  if (selector < 0 || selector >= selectors) {
    d.Illegal("the sparsity selector is " + std::to_string(selector) + ", but " +
              std::to_string(sparse.metadata.lanes) +
              " lanes of each four hold the metadata of this mma.sp, so it must be " +
              (selectors == 1 ? "0" : "0 to " + std::to_string(selectors - 1)));
  }
  sparse.metadata.selector = static_cast<int>(selector);
}

MmaForm TakeMmaForm(Decoder& d, MmaSparsity sparsity) {
  MmaForm form;
  if (!d.mods.Take("sync") || !d.mods.Take("aligned")) d.Illegal(".sync.aligned is mandatory");
  const std::string shape = TakeShape(d, form.shape);
  const Layouts layouts = TakeLayouts(d);
  form.shape.saturate = d.mods.Take("satfinite");
  const bool b1 = d.mods.Has("b1");
  TakeBitOperation(d, form.shape, b1);
  const std::vector<std::string> types = d.mods.rest();
  if (types.size() != 4) d.Illegal("mma needs the types of D, A, B and C");
  for (const std::string& name : types) d.mods.Take(name);
  const OperandRule& a = RuleOf(d, types[1]);
  const OperandRule& b = RuleOf(d, types[2]);
  const bool sparse = sparsity != MmaSparsity::kDense;
  CheckTypes(d, a, b, shape, types, sparsity);
  if (sparse) {
    form.shape.sparse = true;
    form.shape.k /= 2;
    form.sparse = SparseOperandOf(sparsity, a.bits, form.shape.k);
  }
  form.a_type = a.type;
  form.b_type = b.type;
  form.shape.d_type = AccumulatorOf(types[0]);
  form.c_type = AccumulatorOf(types[3]);
  form.kind = a.bits == 64        ? MmaKind::kDouble
              : shape == "m8n8k4" ? MmaKind::kQuads
                                  : MmaKind::kTensor;
  if (form.kind != MmaKind::kQuads && (layouts.a_column || layouts.b_row)) {
    d.Illegal("the layouts of this mma must be .row.col");
  }
  if (form.shape.saturate && (a.d_types != "s32" || b1)) {
    d.Illegal("mma allows .satfinite only for .s8, .u8, .s4 and .u4");
  }
  ChooseArithmetic(form, d.function().context().device.sm);
  PlaceFragments(form, a, layouts, types[3] == "f16", types[0] == "f16");
  return form;
}

}  // namespace tilelang::emulator
