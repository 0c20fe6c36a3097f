#include "op/store_matrix.h"

#include <utility>

#include "layout/smem_layout.h"
#include "layout/symbolic.h"
#include "op/effect.h"
#include "target/warp.h"

namespace tilelang::op {

namespace {

constexpr int64_t kRow = 8;     // elements of a row of a matrix
constexpr int64_t kLanes = 4;   // that hold a row
constexpr int64_t kPacked = 2;  // elements of a register

// Describes a loop of the form that stmatrix may carry out.
struct MatrixStore {
  const ir::StoreNode* store;
  const ir::LoadNode* load;
  Fragment fragment;
  bool transposed = false;  // rows of the destination are columns of the registers' matrices
};

const ir::LoadNode* LoadedBy(const Expr& value) {
  const auto* cast = value.as<ir::CastNode>();
  return (cast == nullptr ? value : cast->value).as<ir::LoadNode>();
}

// Returns the access of this node.
const Access* AccessOf(const ParallelInfo& info, const ffi::Object* node) {
  for (const Access& access : info.accesses()) {
    if (access.node == node) return &access;
  }
  return nullptr;
}

// Returns whether the iterations are the elements of the fragment, in their order.
bool RunsOver(const ParallelInfo& info, const ir::LoadNode* load) {
  auto axes = info.DirectAxes(*AccessOf(info, load));
  if (!axes || axes->size() != info.extents().size()) return false;
  for (size_t d = 0; d < axes->size(); ++d) {
    if ((*axes)[d] != static_cast<int>(d)) return false;
  }
  return true;
}

std::optional<MatrixStore> Match(const ParallelInfo& info, Context* ctx) {
  const auto* store = info.loop()->body.as<ir::StoreNode>();
  bool whole_warps = ctx->threads.begin % kWarp == 0 && ctx->threads.count % kWarp == 0;
  if (!ctx->target->has_stmatrix || !whole_warps || store == nullptr) return std::nullopt;
  if (!store->buffer.IsShared() || ir::Bytes(store->buffer->dtype) != 2) return std::nullopt;
  const ir::LoadNode* load = LoadedBy(store->value);
  bool simple = load != nullptr && load->buffer.IsFragment() && info.accesses().size() == 2;
  if (!simple || !RunsOver(info, load)) return std::nullopt;
  Fragment fragment = *ctx->layouts->GetFragment(load->buffer);
  if (fragment->Replicas() != 1 || !layout::InverseDigits(fragment)) return std::nullopt;
  if (fragment->RegsPerThread() % kPacked != 0) return std::nullopt;
  return MatrixStore{store, load, fragment};
}

bool KeepsRows(const Buffer& buffer, Context* ctx) {
  auto layout = ctx->layouts->GetLayout(buffer);
  return layout::KeepsRuns(layout ? *layout : Layout::RowMajor(StaticShape(buffer)), kRow);
}

// Names the lane that holds an element of a matrix, and the half of its register.
struct Holder {
  int64_t lane;
  int64_t half;
};

Holder HolderOf(int64_t row, int64_t column, bool transposed) {
  if (transposed) std::swap(row, column);
  return {row * kLanes + column / kPacked, column % kPacked};
}

// Returns whether, in every warp, a register of all lanes is eight rows of 8 elements of the
// destination.
bool HoldsMatrices(const MatrixStore& m, const std::vector<int64_t>& destination,
                   const ThreadRange& threads) {
  const std::vector<int64_t>& slots = m.fragment->InverseTable();
  int64_t regs = m.fragment->RegsPerThread();
  int64_t end = threads.begin + threads.count;
  if (m.fragment->NumThreads() != end) return false;
  for (int64_t place = 0; place < threads.count / kWarp * regs / kPacked * kRow * kRow; ++place) {
    int64_t column = place % kRow, row = place / kRow % kRow;
    int64_t matrix = place / (kRow * kRow) % (regs / kPacked);
    int64_t warp = threads.begin + place / (kRow * kRow) / (regs / kPacked) * kWarp;
    auto element = [&](int64_t at) {
      Holder holder = HolderOf(row, at, m.transposed);
      return slots[(warp + holder.lane) * regs + matrix * kPacked + holder.half];
    };
    int64_t head = element(0), own = element(column);
    if (head < 0 || own < 0 || destination[head] % kRow != 0) return false;
    if (destination[own] != destination[head] + column) return false;
  }
  return true;
}

// Replaces the loop variables by these values, in expressions that know nothing of the loop.
Array<Expr> At(const Array<Expr>& indices, const ir::ParallelForNode* loop,
               const std::vector<Expr>& coord) {
  Map<Var, Expr> values;
  for (size_t d = 0; d < coord.size(); ++d) values.Set(loop->vars[d], coord[d]);
  Array<Expr> result;
  for (const Expr& e : indices) result.push_back(ir::Substitute(e, values));
  return result;
}

class MatrixStorer {
 public:
  MatrixStorer(const MatrixStore& m, const ir::ParallelForNode* loop, PhysicalBuffers* buffers,
               Context* ctx)
      : m_(m), loop_(loop), buffers_(buffers), ctx_(ctx), scalar_(buffers, ctx) {}

  // Stores four matrices at a time, and then the remaining ones.
  Stmt Lower() {
    int64_t matrices = m_.fragment->RegsPerThread() / kPacked;
    int64_t groups = matrices / kMost;
    std::vector<Stmt> stmts;
    if (groups > 0) {
      Var group("r", ir::dtypes::kInt32, loop_->span);
      arith::Analyzer::Scope scope(ctx_->analyzer);
      ctx_->analyzer->Bind(group, 0, I32(groups));
      stmts.push_back(ir::For(group, 0, I32(groups), ir::ForKind::kUnrolled,
                              StoreFrom(group * I32(kMost * kPacked), kMost), {}, loop_->span));
    }
    int64_t stored = groups * kMost;
    for (int64_t count = kMost / 2; count > 0; count /= 2) {
      if (matrices - stored < count) continue;
      stmts.push_back(StoreFrom(I32(stored * kPacked), count));
      stored += count;
    }
    return Sequence(stmts, loop_->span);
  }

 private:
  static constexpr int64_t kMost = 4;  // matrices of an instruction

  // Stores `count` matrices, from the register `first` on.
  Stmt StoreFrom(const Expr& first, int64_t count) {
    std::vector<Stmt> body;
    Expr registers = Packed(first, count, &body);
    Map<String, Any> attrs;
    attrs.Set("elements", kRow);
    attrs.Set(kAddressLanes, count * kRow);
    std::string name = m_.transposed ? "stmatrix_transposed<" : "stmatrix<";
    body.push_back(DeviceEffect("stmatrix.h", name + std::to_string(count) + ">",
                                {RowAddress(first, count), registers}, m_.store->span, attrs));
    return Sequence(body, loop_->span);
  }

  // Returns the address of the registers from `first` on, in the type of the destination.
  Expr Packed(const Expr& first, int64_t count, std::vector<Stmt>* stmts) {
    Buffer from = buffers_->Get(m_.load->buffer);
    ir::DType type = m_.store->buffer->dtype;
    if (from->dtype == type) return ir::AddressOf(from, {first});
    Buffer packed("packed", type, {I32(count * kPacked)}, {}, "local", {}, loop_->span);
    stmts->push_back(ir::Alloc(packed, loop_->span));
    Var element("v", ir::dtypes::kInt32, loop_->span);
    Expr value = ir::CastTo(type, ir::Load(from, {first + element}), m_.store->span);
    stmts->push_back(ir::For(element, 0, I32(count * kPacked), ir::ForKind::kUnrolled,
                             ir::Store(packed, {element}, value, m_.store->span), {}, loop_->span));
    return ir::AddressOf(packed, {I32(0)});
  }

  // Returns the address of a row. Lane l gives row l % 8 of matrix l / 8, that is, the element that
  // the first lane of the row holds.
  Expr RowAddress(const Expr& first, int64_t count) {
    const Expr& thread = ctx_->thread;
    Expr row = ir::FloorMod(thread, I32(kRow));
    Expr lane = m_.transposed ? ir::FloorDiv(row, I32(kPacked)) : row * I32(kLanes);
    Expr holder = ir::FloorDiv(thread, I32(kWarp)) * I32(kWarp) + lane;
    Expr matrix = ir::FloorMod(ir::FloorDiv(thread, I32(kRow)), I32(count));
    Expr reg = first + matrix * I32(kPacked);
    if (m_.transposed) reg = reg + ir::FloorMod(row, I32(kPacked));
    layout::SlotExprs slot =
        layout::InverseExprs(m_.fragment, holder, reg, ctx_->threads.begin + ctx_->threads.count);
    Array<Expr> indices;
    for (const Expr& e : At(m_.store->indices, loop_, slot.coord)) {
      indices.push_back(ctx_->analyzer->Simplify(scalar_.Mutate(e)));
    }
    Expr offset = buffers_->Offset(m_.store->buffer, indices, ctx_->analyzer);
    return ir::AddressOf(buffers_->Get(m_.store->buffer), {offset});
  }

  const MatrixStore& m_;
  const ir::ParallelForNode* loop_;
  PhysicalBuffers* buffers_;
  Context* ctx_;
  AccessLowerer scalar_;
};

}  // namespace

std::optional<Stmt> StoreByMatrix(const ParallelInfo& info, PhysicalBuffers* buffers,
                                  Context* ctx) {
  auto match = Match(info, ctx);
  if (!match || !KeepsRows(match->store->buffer, ctx)) return std::nullopt;
  // The beginning of the loop may be known only at run time. It must be a multiple of a row.
  std::vector<Expr> zeros(info.extents().size(), Expr(0));
  Expr corner = At({match->store->indices.back()}, info.loop(), zeros)[0];
  if (!ctx->analyzer->Divides(corner, kRow)) return std::nullopt;
  auto zero = [](const Var&) -> std::optional<int64_t> { return 0; };
  auto elements = info.TouchedElements(*AccessOf(info, match->store), zero, Outside::kUnknown);
  if (!elements) return std::nullopt;
  for (bool transposed : {false, true}) {
    match->transposed = transposed;
    if (!HoldsMatrices(*match, *elements, ctx->threads)) continue;
    return MatrixStorer(*match, info.loop(), buffers, ctx).Lower();
  }
  return std::nullopt;
}

}  // namespace tilelang::op
