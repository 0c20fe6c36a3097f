// mma.sync with .kind::: operands of eight, six and four bits, with scale factors or without.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/core/function_decoder.h"
#include "emulator/instructions/mma_form.h"
#include "emulator/instructions/mma_kind.h"
#include "emulator/instructions/mma_registers.h"
#include "emulator/numerics/scaled_multiplier.h"

namespace tilelang::emulator {
namespace {

struct NarrowType {
  std::string_view name;
  MatrixType type;
};

constexpr NarrowType kNarrowTypes[] = {
    {"e4m3", MatrixType::kE4m3}, {"e5m2", MatrixType::kE5m2}, {"e2m3", MatrixType::kE2m3},
    {"e3m2", MatrixType::kE3m2}, {"e2m1", MatrixType::kE2m1},
};

// Lists the forms as ptxas accepts them: kind, vector of scale factors (a vector that ends with a
// blank may be left out), types of scale factors.
struct KindForm {
  std::string_view kind;
  std::string_view vector;
  bool optional;
  int count;  // scale factors of a row
  std::string_view scale_types;
};

constexpr KindForm kKindForms[] = {
    {"mxf8f6f4", "scale_vec::1X", true, 1, "ue8m0"},
    {"mxf4", "scale_vec::2X", true, 2, "ue8m0"},
    {"mxf4nvf4", "scale_vec::2X", false, 2, "ue8m0"},
    {"mxf4nvf4", "scale_vec::4X", false, 4, "ue8m0 ue4m3"},
};

// Says where the scale factors of an operand are: a word of each lane, and which bytes and threads
template <typename Multiplier>
void SetOperands(Warp& w, const Op& op, const KindMma& form, Multiplier& multiplier) {
  const bool nibbles = form.a.bits == 4;
  const MatrixType a_type = form.scaled.a_type, b_type = form.scaled.b_type;
  multiplier.StartA();
  ForEachElement(w, form.A(op), form.a, [&](int row, int k, uint32_t bits) {
    multiplier.SetA(row, k, nibbles ? bits : FromContainer(a_type, bits));
  });
  ForEachElement(w, form.B(op), form.b, [&](int k, int column, uint32_t bits) {
    multiplier.SetB(column, k, nibbles ? bits : FromContainer(b_type, bits));
  });
  if (form.scaled.sparse) {
    ForEachPlace(w, form.sparse, form.scaled.k,
                 [&](int row, int k, int place) { multiplier.SetPlace(row, k, place); });
  }
}

template <typename Multiplier>
void MultiplyRows(Warp& w, const Op& op, const KindMma& form, Multiplier& multiplier) {
  uint32_t cells[kScaledRows][kScaledColumns];
  ForEachElement(w, form.C(op), form.d,
                 [&](int row, int column, uint32_t bits) { cells[row][column] = bits; });
  for (int row = 0; row < kScaledRows; ++row) {
    multiplier.Row(row, 0, kScaledColumns, true, cells[row]);
  }
  SetEachElement(w, op.slots, form.d, [&](int row, int column) { return cells[row][column]; });
}

void RunKind(Warp& w, const Op& op) {
  const KindMma& form = op.Extra<KindMma>();
  if (!form.has_scales) {
    thread_local MatrixMultiplier multiplier;
    multiplier.Start(form.plain);
    SetOperands(w, op, form, multiplier);
    return MultiplyRows(w, op, form, multiplier);
  }
  thread_local ScaledMultiplier multiplier;
  multiplier.Start(form.scaled);
  SetOperands(w, op, form, multiplier);
  VisitFactors(w, form, form.scale_a, true,
               [&](int row, int j, uint8_t code, FactorPlace) { multiplier.ScaleA(row, j, code); });
  VisitFactors(w, form, form.scale_b, false, [&](int column, int j, uint8_t code, FactorPlace) {
    multiplier.ScaleB(column, j, code);
  });
  MultiplyRows(w, op, form, multiplier);
}

MatrixType TakeNarrowType(Decoder& d, const std::string& name, bool fp4) {
  for (const NarrowType& row : kNarrowTypes) {
    if (row.name == name && (!fp4 || row.type == MatrixType::kE2m1)) return row.type;
  }
  d.Illegal("mma of this kind does not multiply ." + name +
            (fp4 ? ": both types must be .e2m1"
                 : ": the types must be .e4m3, .e5m2, .e2m3, .e3m2 or .e2m1"));
}

// The form by its kind and vector; null for kind::f8f6f4.
const KindForm* TakeKindForm(Decoder& d) {
  const std::string kind = d.mods.TakePrefix("kind::");
  const bool scaled = d.mods.Take("block_scale");
  const std::string vector = d.mods.TakePrefix("scale_vec::");
  if (kind == "f8f6f4" && !scaled && vector.empty()) return nullptr;
  const KindForm* found = nullptr;
  for (const KindForm& form : kKindForms) {
    if (form.kind != kind) continue;
    found = &form;
    const bool named = !vector.empty() && form.vector == "scale_vec::" + vector;
    if (scaled && (named || (vector.empty() && form.optional))) return &form;
  }
  if (!found) {
    d.Illegal("mma needs kind::f8f6f4, or with .block_scale kind::mxf8f6f4, mxf4 or mxf4nvf4");
  }
  if (!scaled) d.Illegal("mma with kind::" + kind + " needs .block_scale");
  d.Illegal("mma with kind::" + kind + " allows the scale vectors " +
            (kind == "mxf4nvf4" ? "2X and 4X"
             : kind == "mxf4"   ? "2X"
                                : "1X") +
            (vector.empty() ? "" : ", not " + vector));
}

void TakeShapeAndLayouts(Decoder& d, int depth) {
  const std::string shape = "m16n8k" + std::to_string(depth);
  if (!d.mods.Take(shape)) d.Illegal("the shape of mma of this kind must be ." + shape);
  if (!d.mods.Take("row") || !d.mods.Take("col")) {
    d.Illegal("the layouts of mma of this kind must be .row.col");
  }
}

// Types of D, A, B, C and of scale factors.
void TakeTypes(Decoder& d, const KindForm* kind, bool fp4, KindMma& form) {
  const std::vector<std::string> types = d.mods.rest();
  if (types.size() != (kind ? 5 : 4)) {
    d.Illegal(kind ? "mma with .block_scale needs the types of D, A, B, C and scale factors"
                   : "mma needs the types of D, A, B and C");
  }
  for (const std::string& name : types) d.mods.Take(name);
  const bool half = !kind && types[0] == "f16";
  if (types[0] != types[3] || (types[0] != "f32" && !half)) {
    d.Illegal(std::string("C and D of mma of this kind must both be .f32") +
              (kind ? "" : ", or both .f16"));
  }
  form.d_type = half ? AccumulatorType::kF16 : AccumulatorType::kF32;
  form.scaled.a_type = TakeNarrowType(d, types[1], fp4);
  form.scaled.b_type = TakeNarrowType(d, types[2], fp4);
  if (!kind) return;
  if (kind->scale_types.find(types[4]) == std::string_view::npos) {
    d.Illegal("scale factors of mma with kind::" + std::string(kind->kind) + " and ." +
              std::string(kind->vector) + " must be .ue8m0" +
              (kind->count == 4 ? " or .ue4m3" : "") + ", not ." + types[4]);
  }
  form.scaled.scale_type = types[4] == "ue8m0" ? ScaleType::kUe8m0 : ScaleType::kUe4m3;
}

void CheckConstantId(Decoder& d, const ptx::Operand& operand, const char* name, int limit,
                     int step) {
  if (operand.kind != ptx::Operand::Kind::kInteger) return;
  const int64_t value = static_cast<int64_t>(operand.bits);
  if (value >= 0 && value < limit && value % step == 0) return;
  d.Illegal(std::string(name) + " is " + std::to_string(value) + ", not a multiple of " +
            std::to_string(step) + " below " + std::to_string(limit));
}

// A register of scale factors and {byte id, thread id}.
void TakeScales(Decoder& d, size_t index, bool of_a, const KindMma& form, ScaleSlots& slots) {
  if (d.operand(index).kind != ptx::Operand::Kind::kName) {
    d.Illegal("the scale factors of mma must be in a register");
  }
  slots.word = d.Source(d.operand(index), Type::kB32);
  const auto ids = d.Vector(d.operand(index + 1), 2, "ids of scale factors");
  const int threads = of_a ? 2 : 4;
  CheckConstantId(d, *ids[0], of_a ? "byte-id-a" : "byte-id-b", 4, form.scaled.blocks);
  CheckConstantId(d, *ids[1], of_a ? "thread-id-a" : "thread-id-b", threads, 1);
  slots.byte_id = d.Source(*ids[0], Type::kU16);
  slots.thread_id = d.Source(*ids[1], Type::kU16);
}

}  // namespace

bool HasMmaKind(const Decoder& d) {
  const auto& names = d.mods.rest();
  return d.mods.Has("block_scale") || std::any_of(names.begin(), names.end(), [](const auto& name) {
           return name.starts_with("kind::");
         });
}

void DecodeMmaOfKind(Decoder& d, MmaSparsity sparsity) {
  KindMma& form = d.MakeExtra<KindMma>();
  d.op.flags = kHasMmaKind;
  if (!d.mods.Take("sync") || !d.mods.Take("aligned")) d.Illegal(".sync.aligned is mandatory");
  const KindForm* kind = TakeKindForm(d);
  const bool fp4 = kind && kind->kind != "mxf8f6f4";
  const bool sparse = sparsity != MmaSparsity::kDense;
  if (sparsity == MmaSparsity::kSparse) {
    d.Illegal("mma.sp with .kind:: must be mma.sp::ordered_metadata");
  }
  const int depth = fp4 ? 64 : 32;  // that A stores
  TakeShapeAndLayouts(d, sparse ? 2 * depth : depth);
  TakeTypes(d, kind, fp4, form);
  form.has_scales = kind != nullptr;
  form.scaled.m = kScaledRows;
  form.scaled.n = kScaledColumns;
  form.scaled.k = depth;
  form.scaled.blocks = kind ? kind->count : 1;
  form.scaled.fp4 = fp4;
  form.scaled.sparse = sparse;
  form.plain = {kScaledRows,        kScaledColumns,     depth,
                form.scaled.a_type, form.scaled.b_type, form.d_type};
  form.plain.options = AccumulationOf(TensorCore::kBlackwell, form.scaled.a_type);
  form.plain.sparse = sparse;
  const int bits = fp4 ? 4 : 8;
  form.sparse = SparseOperandOf(sparsity, bits, depth);
  form.a = {FragmentLayout::kA, kScaledRows, depth, bits};
  form.b = {FragmentLayout::kB, form.scaled.lines(), kScaledColumns, bits};
  const bool half = form.d_type == AccumulatorType::kF16;
  form.d = {FragmentLayout::kD, kScaledRows, kScaledColumns, half ? 16 : 32};
  const Type accumulator = half ? Type::kB32 : Type::kF32;
  PushRegisters(d, 0, "D", form.d, accumulator);
  PushRegisters(d, 1, "A", form.a, Type::kB32);
  PushRegisters(d, 2, "B", form.b, Type::kB32);
  PushRegisters(d, 3, "C", form.d, accumulator);
  if (sparse) TakeMetadata(d, 4, form.sparse);
  if (kind) {
    const size_t next = sparse ? 6 : 4;
    TakeScales(d, next, true, form, form.scale_a);
    TakeScales(d, next + 2, false, form, form.scale_b);
  }
  d.op.handler = Multiply<RunKind>;
}

}  // namespace tilelang::emulator
