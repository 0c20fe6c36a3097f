#include "layout/smem_layout.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "layout/throw.h"
#include "target/warp.h"

namespace tilelang::layout {

namespace {

constexpr int64_t kAtomRows = 8;
constexpr int64_t kWidestAtom = 128;  // bytes
constexpr int64_t kWideChunkBytes = 32;
constexpr int64_t kBanks = 32;
constexpr int64_t kBankBytes = 4;

int64_t Log2(int64_t value) { return std::countr_zero(static_cast<uint64_t>(value)); }

/*! Why a tile cannot take an atom width, or nothing. */
std::string WhyNot(const Coord& extents, int64_t element_bits, int64_t swizzle_bytes) {
  int64_t width_bits = extents.back() * element_bits;
  if (width_bits % (swizzle_bytes * 8) != 0) {
    return "its rows of " + std::to_string(width_bits) + " bits are not a multiple of " +
           std::to_string(swizzle_bytes) + " bytes";
  }
  int64_t rows = extents.size() > 1 ? extents[extents.size() - 2] : 1;
  bool several = width_bits > swizzle_bytes * 8 || extents.size() > 2;
  if (several && rows % kAtomRows != 0 && Product(extents) != extents.back()) {
    return "its " + std::to_string(rows) + " rows are not a multiple of 8";
  }
  return "";
}

}  // namespace

Layout AtomColumns(const Coord& extents, int64_t element_bits, int64_t swizzle_bytes) {
  bool known = swizzle_bytes >= kChunkBytes && swizzle_bytes <= kWidestAtom &&
               std::has_single_bit(static_cast<uint64_t>(swizzle_bytes)) && element_bits >= 4 &&
               element_bits <= 64 && std::has_single_bit(static_cast<uint64_t>(element_bits));
  LAYOUT_REQUIRE(known && !extents.empty(), LayoutError)
      << "shared-memory atoms are 16, 32, 64 or 128 bytes wide with elements of 4 to 64 bits, not "
      << swizzle_bytes << " bytes with " << element_bits << " bits";
  std::string why = WhyNot(extents, element_bits, swizzle_bytes);
  LAYOUT_REQUIRE(why.empty(), LayoutError)
      << "a tile of shape " << CoordToString(extents) << " with " << element_bits
      << "-bit elements cannot be stored in " << swizzle_bytes << "-byte atoms: " << why;
  int64_t atom = swizzle_bytes * 8 / element_bits;
  size_t rank = extents.size();
  int64_t rows = rank > 1 ? extents[rank - 2] : 1;
  std::vector<Digits> forms(rank);
  forms[rank - 1] = {{atom, 1}, {extents[rank - 1] / atom, atom * rows}};
  if (rank > 1) forms[rank - 2] = {{rows, atom}};
  int64_t stride = rows * extents[rank - 1];
  for (size_t d = rank; d-- > 2;) {
    forms[d - 2] = {{extents[d - 2], stride}};
    stride *= extents[d - 2];
  }
  return Layout::FromForms(extents, forms, 0, {});
}

Layout SwizzledLayout(const Coord& extents, int64_t element_bits, int64_t swizzle_bytes,
                      int64_t atomicity_bytes) {
  Layout columns = AtomColumns(extents, element_bits, swizzle_bytes);
  bool wide = atomicity_bytes == kWideChunkBytes && swizzle_bytes == kWidestAtom;
  LAYOUT_REQUIRE(wide || atomicity_bytes == kChunkBytes, LayoutError)
      << "swizzles move chunks of 16 bytes, that of 128 bytes also of 32; not of "
      << atomicity_bytes << " bytes in atoms of " << swizzle_bytes;
  Swizzle swizzle{Log2(swizzle_bytes / atomicity_bytes), Log2(atomicity_bytes * 8 / element_bits),
                  wide ? 2 : 3};
  return swizzle.bits == 0 ? columns : columns.WithSwizzle(swizzle);
}

std::vector<int64_t> SwizzleWidths(const Coord& extents, int64_t element_bits) {
  std::vector<int64_t> widths;
  for (int64_t bytes : {128, 64, 32, 16}) {
    if (WhyNot(extents, element_bits, bytes).empty()) widths.push_back(bytes);
  }
  return widths;
}

int64_t WidestSwizzle(const Coord& extents, int64_t element_bits) {
  std::vector<int64_t> widths = SwizzleWidths(extents, element_bits);
  return widths.empty() ? 0 : widths.front();
}

std::optional<Layout> OperandLayout(const Coord& extents, int64_t element_bits, bool k_major) {
  if (k_major || element_bits != 32) {
    int64_t widest = WidestSwizzle(extents, element_bits);
    if (widest == 0) return std::nullopt;
    return SwizzledLayout(extents, element_bits, widest);
  }
  int64_t atom = kWidestAtom * 8 / element_bits;
  Coord padded = extents;
  padded.back() = (extents.back() + atom - 1) / atom * atom;
  bool chunks = extents.back() * element_bits % (kChunkBytes * 8) == 0;
  if (!chunks || !WhyNot(padded, element_bits, kWidestAtom).empty()) return std::nullopt;
  Layout whole = SwizzledLayout(padded, element_bits, kWidestAtom, kWideChunkBytes);
  return whole.Slice(Coord(extents.size(), 0), extents);
}

bool KeepsRuns(const Layout& smem, int64_t elements) {
  if (smem->Extents().back() % elements != 0) return false;
  std::vector<int64_t> places = smem->Tabulate();
  for (size_t i = 0; i < places.size(); ++i) {
    int64_t first = places[i / elements * elements];
    if (first % elements != 0 || places[i] != first + static_cast<int64_t>(i % elements)) {
      return false;
    }
  }
  return true;
}

Layout PaddedLayout(const Coord& extents, int64_t pad) {
  LAYOUT_REQUIRE(pad >= 0, LayoutError) << "rows cannot be padded by " << pad << " elements";
  std::vector<Digits> forms(extents.size());
  int64_t stride = 1;
  for (size_t d = extents.size(); d-- > 0;) {
    forms[d] = {{extents[d], stride}};
    stride *= extents[d];
    if (d + 1 == extents.size()) stride += pad;
  }
  return Layout::FromForms(extents, forms);
}

int64_t BankCycles(const std::vector<int64_t>& addresses, int64_t bytes) {
  // A cycle serves 128 bytes, so wide accesses go by groups of threads.
  size_t group = std::min<size_t>(32, kBanks * kBankBytes / std::max(bytes, kBankBytes));
  int64_t cycles = 0;
  for (size_t begin = 0; begin < addresses.size(); begin += group) {
    std::map<int64_t, std::set<int64_t>> words;  // of each bank
    for (size_t t = begin; t < std::min(begin + group, addresses.size()); ++t) {
      if (addresses[t] < 0) continue;
      int64_t last = (addresses[t] + bytes - 1) / kBankBytes;
      for (int64_t w = addresses[t] / kBankBytes; w <= last; ++w) words[w % kBanks].insert(w);
    }
    size_t most = 0;
    for (const auto& [bank, distinct] : words) most = std::max(most, distinct.size());
    cycles += static_cast<int64_t>(most);
  }
  return cycles;
}

SharedCost SharedAccessCost(const Layout& smem, const Fragment& fragment, int64_t element_bits,
                            int64_t vector) {
  LAYOUT_REQUIRE(smem->Extents() == fragment->Extents(), LayoutError)
      << "the shared-memory layout is on " << CoordToString(smem->Extents()) << ", the fragment on "
      << CoordToString(fragment->Extents());
  std::vector<int64_t> place = smem->Tabulate();
  const std::vector<int64_t>& slots = fragment->InverseTable();
  int64_t regs = fragment->RegsPerThread(), threads = fragment->NumThreads();
  int64_t bytes = std::max<int64_t>(1, vector * element_bits / 8);
  SharedCost cost;
  for (int64_t warp = 0; warp < threads; warp += 32) {
    for (int64_t reg = 0; reg < regs; reg += vector) {
      std::vector<int64_t> addresses(32, -1);
      std::set<int64_t> distinct;
      for (int64_t t = warp; t < std::min(warp + kWarp, threads); ++t) {
        int64_t element = slots[t * regs + reg];
        if (element < 0) continue;
        int64_t address = place[element % fragment->Size()] * element_bits / 8;
        addresses[t - warp] = address;
        distinct.insert(address);
      }
      cost.cycles += BankCycles(addresses, bytes);
      int64_t moved = static_cast<int64_t>(distinct.size()) * bytes;
      cost.ideal += (moved + kBanks * kBankBytes - 1) / (kBanks * kBankBytes);
    }
  }
  return cost;
}

}  // namespace tilelang::layout
