#include "op/shared_layout.h"

#include <bit>
#include <numeric>

#include "layout/smem_layout.h"
#include "op/vectorize.h"
#include "target/warp.h"

namespace tilelang::op {

namespace {

using Slots = std::vector<std::vector<int64_t>>;  // [register][lane]

// Returns the element that each thread of the loop's first warp touches with each of its registers,
// or -1.
Slots FirstWarp(const Fragment& loop, const std::vector<int64_t>& elements) {
  Slots slots(loop->RegsPerThread(), std::vector<int64_t>(kWarp, -1));
  int64_t first = loop->thread->offset;
  for (size_t i = 0; i < elements.size(); ++i) {
    int64_t lane = loop->thread->At(static_cast<int64_t>(i)) - first;
    if (lane < 0 || lane >= kWarp) continue;
    slots[loop->reg->At(static_cast<int64_t>(i))][lane] = elements[i];
  }
  return slots;
}

// Returns whether registers [begin, begin + width) of every thread are one aligned run of the
// layout.
bool IsRun(const Slots& slots, const Layout& layout, size_t begin, int64_t width) {
  if (begin + width > slots.size()) return false;
  for (int64_t lane = 0; lane < kWarp; ++lane) {
    if (slots[begin][lane] < 0) continue;
    int64_t base = layout->At(slots[begin][lane]);
    if (base % width != 0) return false;
    for (int64_t k = 1; k < width; ++k) {
      int64_t element = slots[begin + k][lane];
      if (element < 0 || layout->At(element) != base + k) return false;
    }
  }
  return true;
}

// Returns the bank cycles of an access under a layout, with vectors of `width` elements where they
// lie in runs, and element by element elsewhere.
int64_t Cycles(const Slots& slots, const Layout& layout, int64_t bits, int64_t width) {
  int64_t cycles = 0;
  for (size_t r = 0; r < slots.size();) {
    int64_t step = IsRun(slots, layout, r, width) ? width : 1;
    std::vector<int64_t> addresses;
    for (int64_t element : slots[r]) {
      addresses.push_back(element < 0 ? -1 : layout->At(element) * bits / 8);
    }
    cycles += layout::BankCycles(addresses, std::max<int64_t>(1, step * bits / 8));
    r += step;
  }
  return cycles;
}

// Adds layouts for vectors along columns, of two elements or more: the number of the vector in its
// column permutes the 16-byte chunks of its rows. Vectors of neighbouring lanes then lie in other
// banks, and the chunks stay whole.
void AddColumnSwizzles(int64_t columns, int64_t bytes, std::vector<Layout>* candidates) {
  constexpr int64_t kMostBits = 3;  // chunks of a line of banks
  auto width = static_cast<uint64_t>(columns);
  int64_t of_chunk = layout::kChunkBytes / bytes;
  if (!std::has_single_bit(width) || columns < 2 * of_chunk) return;
  int64_t row_bits = std::countr_zero(width);
  int64_t base = std::countr_zero(static_cast<uint64_t>(of_chunk));
  int64_t bits = std::min(kMostBits, row_bits - base);
  for (int64_t vector = 1; vector <= base; ++vector) {
    candidates->push_back(candidates->front().WithSwizzle({bits, base, row_bits - base + vector}));
  }
}

std::vector<Layout> Candidates(const Buffer& buffer) {
  Coord shape = StaticShape(buffer);
  int64_t bits = buffer->dtype.bits;
  int64_t bytes = std::max<int64_t>(1, bits / 8);
  Layout rows = Layout::RowMajor(shape);
  std::vector<Layout> candidates = {rows};
  if (shape.size() < 2) return candidates;
  bool whole_rows = shape[shape.size() - 2] % 8 == 0;
  for (int64_t swizzle : {128, 64, 32}) {
    if (!whole_rows || shape.back() * bytes % swizzle != 0) continue;
    candidates.push_back(layout::SwizzledLayout(shape, bits, swizzle));
  }
  // The row number permutes single elements, for accesses along columns.
  auto width = static_cast<uint64_t>(shape.back());
  if (std::has_single_bit(width) && width * bytes >= 128 && bytes <= 4) {
    int64_t row_bits = std::countr_zero(width);
    int64_t in_word = std::countr_zero(static_cast<uint64_t>(4 / bytes));
    candidates.push_back(
        rows.WithSwizzle({std::min<int64_t>(5, row_bits - in_word), in_word, row_bits - in_word}));
  }
  AddColumnSwizzles(shape.back(), bytes, &candidates);
  candidates.push_back(layout::PaddedLayout(shape, 16 / bytes));
  return candidates;
}

class Judge {
 public:
  Judge(const Buffer& buffer, const std::vector<SharedUse>& uses, Context* ctx)
      : buffer_(buffer), uses_(uses), ctx_(ctx), layouts_(*ctx->layouts) {
    auto any = [](const Var&) -> std::optional<int64_t> { return 0; };
    for (const SharedUse& use : uses) {
      for (const Access& access : use.info->accesses()) {
        if (!access.buffer.same_as(buffer)) continue;
        auto elements = use.info->TouchedElements(access, any, Outside::kUnknown);
        if (elements) slots_.push_back({&use, FirstWarp(use.loop_layout, *elements)});
      }
    }
  }

  int64_t Cost(const Layout& layout) {
    layouts_.Set(buffer_, layout, Span());
    Context ctx = *ctx_;
    ctx.layouts = &layouts_;
    int64_t cycles = 0;
    for (const auto& [use, slots] : slots_) {
      size_t last = use->info->extents().size() - 1;
      int64_t width =
          std::gcd(VectorWidth(*use->info, 16, &ctx), use->loop_layout->VectorWidth(last));
      cycles += Cycles(slots, layout, buffer_->dtype.bits, width);
    }
    return cycles;
  }

 private:
  const Buffer& buffer_;
  const std::vector<SharedUse>& uses_;
  Context* ctx_;
  LayoutMap layouts_;
  std::vector<std::pair<const SharedUse*, Slots>> slots_;
};

}  // namespace

std::optional<Layout> ChooseSharedLayout(const Buffer& buffer, const std::vector<SharedUse>& uses,
                                         const std::function<bool(const Layout&)>& fits,
                                         Context* ctx) {
  Judge judge(buffer, uses, ctx);
  std::optional<Layout> best;
  int64_t least = -1;
  for (const Layout& candidate : Candidates(buffer)) {
    if (!fits(candidate)) continue;
    int64_t cost = judge.Cost(candidate);
    if (least >= 0 && cost >= least) continue;
    least = cost;
    best = candidate;
  }
  if (best && best->SameMap(Layout::RowMajor(StaticShape(buffer)))) return std::nullopt;
  return best;
}

}  // namespace tilelang::op
