#include <algorithm>

#include "layout/fragment.h"

namespace tilelang::layout {

namespace {

/*! The layout as one form over the row-major linear index, where dimensions concatenate. */
std::optional<Digits> FlatForm(const LayoutNode* layout) {
  if (!layout->IsLinear()) return std::nullopt;
  if (layout->IsFlat()) return layout->Forms()[0];
  Digits flat;
  for (size_t d = layout->Rank(); d-- > 0;) {
    const Digits& form = layout->Forms()[d];
    if (d > 0 && DigitsSize(form) != layout->extents[d]) return std::nullopt;
    flat.insert(flat.end(), form.begin(), form.end());
  }
  return flat;
}

/*! Appends the digits of one dimension; false when a digit is in neither or both sources. */
bool AppendDigits(int dim, const Digits& thread, const Digits& reg, int64_t extent,
                  std::vector<InverseDigit>* digits) {
  auto pairs = Refine(Canonical(thread, extent), Canonical(reg, extent));
  if (!pairs) return false;
  int64_t place = 1;
  for (const DigitPair& p : *pairs) {
    if (p.extent > 1) {
      if ((p.first == 0) == (p.second == 0)) return false;
      bool on_thread = p.first != 0;
      digits->push_back({dim, place, p.extent, on_thread, on_thread ? p.first : p.second});
    }
    place *= p.extent;
  }
  return true;
}

/*! Sorts each source's digits and checks that a greater stride exceeds all lower digits' sum. */
bool SortNested(std::vector<InverseDigit>* digits) {
  std::stable_sort(digits->begin(), digits->end(), [](const auto& a, const auto& b) {
    return a.on_thread != b.on_thread ? a.on_thread : a.stride > b.stride;
  });
  int64_t below[2] = {0, 0};
  for (auto it = digits->rbegin(); it != digits->rend(); ++it) {
    int64_t& sum = below[it->on_thread];
    if (it->stride <= sum) return false;
    sum += (it->extent - 1) * it->stride;
  }
  return true;
}

bool CollectDigits(const FragmentNode* fragment, FragmentInverse* inverse) {
  auto threads = SeparableForms(fragment->thread.get());
  auto regs = SeparableForms(fragment->reg.get());
  inverse->linear_index = !threads || !regs;
  if (threads && regs) {
    for (size_t d = 0; d < threads->size(); ++d) {
      if (!AppendDigits(static_cast<int>(d), (*threads)[d], (*regs)[d],
                        fragment->thread->extents[d], &inverse->digits)) {
        return false;
      }
    }
    return true;
  }
  auto thread = FlatForm(fragment->thread.get()), reg = FlatForm(fragment->reg.get());
  return thread && reg && AppendDigits(0, *thread, *reg, fragment->Size(), &inverse->digits);
}

}  // namespace

std::optional<FragmentInverse> InverseDigits(const Fragment& fragment) {
  FragmentInverse inverse;
  if (!CollectDigits(fragment.get(), &inverse)) return std::nullopt;
  const LayoutNode* replica = fragment->replica.get();
  if (!replica->IsLinear() ||
      !AppendDigits(-1, replica->Forms()[0], {}, replica->Size(), &inverse.digits)) {
    return std::nullopt;
  }
  if (!SortNested(&inverse.digits)) return std::nullopt;
  return inverse;
}

}  // namespace tilelang::layout
