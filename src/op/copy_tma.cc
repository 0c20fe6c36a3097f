#include "op/copy_tma.h"

#include <limits>
#include <numeric>

#include "ir/padded.h"
#include "ir/printer.h"
#include "layout/smem_layout.h"
#include "op/copy.h"
#include "op/copy_cluster.h"
#include "target/warp.h"

namespace tilelang::op {

bool IsTmaLoad(const ir::CopyNode* op) { return op->src->buffer.IsGlobal(); }
const Region& GlobalSide(const ir::CopyNode* op) { return IsTmaLoad(op) ? op->src : op->dst; }
const Region& SharedSide(const ir::CopyNode* op) { return IsTmaLoad(op) ? op->dst : op->src; }

namespace {

constexpr int64_t kMaxRank = 5;
// CUDA driver API, cuTensorMapEncodeTiled: boxes of 4-bit and 6-bit elements in padded units begin
// at multiples of 128 elements and have 128 of them, and strides are multiples of 32 bytes.
constexpr int64_t kPaddedBox = 128;
constexpr int64_t kPaddedAlign = 32;
constexpr int64_t kMajorOfPaddedMaps = 10;

int64_t PaddedBits(const ir::CopyNode* op) {
  const ir::SmallFloat* type = ir::PaddedType(op);
  return type != nullptr ? type->bits : 0;
}
constexpr int64_t kMaxBoxExtent = 256;
constexpr int64_t kGlobalAlign = 16;   // bytes, of strides and of a box's rows
constexpr int64_t kSharedAlign = 128;  // bytes, of a box in shared memory
constexpr int64_t kAtomRows = 8;       // of a swizzle pattern
// Below this size the latency of TMA outweighs the threads' instructions, unless the load runs
// ahead.
constexpr int64_t kMinTileBytes = 1024;
constexpr int64_t kMaxBoxes = 32;
// Bounds the boxes of one long row, which threads would load in as many instructions each. A tile
// of several rows has fewer boxes in another layout.
constexpr int64_t kMaxLongBoxes = 128;
constexpr int64_t kLongBoxBytes = 512;
constexpr int64_t kGatheredRows = 4;  // of tile::gather4

bool HasTensorMapType(ir::DType type) {
  using namespace ir::dtypes;  // NOLINT(google-build-using-namespace)
  if (type.lanes != 1) return false;
  if (type.bits == 8) return true;
  for (ir::DType known : {kUInt16, kInt16, kUInt32, kInt32, kUInt64, kInt64, kFloat16, kFloat32,
                          kFloat64, kBFloat16}) {
    if (type == known) return true;
  }
  return false;
}

std::string StrideObstacle(const Buffer& buffer, int64_t align, Context* ctx) {
  Array<Expr> strides = buffer.Strides();
  if (!ctx->analyzer->CanProve(ir::MakeEq(strides.back(), ir::Const(strides.back().dtype(), 1)))) {
    return "the last dimension of " + std::string(buffer->name) + " is not contiguous";
  }
  int64_t bytes = ir::Bytes(buffer->dtype);
  int64_t elements = align / std::gcd(align, bytes);
  for (size_t d = 0; d + 1 < strides.size(); ++d) {
    if (ir::AsInt(strides[d]).value_or(1) <= 0) {
      return "stride " + ir::Print(strides[d]) + " of dimension " + std::to_string(d) + " of " +
             std::string(buffer->name) + " is not positive";
    }
    if (ctx->analyzer->Divides(strides[d], elements)) continue;
    return "stride " + ir::Print(strides[d]) + " of dimension " + std::to_string(d) + " of " +
           std::string(buffer->name) + " is not known to be a multiple of " +
           std::to_string(align) + " bytes";
  }
  return "";
}

// Returns why TMA cannot copy padded elements of a tensor whose last dimension counts bytes.
std::string PaddedObstacle(const ir::CopyNode* op, Context* ctx) {
  int64_t bits = PaddedBits(op);
  if (bits == 0) return "";
  std::string types = "there are tensor maps of padded elements of " + std::to_string(bits) +
                      " bits from sm_100 on";
  if (ctx->target->major < kMajorOfPaddedMaps) return types;
  if (!IsTmaLoad(op)) return "it does not store padded tiles";
  const Region& global = GlobalSide(op);
  int64_t step = kPaddedBox * bits / 8;
  for (const auto& [what, bytes] :
       {std::pair("the last extent of " + std::string(global->buffer->name),
                  global->buffer->shape.back()),
        {"its first column", global->mins.back()},
        {"its number of columns", global->extents.back()}}) {
    if (ctx->analyzer->Divides(bytes, step)) continue;
    return what + " is not known to be a multiple of " + std::to_string(kPaddedBox) +
           " elements of " + std::to_string(bits) + " bits";
  }
  return "";
}

// Returns whether an index is not negative. Sums and products of such numbers are none beyond 2^31
// either: there is no tensor that has elements there.
bool IsNotNegative(const Expr& index, arith::Analyzer* analyzer) {
  if (analyzer->CanProveNonNegative(index)) return true;
  const auto* pair = index.as<ir::BinaryNode>();
  bool grows = pair && (pair->Op() == ir::BinaryOp::kAdd || pair->Op() == ir::BinaryOp::kMul);
  return grows && IsNotNegative(pair->a, analyzer) && IsNotNegative(pair->b, analyzer);
}

// Returns why the corner of the region does not suit TMA. Coordinates are signed 32-bit numbers,
// and the coordinates of a store must not be negative.
std::string CornerObstacle(const ir::CopyNode* op, Context* ctx) {
  const Region& global = GlobalSide(op);
  // Hopper raises an illegal instruction for boxes elsewhere, for loads and for each element size.
  // A program that asks for TMA vouches for what is known only when it runs.
  int64_t step = kGlobalAlign / ir::Bytes(global->buffer->dtype);
  auto vouched = [&](const Expr& min) {
    return op->options->call_kind() == ir::CopyCall::kTmaCopy && !ir::AsInt(min);
  };
  if (!vouched(global->mins.back()) && !ctx->analyzer->Divides(global->mins.back(), step)) {
    return "index " + ir::Print(global->mins.back()) +
           " of the last dimension is not known to be " + "a multiple of 16 bytes";
  }
  for (const Expr& min : global->mins) {
    arith::Interval bounds = ctx->analyzer->ConstBounds(min);
    bool fits = min.dtype().bits <= 32 || vouched(min) ||
                (bounds.lo >= std::numeric_limits<int32_t>::min() &&
                 bounds.hi <= std::numeric_limits<int32_t>::max());
    if (!fits) return "index " + ir::Print(min) + " may not fit in 32 bits";
    if (!IsTmaLoad(op) && !IsNotNegative(min, ctx->analyzer)) {
      return "index " + ir::Print(min) + " of a store may be negative";
    }
  }
  return "";
}

std::string ShapeObstacle(const ir::CopyNode* op, const Context& ctx) {
  const Region& global = GlobalSide(op);
  if (global->extents.size() > kMaxRank) return "the tensor has more than five dimensions";
  MovingDims from = Moving(global);
  MovingDims to = Moving(SharedSide(op));
  auto extents = ir::AsInts(from.extents);
  if (!extents || !ir::AsInts(to.extents)) return "its extents are not constants";
  Coord of_tile = *ir::AsInts(to.extents);
  if (PaddedBits(op) != 0 && !of_tile.empty()) of_tile.back() = of_tile.back() * PaddedBits(op) / 8;
  if (from.dims.size() != to.dims.size() || *extents != of_tile) {
    return "the two regions differ in shape";
  }
  if (from.dims.empty() || from.dims.back() + 1 != global->extents.size()) {
    return "it does not move along the last dimension of " + std::string(global->buffer->name);
  }
  int64_t bytes = ir::Bytes(global->buffer->dtype);
  if (extents->back() * bytes % kGlobalAlign != 0) {
    return "its rows of " + std::to_string(extents->back() * bytes) +
           " bytes are no multiple of 16 bytes";
  }
  bool small_too = (ctx.pipelined && IsTmaLoad(op)) || AsyncCopyName(op) != nullptr;
  if (!small_too && layout::Product(*extents) * bytes < kMinTileBytes) {
    return "it moves less than " + std::to_string(kMinTileBytes) + " bytes";
  }
  return "";
}

// Describes where the elements of a shared buffer lie: in atom columns of `atom` elements, side by
// side, each with all rows. Row-major order is a single atom column. The swizzle permutes chunks
// within 8 rows.
struct Storage {
  int64_t atom = 0;     // elements
  int64_t swizzle = 0;  // bytes
  int64_t atomicity = layout::kChunkBytes;
  Coord strides;  // of each dimension, in elements; of the last one inside the atom: 1
};

Storage MakeStorage(const Coord& shape, int64_t atom, int64_t swizzle) {
  Storage storage{atom, swizzle, layout::kChunkBytes, Coord(shape.size(), 1)};
  int64_t stride = atom;
  for (size_t d = shape.size() - 1; d-- > 0;) {
    storage.strides[d] = stride;
    // Dimensions beyond the rows step over all atom columns.
    stride *= shape[d];
    if (d + 2 == shape.size()) stride = stride / atom * shape.back();
  }
  return storage;
}

// Returns whether two layouts are the same map. Layouts that differ in their swizzle count as
// different, without a look at every element.
bool Same(const Layout& a, const Layout& b) {
  if (!a->IsTable() && !b->IsTable() && a->GetSwizzle() != b->GetSwizzle()) return false;
  return a.SameMap(b);
}

// Returns the storage of a layout that SwizzledLayout makes with these widths, if `layout` is one.
std::optional<Storage> SwizzledStorage(const Buffer& buffer, const Layout& layout, int64_t bytes,
                                       int64_t atomicity) {
  Coord shape = StaticShape(buffer);
  int64_t bits = buffer->dtype.bits;
  bool one_column = shape.size() == 2 && shape.back() * bits == bytes * 8;
  bool fits = shape.size() > 1 && shape.back() * bits % (bytes * 8) == 0 &&
              (one_column || shape[shape.size() - 2] % kAtomRows == 0);
  if (!fits || !Same(layout, layout::SwizzledLayout(shape, bits, bytes, atomicity))) {
    return std::nullopt;
  }
  Storage storage = MakeStorage(shape, bytes * 8 / bits, bytes == 16 ? 0 : bytes);
  storage.atomicity = atomicity;
  return storage;
}

std::optional<Storage> StorageOf(const Buffer& buffer, const std::optional<Layout>& layout,
                                 const Target& target) {
  Coord shape = StaticShape(buffer);
  if (!layout || Same(*layout, Layout::RowMajor(shape))) {
    return MakeStorage(shape, shape.back(), 0);
  }
  for (int64_t bytes : {128, 64, 32, 16}) {
    auto storage = SwizzledStorage(buffer, *layout, bytes, layout::kChunkBytes);
    if (storage) return storage;
  }
  if (!target->has_swizzle_atomicity) return std::nullopt;
  return SwizzledStorage(buffer, *layout, 128, 32);
}

// Returns the largest divisor of `extent` that a box may have. It is a multiple of `step` if
// `extent` is one.
int64_t BoxExtent(int64_t extent, int64_t step) {
  if (extent <= kMaxBoxExtent) return extent;
  for (int64_t e = kMaxBoxExtent; e > 1; --e) {
    if (extent % e == 0 && (e % step == 0 || extent % step != 0)) return e;
  }
  return 1;
}

// Returns the multiple at which a box may begin in dimension d of a shared buffer: 128 bytes.
int64_t StepOf(const Buffer& shared, const Storage& storage, size_t d) {
  size_t rank = shared->shape.size();
  if (d + 1 == rank && storage.atom < StaticShape(shared).back()) return storage.atom;
  int64_t bytes = storage.strides[d] * ir::Bytes(shared->dtype);
  return kSharedAlign / std::gcd(kSharedAlign, bytes);
}

// Returns whether the rows of a region begin a swizzle pattern, or lie in one. A swizzle depends on
// the address alone, so that several copies may fill a pattern.
bool KeepsPattern(const Region& shared, arith::Analyzer* analyzer) {
  size_t d = shared->mins.size() - 2;
  const Expr& row = shared->mins[d];
  if (analyzer->Divides(row, kAtomRows)) return true;
  int64_t rows = *ir::AsInt(shared->extents[d]);
  if (auto first = ir::AsInt(row)) return *first % kAtomRows + rows <= kAtomRows;
  return kAtomRows % rows == 0 && analyzer->Divides(row, rows);
}

std::string AlignmentObstacle(const ir::CopyNode* op, const Storage& storage, const TmaBoxes& boxes,
                              Context* ctx) {
  const Region& shared = SharedSide(op);
  for (size_t d = 0; d < shared->mins.size(); ++d) {
    int64_t step = StepOf(shared->buffer, storage, d);
    if (ctx->analyzer->Divides(shared->mins[d], step)) continue;
    return "region " + ir::Print(shared) + " does not begin at a multiple of " +
           std::to_string(step) + " in dimension " + std::to_string(d);
  }
  if (storage.swizzle > 0 && !KeepsPattern(shared, ctx->analyzer)) {
    return "the rows of region " + ir::Print(shared) +
           " neither begin at a multiple of 8 nor lie in one group of 8 rows";
  }
  MovingDims from = Moving(GlobalSide(op));
  MovingDims to = Moving(shared);
  for (size_t i = 0; i < to.dims.size(); ++i) {
    size_t g = from.dims[i];
    int64_t step = StepOf(shared->buffer, storage, to.dims[i]);
    if (boxes.counts[g] > 1 && boxes.box[g] % step != 0) {
      return "its boxes would not be aligned to 128 bytes of shared memory";
    }
  }
  return "";
}

TmaBoxes Refused(std::string reason) {
  TmaBoxes boxes;
  boxes.reason = std::move(reason);
  return boxes;
}

TmaBoxes Cut(const ir::CopyNode* op, const Storage& storage, Context* ctx) {
  const Region& global = GlobalSide(op);
  const Region& shared = SharedSide(op);
  MovingDims from = Moving(global);
  MovingDims to = Moving(shared);
  Coord extents = *ir::AsInts(to.extents);
  size_t last = shared->mins.size() - 1;
  if (to.dims.back() != last) return Refused("it does not move along the last shared dimension");
  TmaBoxes boxes{Coord(global->mins.size(), 1),
                 Coord(global->mins.size(), 1),
                 storage.swizzle,
                 storage.atomicity,
                 PaddedBits(op),
                 ""};
  int64_t dense = 1;  // elements that one box covers without a gap so far
  for (size_t i = extents.size(); i-- > 0;) {
    size_t d = to.dims[i];
    int64_t extent = extents[i];
    int64_t& box = boxes.box[from.dims[i]];
    if (d == last) {
      int64_t row = std::min(extent, storage.atom);
      if (extent % row != 0) return Refused("its rows end inside an atom of the shared layout");
      if (storage.swizzle > 0 && row != storage.atom) {
        return Refused("its rows are shorter than an atom of the shared layout");
      }
      box = boxes.padded_bits != 0 ? std::min(row, kPaddedBox) : BoxExtent(row, 1);
      if (boxes.padded_bits != 0 && (box != kPaddedBox || extent % box != 0)) {
        return Refused("the shared layout has no rows of 128 padded elements");
      }
    } else if (storage.strides[d] == dense) {
      box = BoxExtent(extent, d + 1 == last ? kAtomRows : 1);
    }
    boxes.counts[from.dims[i]] = extent / box;
    dense *= box;
  }
  bool is_long = layout::Product(boxes.counts) == boxes.counts.back() &&
                 boxes.box.back() * ir::Bytes(shared->buffer->dtype) >= kLongBoxBytes;
  if (layout::Product(boxes.counts) > (is_long ? kMaxLongBoxes : kMaxBoxes)) {
    return Refused("it would take " + std::to_string(layout::Product(boxes.counts)) + " boxes");
  }
  int64_t row_bytes = boxes.box.back() * ir::Bytes(shared->buffer->dtype);
  if (row_bytes % kGlobalAlign != 0) return Refused("its boxes' rows are no multiple of 16 bytes");
  if (!op->rows.empty() && boxes.box[boxes.box.size() - 2] != kGatheredRows) {
    return Refused("the shared layout does not have its four rows one after the other");
  }
  boxes.reason = AlignmentObstacle(op, storage, boxes, ctx);
  return boxes;
}

// Returns why cp.reduce.async.bulk.tensor cannot do the copy.
std::string SumObstacle(const ir::CopyNode* op) {
  ir::DType type = op->dst->buffer->dtype;
  bool adds = op->Adds();
  for (ir::DType known : {ir::dtypes::kFloat32, ir::dtypes::kInt32, ir::dtypes::kUInt32}) {
    adds = adds && type != known;
  }
  return adds ? "it would add " + ir::ToString(type) : "";
}

// Returns why TMA cannot, or should not, do the copy, as far as the two regions tell.
std::string TmaObstacle(const ir::CopyNode* op, Context* ctx) {
  const Buffer& global = GlobalSide(op)->buffer;
  if (op->options->disable_tma) return "disable_tma is set";
  if (op->options->loop_layout.defined()) return "loop_layout maps it to threads";
  if (op->src->buffer->dtype != op->dst->buffer->dtype) return "it converts the element type";
  if (!HasTensorMapType(global->dtype)) {
    return "there are no tensor maps of " + ir::ToString(global->dtype);
  }
  bool wanted = AsyncCopyName(op) != nullptr || op->options->prefer_tma;
  bool alone = ctx->threads.count == 1 && wanted;
  if (!alone && (ctx->threads.begin % kWarp != 0 || ctx->threads.count % kWarp != 0)) {
    return "the threads that reach it are not whole warps";
  }
  int64_t align = PaddedBits(op) != 0 ? kPaddedAlign : kGlobalAlign;
  for (const std::string& reason :
       {PaddedObstacle(op, ctx), SumObstacle(op), ShapeObstacle(op, *ctx),
        StrideObstacle(global, align, ctx), CornerObstacle(op, ctx)}) {
    if (!reason.empty()) return reason;
  }
  return "";
}

// Cuts the copy into boxes as if the shared buffer had this layout (none: row-major).
TmaBoxes CutIntoBoxes(const ir::CopyNode* op, const std::optional<Layout>& layout, Context* ctx) {
  const Buffer& shared = SharedSide(op)->buffer;
  auto storage = StorageOf(shared, layout, ctx->target);
  if (storage) return Cut(op, *storage, ctx);
  return Refused("shared buffer " + std::string(shared->name) + " has layout " +
                 (*layout)->ToString() + ", which no box of a tensor map has");
}

class TmaInstruction : public TileInstruction {
 public:
  explicit TmaInstruction(Engine engine) : engine_(engine) {}

  const char* Name() const override { return "TMA"; }
  Engine engine() const override { return engine_; }

  bool IsFor(const ir::TileOpNode* op) const override {
    if (op->kind != ir::StmtKind::kCopy || AsCopy(op)->block.defined()) return false;
    const Buffer& src = AsCopy(op)->src->buffer;
    const Buffer& dst = AsCopy(op)->dst->buffer;
    return engine_ == Engine::kTmaLoad
               ? src.IsGlobal() && dst.IsShared()
               : src.IsShared() && dst.IsGlobal() && !AsCopy(op)->mbar.defined();
  }
  std::string Obstacle(const ir::TileOpNode* op, Context* ctx) const override {
    return TmaObstacle(AsCopy(op), ctx);
  }
  bool Accepts(const ir::TileOpNode* op, const Buffer& buffer, const Layout& layout,
               Context* ctx) const override {
    if (!SharedSide(AsCopy(op))->buffer.same_as(buffer)) return true;
    return CutIntoBoxes(AsCopy(op), layout, ctx).reason.empty();
  }
  PlanResult MakePlan(const ir::TileOpNode* op, Context* ctx) const override {
    const Region& shared = SharedSide(AsCopy(op));
    TmaBoxes boxes = CutIntoBoxes(AsCopy(op), ctx->layouts->GetLayout(shared->buffer), ctx);
    if (!boxes.reason.empty()) {
      const char* name = AsyncCopyName(AsCopy(op));
      std::string prefix = name == nullptr ? "" : std::string(name) + ": ";
      return {TilePlan(), prefix + boxes.reason};
    }
    auto plan = ffi::make_object<TmaPlanNode>(this, ctx->threads);
    // An mbarrier counts the bytes that padded elements have in the tensor.
    int64_t bits = boxes.padded_bits != 0 ? boxes.padded_bits : shared->buffer->dtype.bits;
    plan->bytes = layout::Product(boxes.box) * layout::Product(boxes.counts) * bits / 8;
    plan->boxes = std::move(boxes);
    return {TilePlan(std::move(plan)), ""};
  }
  Alternative Otherwise(const ir::TileOpNode* op, Context* ctx) const override {
    const ir::CopyNode* copy = AsCopy(op);
    if (AsyncCopyName(copy) != nullptr) return {};
    std::vector<Stmt> stmts = {ExpandCopy(copy)};
    if (copy->mbar.defined()) HandOver(copy, *ctx, &stmts);
    return {Sequence(stmts, op->span), "is done by threads after all"};
  }
  void Issue(const ir::TileOpNode* op, Lowering* lowering,
             std::vector<Stmt>* stmts) const override {
    IssueTma(AsCopy(op), lowering, stmts);
  }

 private:
  // Lets one thread arrive for all threads of its warp, which have stored the tile: the one that
  // would ask TMA for it.
  static void HandOver(const ir::CopyNode* copy, const Context& ctx, std::vector<Stmt>* stmts) {
    stmts->push_back(ir::Fence(ir::FenceKind::kAsyncProxy, copy->span));
    stmts->push_back(ir::Barrier(ir::BarrierKind::kWarp, copy->span));
    if (!copy->options->arrives) return;
    ir::Arrive::Options options;
    if (CompletesAtLeader(copy, ctx.in_pairs)) {
      options.block = PairLeader();
      options.scope = ir::Scope::kPair;
    }
    ir::Arrive arrive(ir::ArriveKind::kThread, copy->mbar, copy->span, options);
    stmts->push_back(ByOneThread(arrive, ctx, copy->span));
  }

  Engine engine_;
};

}  // namespace

const TileInstruction* TmaLoad() {
  static const TmaInstruction instruction(Engine::kTmaLoad);
  return &instruction;
}
const TileInstruction* TmaStore() {
  static const TmaInstruction instruction(Engine::kTmaStore);
  return &instruction;
}

const TmaPlanNode* TmaPlanOf(const ir::TileOpNode* op) {
  return static_cast<const TmaPlanNode*>(op->plan.get());
}

}  // namespace tilelang::op
