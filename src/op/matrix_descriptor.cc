#include "op/matrix_descriptor.h"

#include <algorithm>
#include <vector>

#include "ir/printer.h"
#include "layout/symbolic.h"
#include "op/access.h"
#include "op/effect.h"
#include "op/gemm_umma.h"

namespace tilelang::op {

namespace {

constexpr int64_t kRowGroup = 8;    // after which K-major operands repeat
constexpr int64_t kKBytes = 32;     // of one instruction
constexpr int64_t kWidthStep = 8;   // of N
constexpr int64_t kMaxWidth = 256;  // likewise

// Returns the width of `count` instructions, or 0 if there is none.
int64_t CoverWith(int64_t count, int64_t n, int64_t unit,
                  const std::function<bool(int64_t)>& is_width) {
  int64_t equal = n / count;
  bool begins = count == 1 || equal % unit == 0;
  if (n % count == 0 && begins && is_width(equal)) return equal;
  for (int64_t width = kMaxWidth; width * count > n; width -= kWidthStep) {
    int64_t rest = n - width * (count - 1);
    if (width % unit == 0 && is_width(width) && is_width(rest)) return width;
  }
  return 0;
}

}  // namespace

std::pair<int64_t, int64_t> MatrixExtents(const Region& region, const Span& span) {
  Coord extents = StaticExtents(region->extents, "the extents of a T.gemm operand", span);
  return {extents[extents.size() - 2], extents.back()};
}

layout::MatrixOperandResult DescribeOperand(const Buffer& buffer, const Layout& layout,
                                            bool mn_major) {
  Coord extents = StaticShape(buffer);
  Coord matrix(extents.end() - 2, extents.end());
  std::fill(extents.begin(), extents.end() - 2, 1);
  Layout tile = layout.Slice(Coord(extents.size(), 0), extents).Reshape(matrix);
  return layout::DescribeMatrixOperand(tile, buffer->dtype.bits, !mn_major);
}

int64_t UnitAlongMn(const Buffer& buffer, const Layout& layout, bool mn_major) {
  if (!mn_major) return kRowGroup;
  return DescribeOperand(buffer, layout, mn_major).operand->swizzle_bytes * 8 / buffer->dtype.bits;
}

std::string CornerProblem(const Region& region, const Layout& layout, bool mn_major,
                          arith::Analyzer* analyzer) {
  size_t rank = region->mins.size();
  const Expr& row = region->mins[rank - 2];
  const Expr& column = region->mins[rank - 1];
  int64_t bytes = region->buffer->dtype.bits / 8;
  int64_t atom = DescribeOperand(region->buffer, layout, mn_major).operand->swizzle_bytes / bytes;
  int64_t along = mn_major ? atom : std::min<int64_t>(atom, kKBytes / bytes);
  int64_t width = *ir::AsInt(region->extents[rank - 1]);
  bool begins = analyzer->Divides(row, kRowGroup) && analyzer->Divides(column, along);
  // A K slice that begins inside an atom must also end there.
  bool inside = analyzer->Divides(column, atom) ||
                (atom % width == 0 && analyzer->Divides(column, width)) ||
                (ir::AsInt(column) && *ir::AsInt(column) % atom + width <= atom);
  if (begins && inside) return "";
  std::string period = std::to_string(atom);
  std::string start = "a column that is a multiple of " + period;
  if (along < atom) {
    start +=
        ", or of " + std::to_string(along) + " if it also ends by the next multiple of " + period;
  }
  return "slice " + ir::Print(region) + " must begin at a row that is a multiple of " +
         std::to_string(kRowGroup) + " and at " + start +
         ": the swizzle of the tile repeats after " + period +
         " columns, and one descriptor walks the slice in equal steps; other slices can be "
         "copied to a tile of their own";
}

int64_t WidestCover(int64_t n, int64_t unit, const std::function<bool(int64_t)>& is_width) {
  for (int64_t count = 1; count <= n / kWidthStep; ++count) {
    if (int64_t width = CoverWith(count, n, unit, is_width)) return width;
  }
  return 0;
}

uint64_t SharedDescriptor(const layout::MatrixOperand& operand, DescriptorFormat format) {
  auto encode = [](int64_t bytes) { return static_cast<uint64_t>((bytes & 0x3FFFF) >> 4); };
  int64_t swizzle = operand.swizzle_bytes;
  uint64_t code = swizzle == 128 ? 2 : swizzle == 64 ? 4 : swizzle == 32 ? 6 : 0;
  if (operand.atomicity_bytes == 32) code = 1;
  uint64_t version = format == DescriptorFormat::kWgmma ? 0 : 1;
  bool absolute = format == DescriptorFormat::kTcgen05Long;
  uint64_t leading = absolute ? uint64_t{1} << 52 : encode(operand.leading_bytes) << 16;
  return leading | encode(operand.stride_bytes) << 32 | version << 46 | code << 61;
}

Expr DescriptorAt(const Expr& address, const layout::MatrixOperand& operand,
                  DescriptorFormat format) {
  Map<String, Any> attrs;
  attrs.Set("header", String("matrix_descriptor.h"));
  attrs.Set("reads", Array<Buffer>());  // takes the address, touches nothing
  return ir::Call(ir::dtypes::kUInt64, "tl::matrix_descriptor",
                  {address, U64(SharedDescriptor(operand, format))}, attrs);
}

Map<String, Any> ReadsOfOperands(const std::vector<Region>& operands, const Lowering& lowering) {
  Array<Buffer> reads;
  Array<int64_t> extents;
  for (const Region& region : operands) {
    const Buffer& buffer = region->buffer;
    if (!buffer.IsShared()) continue;
    reads.push_back(lowering.buffers->Get(buffer));
    Coord shape = StaticShape(buffer);
    int64_t matrices = layout::Product(Coord(shape.begin(), shape.end() - 2));
    extents.push_back((*lowering.ctx->layouts->GetLayout(buffer))->Cosize() / matrices);
  }
  Map<String, Any> attrs;
  attrs.Set("reads", reads);
  attrs.Set("extents", extents);
  return attrs;
}

SharedOperand::SharedOperand(const Region& region, bool mn_major, DescriptorFormat format,
                             const char* name, const Lowering& lowering, const Span& span,
                             const OperandPart& part)
    : region_(region),
      mn_major_(mn_major),
      format_(format),
      layout_(*lowering.ctx->layouts->GetLayout(region->buffer)),
      descriptor_(name, ir::dtypes::kUInt64, span) {
  layout::MatrixOperand operand = *DescribeOperand(region->buffer, layout_, mn_major).operand;
  arith::Analyzer* analyzer = lowering.ctx->analyzer;
  std::vector<Expr> corner;
  for (const Expr& min : region->mins) {
    corner.push_back(analyzer->Simplify(lowering.scalar->Mutate(min)));
  }
  Expr offset = analyzer->Simplify(layout::ForwardExpr(layout_, corner));
  Expr address = ir::AddressOf(lowering.buffers->Get(region->buffer), {offset});
  Expr descriptor = DescriptorAt(address, operand, format);
  if (part.index.defined()) {
    descriptor = descriptor + ir::CastTo(ir::dtypes::kUInt64, part.index) * Step(part.size, 0);
  }
  bind_ = ir::Bind(descriptor_, descriptor, span);
}

Expr SharedOperand::At(int64_t mn, int64_t k) const {
  Expr at = descriptor_ + Step(mn, k);
  return format_ == DescriptorFormat::kTcgen05Long ? at + NextBuffer(mn, k) : at;
}

// Rows that end in their own buffer need no next buffer, so any address will do.
Expr SharedOperand::NextBuffer(int64_t mn, int64_t k) const {
  constexpr int64_t kAddress = 0x3FFF;
  int64_t buffer = k / kLongBufferBytes * kLongBufferBytes;
  bool goes_on = k + kLongRowBytes > buffer + kLongBufferBytes;
  Expr step = Step(mn, goes_on ? buffer + kLongBufferBytes : buffer);
  Expr start = ir::MakeBinary(ir::BinaryOp::kBitAnd, descriptor_, U64(kAddress));
  return ir::MakeBinary(ir::BinaryOp::kShl, start + step, U64(16));
}

Expr SharedOperand::Step(int64_t mn, int64_t k) const {
  Coord coord(region_->mins.size(), 0);
  size_t rank = coord.size();
  coord[rank - 2] = mn_major_ ? k : mn;
  coord[rank - 1] = mn_major_ ? mn : k;
  int64_t bytes = layout::PlainByteOffset(layout_, region_->buffer->dtype.bits, coord);
  return U64(static_cast<uint64_t>(bytes >> 4));
}

}  // namespace tilelang::op
