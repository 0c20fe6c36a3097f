// Executes ldmatrix, stmatrix and movmatrix, which move matrices between shared memory and the
// registers of a warp. In memory a matrix is 8 or 16 lines of 16 bytes. As many threads give the
// addresses of the lines: with n lines, threads n * k to n * k + n - 1 give the addresses of matrix
// k. (PTX ISA, "Warp-level matrix load instruction" and the like; fragments of 8-bit elements
// follow CuTe's SM100_U8x4_STSM_T and measurements of ldmatrix.m16n16.)
#include <cstring>

#include "emulator/core/families.h"
#include "emulator/core/unwritten_marks.h"
#include "emulator/instructions/elementwise.h"
#include "emulator/instructions/matrix_line.h"
#include "emulator/instructions/memory_access.h"

namespace tilelang::emulator {
namespace {

// Says how a line of 16 bytes in memory is packed.
enum class Packing : uint8_t { kNone, kFourBits, kSixBits };

constexpr int kLineBytes = 16;
constexpr int kMaxLines = 16;
using Matrix = uint8_t[kMaxLines][kLineBytes];

struct MatrixOp {
  AddressOperand address;
  Space space = Space::kGeneric;
  int count = 1;
  LineFragment fragment = LineFragment::kRows;
  Packing packing = Packing::kNone;

  bool large() const { return fragment == LineFragment::kByteColumns; }
  int lines() const { return large() ? 16 : 8; }
  int registers() const { return large() ? 2 : 1; }  // of a matrix
  int bits() const {
    return packing == Packing::kFourBits ? 4 : packing == Packing::kSixBits ? 6 : 8;
  }
};

void ToRegister(const Matrix& matrix, LineFragment fragment, int part, uint32_t* target) {
  for (int lane = 0; lane < kLanes; ++lane) {
    uint32_t value = 0;
    for (int i = 0; i < 4; ++i) {
      const LinePlace place = LinePlaceOf(fragment, part, lane, i);
      value |= uint32_t{matrix[place.line][place.byte]} << (8 * i);
    }
    target[lane] = value;
  }
}

void FromRegister(const uint32_t* source, LineFragment fragment, int part, Matrix& matrix) {
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const LinePlace place = LinePlaceOf(fragment, part, lane, i);
      matrix[place.line][place.byte] = static_cast<uint8_t>(source[lane] >> (8 * i));
    }
  }
}

// Sixteen elements of `bits` bits, the first in the lowest ones, become the low bits of a byte
// each; the rest of the line is padding.
void Unpack(int bits, const uint8_t* packed, uint8_t* line) {
  for (int i = 0; i < kLineBytes; ++i) {
    const int at = i * bits;
    const int last = (at + bits - 1) / 8;
    const uint32_t both = packed[at / 8] | uint32_t{packed[last]} << (8 * (last - at / 8));
    line[i] = static_cast<uint8_t>((both >> (at % 8)) & ((1u << bits) - 1));
  }
}

const uint8_t* LoadedLine(Warp& w, const MatrixOp& m, int matrix, int line) {
  const int lane = m.lines() * matrix + line;
  const uint32_t data = kLineBytes * m.bits() / 8;  // padding is nobody's
  return ThreadAccess(w, lane, m.space, m.address.At(w, lane), data, kLineBytes, AccessKind::kRead);
}

Flow LoadMatrix(Warp& w, const Op& op, uint32_t mask) {
  if (Flow flow = w.Align(mask); flow != Flow::kNext) return flow;
  const MatrixOp& m = op.Extra<MatrixOp>();
  Matrix matrices[4];  // all are read first: a destination may hold addresses
  for (int k = 0; k < m.count; ++k) {
    for (int line = 0; line < m.lines(); ++line) {
      const uint8_t* memory = LoadedLine(w, m, k, line);
      if (m.packing == Packing::kNone) {
        std::memcpy(matrices[k][line], memory, kLineBytes);
      } else {
        Unpack(m.bits(), memory, matrices[k][line]);
      }
    }
  }
  for (int r = 0; r < m.count * m.registers(); ++r) {
    ToRegister(matrices[r / m.registers()], m.fragment, r % m.registers(),
               w.Reg<uint32_t>(op.slots[r]));
  }
  return Flow::kNext;
}

// Marks the bytes of a stored matrix that are of registers that nothing has written.
void MarkUnwritten(Warp& w, const Op& op, const MatrixOp& m, int matrix) {
  for (int lane = 0; lane < kLanes; ++lane) {
    const uint8_t mark = UnwrittenMark(w, op.slots[matrix], lane);
    for (int i = 0; i < 4 && mark != 0; ++i) {
      const LinePlace place = LinePlaceOf(m.fragment, 0, lane, i);
      const uint64_t line = m.address.At(w, m.lines() * matrix + place.line);
      Cta* owner = w.cta.cluster.SharedOwner(static_cast<uint32_t>(line));
      owner->shared.written(static_cast<uint32_t>(line) & 0xFFFFFF)[place.byte] = mark;
    }
  }
}

Flow StoreMatrix(Warp& w, const Op& op, uint32_t mask) {
  if (Flow flow = w.Align(mask); flow != Flow::kNext) return flow;
  const MatrixOp& m = op.Extra<MatrixOp>();
  const bool follows = w.cta.cluster.launch.observer && !w.cta.cluster.kernel().unwritten.empty();
  for (int k = 0; k < m.count; ++k) {
    Matrix matrix;
    FromRegister(w.Reg<uint32_t>(op.slots[k]), m.fragment, 0, matrix);
    for (int line = 0; line < m.lines(); ++line) {
      const int lane = m.lines() * k + line;
      StoreValue(w, lane, m.space, m.address.At(w, lane), matrix[line], kLineBytes);
    }
    if (follows) MarkUnwritten(w, op, m, k);
  }
  return Flow::kNext;
}

Flow TransposeMatrix(Warp& w, const Op& op, uint32_t mask) {
  if (Flow flow = w.Align(mask); flow != Flow::kNext) return flow;
  Matrix matrix;
  FromRegister(w.Reg<uint32_t>(op.a[1]), LineFragment::kRows, 0, matrix);
  ToRegister(matrix, LineFragment::kColumns, 0, w.Reg<uint32_t>(op.a[0]));
  return Flow::kNext;
}

void TakeAligned(Decoder& d) {
  if (!d.mods.Take("sync") || !d.mods.Take("aligned")) {
    d.Illegal("'" + d.inst.Spelling() + "' needs .sync.aligned");
  }
}

// One form of ldmatrix or stmatrix: its shape, element types and transposition.
struct MatrixForm {
  bool store;
  const char* shape;
  const char* types;  // the last components, one after the other
  bool transposed;
  int largest_count;
  LineFragment fragment;
  Packing packing = Packing::kNone;
};

constexpr MatrixForm kForms[] = {
    {false, "m8n8", "b16", false, 4, LineFragment::kRows},
    {false, "m8n8", "b16", true, 4, LineFragment::kColumns},
    {false, "m16n16", "b8", true, 2, LineFragment::kByteColumns},
    {false, "m16n16", "b8x16 b4x16_p64", true, 2, LineFragment::kByteColumns, Packing::kFourBits},
    {false, "m16n16", "b8x16 b6x16_p32", true, 2, LineFragment::kByteColumns, Packing::kSixBits},
    {false, "m8n16", "b8x16 b4x16_p64", false, 4, LineFragment::kRows, Packing::kFourBits},
    {false, "m8n16", "b8x16 b6x16_p32", false, 4, LineFragment::kRows, Packing::kSixBits},
    {true, "m8n8", "b16", false, 4, LineFragment::kRows},
    {true, "m8n8", "b16", true, 4, LineFragment::kColumns},
    {true, "m16n8", "b8", true, 4, LineFragment::kByteStore},
};

const MatrixForm& TakeForm(Decoder& d, bool store) {
  const std::string shape = d.mods.TakeOneOf({"m8n8", "m8n16", "m16n16", "m16n8"});
  const bool transposed = d.mods.Take("trans");
  std::string types = d.mods.TakeOneOf({"b16", "b8", "b8x16"});
  const std::string packed = d.mods.TakeOneOf({"b4x16_p64", "b6x16_p32"});
  if (!packed.empty()) types += " " + packed;
  for (const MatrixForm& form : kForms) {
    if (form.store == store && form.shape == shape && form.types == types &&
        form.transposed == transposed) {
      return form;
    }
  }
  d.Illegal("'" + d.inst.Spelling() + "': no such shape with this type and transposition");
}

int TakeCount(Decoder& d, const MatrixForm& form) {
  const std::string count = d.mods.TakeOneOf({"x1", "x2", "x4"});
  if (count.empty() || count[1] - '0' > form.largest_count) {
    d.Illegal("'" + d.inst.Spelling() + "' needs .x1, .x2" +
              (form.largest_count == 4 ? " or .x4" : " at most"));
  }
  return count[1] - '0';
}

void DecodeMatrix(Decoder& d, bool store) {
  TakeAligned(d);
  d.op.order = kCollective;
  const MatrixForm& form = TakeForm(d, store);
  MatrixOp m;
  m.fragment = form.fragment;
  m.packing = form.packing;
  m.count = TakeCount(d, form);
  m.space = d.mods.TakeSpace();
  if (m.space != Space::kGeneric && m.space != Space::kShared) {
    d.Illegal("'" + d.inst.Spelling() + "': matrices lie in shared memory");
  }
  m.address = d.Address(d.operand(store ? 0 : 1));
  const ptx::Operand& registers = d.operand(store ? 1 : 0);
  for (const ptx::Operand* reg : d.Vector(registers, m.count * m.registers(), "registers")) {
    d.Push(store ? d.Source(*reg, Type::kB32) : d.Destination(*reg, Type::kB32));
  }
  d.MakeExtra<MatrixOp>(m);
  d.op.handler = store ? StoreMatrix : LoadMatrix;
}

void DecodeLoadMatrix(Decoder& d) { DecodeMatrix(d, false); }
void DecodeStoreMatrix(Decoder& d) { DecodeMatrix(d, true); }

void DecodeTranspose(Decoder& d) {
  TakeAligned(d);
  if (!d.mods.Take("m8n8") || !d.mods.Take("trans") || !d.mods.Take("b16")) {
    d.Illegal("movmatrix is .m8n8.trans.b16");
  }
  PushUniform(d, Type::kB32, 1);
  d.op.handler = TransposeMatrix;
}

}  // namespace

void RegisterMatrixMove() {
  FamilyRegistry::Add("ldmatrix", DecodeLoadMatrix);
  FamilyRegistry::Add("stmatrix", DecodeStoreMatrix);
  FamilyRegistry::Add("movmatrix", DecodeTranspose);
}

}  // namespace tilelang::emulator
