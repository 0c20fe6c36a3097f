#include "verify/operands.h"

#include <string>
#include <string_view>

#include "ir/intrinsics.h"
#include "ir/visitor.h"
#include "verify/operation.h"

namespace tilelang::verify {

using ir::Expr;

namespace {

constexpr uint32_t kAll = ~0U;
constexpr int64_t kRowBytes = 16;  // of a row that ldmatrix or stmatrix moves
constexpr int64_t kScaleBytes = 4;

// Describes the accesses of a function. Bit i of a mask stands for argument i.
struct Function {
  uint32_t reads = 0;
  uint32_t writes = 0;
  uint32_t tmem_reads = 0;
  uint32_t tmem_writes = 0;
  int64_t bytes = 0;  // at each address; 0: any
  bool atomic = false;
  bool for_warp = false;
};

constexpr uint32_t Bit(int argument) { return uint32_t{1} << argument; }

// Lists device functions and intrinsics, by name without `tl::` and template arguments.
const std::unordered_map<std::string_view, Function>& Functions() {
  static const std::unordered_map<std::string_view, Function> table = {
      // Arguments: (target, source, bytes, ...)
      {"cp_async", {.reads = Bit(1), .writes = Bit(0)}},
      {"cp_async_ordered", {.reads = Bit(1), .writes = Bit(0)}},
      // Arguments: (map, barrier, target, ...) of loads; (map, source, ...) of stores
      {"tma_load", {.writes = Bit(2)}},
      {"tma_load_multicast", {.writes = Bit(2)}},
      {"tma_load_pair", {.writes = Bit(2)}},
      {"tma_load_gather4", {.writes = Bit(2)}},
      {"tma_store", {.reads = Bit(1)}},
      {"tma_store_add", {.reads = Bit(1)}},
      // Arguments: (registers, row) of ldmatrix; (row, registers) of stmatrix
      {"ldmatrix", {.reads = Bit(1), .writes = Bit(0), .bytes = kRowBytes, .for_warp = true}},
      {"ldmatrix_padded",
       {.reads = Bit(1), .writes = Bit(0), .bytes = kRowBytes, .for_warp = true}},
      {"load_scales", {.reads = Bit(1), .writes = Bit(0), .bytes = kScaleBytes}},
      {"stmatrix", {.reads = Bit(1), .writes = Bit(0), .bytes = kRowBytes}},
      {"stmatrix_transposed", {.reads = Bit(1), .writes = Bit(0), .bytes = kRowBytes}},
      // Arguments: (slot, columns)
      {"tcgen05_alloc", {.writes = Bit(0)}},
      // Arguments: (d, a, b, instruction, ...)
      {"tcgen05_mma_ss", {.reads = Bit(1) | Bit(2), .tmem_writes = Bit(0)}},
      {"tcgen05_mma_ts", {.reads = Bit(2), .tmem_reads = Bit(1), .tmem_writes = Bit(0)}},
      {"tcgen05_mma_ws_ss", {.reads = Bit(1) | Bit(2), .tmem_writes = Bit(0)}},
      {"tcgen05_mma_scaled_ss",
       {.reads = Bit(1) | Bit(2), .tmem_reads = Bit(4) | Bit(5), .tmem_writes = Bit(0)}},
      {"tcgen05_mma_scaled_ts",
       {.reads = Bit(2), .tmem_reads = Bit(1) | Bit(4) | Bit(5), .tmem_writes = Bit(0)}},
      {"tcgen05_cp", {.reads = Bit(1), .tmem_writes = Bit(0)}},
      {"tcgen05_load", {.writes = Bit(1), .tmem_reads = Bit(0)}},
      // Argument 0 is the answer of cluster launch control.
      {"clc_ask", {.writes = Bit(0)}},
      {"clc_is_canceled", {.reads = Bit(0)}},
      {"clc_get_first_ctaid_x", {.reads = Bit(0)}},
      {"clc_get_first_ctaid_y", {.reads = Bit(0)}},
      {"clc_get_first_ctaid_z", {.reads = Bit(0)}},
      {"atomic_load", {.reads = Bit(0), .atomic = true}},
      {"atomic_store", {.writes = Bit(0), .atomic = true}},
      // A descriptor is address arithmetic and touches no memory.
      {"matrix_descriptor", {}},
  };
  return table;
}

Function FunctionOf(std::string_view name, bool is_wgmma) {
  // The accumulators, and A in registers, are accesses of registers and not of memory.
  if (is_wgmma) return {.reads = kAll};
  auto known = Functions().find(name);
  if (known != Functions().end()) return known->second;
  if (name.starts_with("tcgen05_st_")) return {.reads = Bit(1), .tmem_writes = Bit(0)};
  if (name.starts_with("atomic_")) return {.reads = Bit(0), .writes = Bit(0), .atomic = true};
  return {.reads = kAll, .writes = kAll};
}

// Returns the number of elements of an atomic operation: atomic_addx4 adds four.
int64_t ElementsOfAtomic(std::string_view name) {
  return name.ends_with("x2") ? 2 : name.ends_with("x4") ? 4 : 1;
}

// Returns how many lanes name addresses: stmatrix<n> takes the addresses of n matrices of eight
// rows.
int64_t LanesOf(std::string_view full_name, std::string_view name) {
  if (!name.starts_with("stmatrix")) return 0;
  size_t open = full_name.find('<');
  return open == std::string_view::npos ? 0 : 8 * (full_name[open + 1] - '0');
}

int64_t ElementsAt(const ir::CallNode* call, std::string_view name, const Function& function,
                   const ir::Buffer& buffer) {
  if (function.atomic) return ElementsOfAtomic(name);
  int64_t bytes = function.bytes;
  if (name.starts_with("cp_async")) bytes = ir::AsInt(call->args[2]).value_or(0);
  return bytes / ir::Bytes(buffer->dtype);
}

}  // namespace

OperandReader::OperandReader(const ir::KernelLaunchNode* launch) {
  ir::WalkStmts(launch->body, [&](const ir::Stmt& s) {
    if (const auto* op = s.as<ir::BindNode>()) values_.emplace(op->var.get(), op->value);
    return true;
  });
}

const ir::LoadNode* OperandReader::AddressIn(const Expr& e) const {
  const ir::LoadNode* found = nullptr;
  ir::WalkExprs(e, [&](const Expr& part) {
    if (found == nullptr) found = ir::AddressedElement(part);
    auto value = values_.find(part.get());
    if (found == nullptr && value != values_.end()) found = AddressIn(value->second);
    return found == nullptr;
  });
  return found;
}

std::vector<Operand> OperandReader::Of(const ir::CallNode* call) const {
  std::vector<Operand> operands;
  if (call->Is(ir::Builtin::kAddressOf)) return operands;
  std::string_view full_name(call->name.data(), call->name.size());
  std::string_view name = BaseName(full_name);
  bool is_wgmma = OperationOf(call).kind == OperationKind::kWgmma;
  Function function = FunctionOf(name, is_wgmma);
  for (size_t i = 0; i < call->args.size(); ++i) {
    auto has = [&](uint32_t mask) { return i < 32 && (mask >> i & 1) != 0; };
    Operand operand{static_cast<int>(i)};
    if (has(function.tmem_reads) || has(function.tmem_writes)) {
      operand.reads = has(function.tmem_reads);
      operand.writes = has(function.tmem_writes);
      operands.push_back(operand);
      continue;
    }
    operand.reads = has(function.reads);
    operand.writes = has(function.writes);
    if (!operand.reads && !operand.writes) continue;
    const Expr& arg = call->args[i];
    const ir::LoadNode* address = ir::AddressedElement(arg);
    bool descriptor = address == nullptr && arg.dtype() == ir::dtypes::kUInt64;
    const ir::LoadNode* element = descriptor ? AddressIn(arg) : address;
    if (element == nullptr || (is_wgmma && !descriptor)) continue;
    operand.buffer = element->buffer;
    operand.atomic = function.atomic;
    if (!descriptor && element->indices.size() == 1) operand.index = element->indices[0];
    operand.elements = descriptor ? 0 : ElementsAt(call, name, function, element->buffer);
    operand.for_warp = function.for_warp;
    operand.lanes = LanesOf(full_name, name);
    operands.push_back(operand);
  }
  return operands;
}

}  // namespace tilelang::verify
