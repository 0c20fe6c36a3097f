// ldmatrix, stmatrix, movmatrix: 8x8 matrices of 16-bit elements between shared memory and the
// registers of a warp. Thread t holds the two elements (row t/4, columns 2*(t%4) and the next); the
// addresses of matrix k's rows come from threads 8k to 8k+7.
#include <cstring>
#include <utility>

#include "emulator/core/families.h"
#include "emulator/instructions/elementwise.h"

namespace tilelang::emulator {
namespace {

struct MatrixOp {
  AddressOperand address;
  Space space = Space::kGeneric;
  int count = 1;
  bool transposed = false;
};

using Matrix = uint16_t[8][8];

// Element (row, column) of what thread `lane` holds as its part `half`.
void Position(int lane, int half, bool transposed, int* row, int* column) {
  *row = lane / 4;
  *column = 2 * (lane % 4) + half;
  if (transposed) std::swap(*row, *column);
}

void ToRegister(const Matrix& matrix, bool transposed, uint32_t* target) {
  for (int lane = 0; lane < kLanes; ++lane) {
    uint32_t value = 0;
    for (int half = 0; half < 2; ++half) {
      int row, column;
      Position(lane, half, transposed, &row, &column);
      value |= uint32_t{matrix[row][column]} << (16 * half);
    }
    target[lane] = value;
  }
}

void FromRegister(const uint32_t* source, bool transposed, Matrix* matrix) {
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int half = 0; half < 2; ++half) {
      int row, column;
      Position(lane, half, transposed, &row, &column);
      (*matrix)[row][column] = static_cast<uint16_t>(source[lane] >> (16 * half));
    }
  }
}

uint8_t* RowAddress(Warp& w, const MatrixOp& m, int matrix, int row, AccessKind kind) {
  int lane = 8 * matrix + row;
  return ThreadAccess(w, lane, m.space, m.address.At(w, lane), 16, 16, kind);
}

Flow LoadMatrix(Warp& w, const Op& op, uint32_t mask) {
  if (Flow flow = w.Align(mask); flow != Flow::kNext) return flow;
  const MatrixOp& m = op.Extra<MatrixOp>();
  Matrix matrices[4];  // all are read first: a destination may hold addresses
  for (int k = 0; k < m.count; ++k) {
    for (int row = 0; row < 8; ++row) {
      std::memcpy(matrices[k][row], RowAddress(w, m, k, row, AccessKind::kRead), 16);
    }
  }
  for (int k = 0; k < m.count; ++k) {
    ToRegister(matrices[k], m.transposed, w.Reg<uint32_t>(op.slots[k]));
  }
  return Flow::kNext;
}

Flow StoreMatrix(Warp& w, const Op& op, uint32_t mask) {
  if (Flow flow = w.Align(mask); flow != Flow::kNext) return flow;
  const MatrixOp& m = op.Extra<MatrixOp>();
  for (int k = 0; k < m.count; ++k) {
    Matrix matrix;
    FromRegister(w.Reg<uint32_t>(op.slots[k]), m.transposed, &matrix);
    for (int row = 0; row < 8; ++row) {
      std::memcpy(RowAddress(w, m, k, row, AccessKind::kWrite), matrix[row], 16);
    }
  }
  return Flow::kNext;
}

Flow TransposeMatrix(Warp& w, const Op& op, uint32_t mask) {
  if (Flow flow = w.Align(mask); flow != Flow::kNext) return flow;
  Matrix matrix;
  FromRegister(w.Reg<uint32_t>(op.a[1]), false, &matrix);
  ToRegister(matrix, true, w.Reg<uint32_t>(op.a[0]));
  return Flow::kNext;
}

void RequireAligned(Decoder& d) {
  if (!d.mods.Take("sync") || !d.mods.Take("aligned") || !d.mods.Take("m8n8")) d.Unsupported();
}

void DecodeMatrix(Decoder& d, bool store) {
  RequireAligned(d);
  d.op.order = kCollective;
  MatrixOp m;
  std::string count = d.mods.TakeOneOf({"x1", "x2", "x4"});
  if (count.empty()) d.Illegal("'" + d.inst.Spelling() + "' needs .x1, .x2 or .x4");
  m.count = count[1] - '0';
  m.transposed = d.mods.Take("trans");
  m.space = d.mods.TakeSpace();
  if (!d.mods.Take("b16")) d.Unsupported();
  m.address = d.Address(d.operand(store ? 0 : 1));
  auto registers = d.Elements(d.operand(store ? 1 : 0));
  if (static_cast<int>(registers.size()) != m.count) {
    d.Illegal("'" + d.inst.Spelling() + "' with " + std::to_string(registers.size()) +
              " registers");
  }
  for (const ptx::Operand* reg : registers) {
    d.Push(store ? d.Source(*reg, Type::kB32) : d.Destination(*reg, Type::kB32));
  }
  d.MakeExtra<MatrixOp>(m);
  d.op.handler = store ? StoreMatrix : LoadMatrix;
}

void DecodeLoadMatrix(Decoder& d) { DecodeMatrix(d, false); }
void DecodeStoreMatrix(Decoder& d) { DecodeMatrix(d, true); }

void DecodeTranspose(Decoder& d) {
  RequireAligned(d);
  if (!d.mods.Take("trans") || !d.mods.Take("b16")) d.Unsupported();
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
