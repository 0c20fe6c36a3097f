#include "emulator/algebra/element_shadow.h"

#include <algorithm>

namespace tilelang::emulator {
namespace {

template <typename Word>
Word Load(const uint8_t* at) {
  Word word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

// The tags of a float of so many bytes.
constexpr uint8_t kTags[9][8] = {{},
                                 {1},
                                 {2, 0x11},
                                 {},
                                 {4, 0x11, 0x12, 0x13},
                                 {},
                                 {},
                                 {},
                                 {8, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17}};

// Returns how many f32 with elements the tags begin with.
size_t CountSingles(const uint8_t* tags, size_t bytes) {
  const auto single = Load<uint32_t>(kTags[4]);
  size_t count = 0;
  while (4 * count + 4 <= bytes && Load<uint32_t>(tags + 4 * count) == single) ++count;
  return count;
}

}  // namespace

Element& ShadowBlock::Place(size_t offset) {
  ZeroedBytes& plane = planes_[offset % 4];
  if (!plane.data()) plane = ZeroedBytes((bytes_ / 4 + 1) * sizeof(Element));
  return reinterpret_cast<Element*>(plane.data())[offset / 4];
}

bool ShadowBlock::Get(size_t offset, int width, const uint8_t* host, Element* element) const {
  const uint8_t* tags = tags_.data() + offset;
  if (tags[0] == width && std::memcmp(tags, kTags[width], static_cast<size_t>(width)) == 0) {
    *element = At(offset);
    return true;
  }
  // A bf16 is the upper half of the f32 of the same value.
  if (width == 4 && tags[2] == 2 && tags[3] == (kInside | 1) && tags[0] == 0 && tags[1] == 0 &&
      host[0] == 0 && host[1] == 0) {
    *element = At(offset + 2);
    return true;
  }
  if (width == 2 && offset % 4 == 2 && tags[0] == (kInside | 2) && tags[1] == (kInside | 3) &&
      std::memcmp(tags - 2, kTags[4], 2) == 0) {
    *element = At(offset - 2);
    return true;
  }
  return false;
}

void ShadowBlock::Set(size_t offset, int width, const Element& element) {
  std::memcpy(tags_.data() + offset, kTags[width], static_cast<size_t>(width));
  Place(offset) = element;
}

bool ShadowBlock::GetMixed(size_t offset, int width, Element* element) const {
  const uint8_t* tags = tags_.data() + offset;
  const auto inside = static_cast<size_t>(width - 1);
  if (tags[0] != (kMixed | width) || std::memcmp(tags + 1, kTags[width] + 1, inside) != 0) {
    return false;
  }
  *element = At(offset);
  return true;
}

void ShadowBlock::SetMixed(size_t offset, int width, const Element& element) {
  Set(offset, width, element);
  tags_.data()[offset] |= kMixed;
}

const Element* ShadowBlock::Singles(size_t offset, int count) const {
  const auto bytes = static_cast<size_t>(count) * 4;
  const uint8_t* tags = tags_.data() + offset;
  return CountSingles(tags, bytes) == static_cast<size_t>(count) ? &At(offset) : nullptr;
}

void ShadowBlock::SetSingles(size_t offset, int count, const Element* elements) {
  uint8_t* tags = tags_.data() + offset;
  for (int i = 0; i < count; ++i, tags += 4) std::memcpy(tags, kTags[4], 4);
  std::copy_n(elements, count, &Place(offset));
}

bool ShadowBlock::IsClear(size_t offset, size_t bytes) const {
  const uint8_t* tags = tags_.data() + offset;
  for (; bytes >= 8; bytes -= 8, tags += 8) {
    if (Load<uint64_t>(tags)) return false;
  }
  return std::all_of(tags, tags + bytes, [](uint8_t tag) { return tag == 0; });
}

void ShadowBlock::Copy(size_t offset, const ShadowBlock& from, size_t from_offset, size_t bytes) {
  const uint8_t* source = from.tags_.data() + from_offset;
  uint8_t* target = tags_.data() + offset;
  if (bytes == 4 && offset % 4 == 0 && CountSingles(source, 4) == 1) {
    std::memcpy(target, source, 4);
    Place(offset) = from.At(from_offset);
    return;
  }
  if (from.IsClear(from_offset, bytes)) return Clear(offset, bytes);
  for (size_t i = 0; i < bytes;) {
    const size_t singles = (offset + i) % 4 == 0 ? CountSingles(source + i, bytes - i) : 0;
    if (singles != 0) {
      std::memcpy(target + i, source + i, 4 * singles);
      std::copy_n(&from.At(from_offset + i), singles, &Place(offset + i));
      i += 4 * singles;
      continue;
    }
    const uint8_t tag = source[i];
    target[i] = tag;
    if (tag != 0 && tag < kInside) {
      Place(offset + i) = from.At(from_offset + i);
    } else if (i == 0 && bytes >= 2 && tag == (kInside | 2) && source[1] == (kInside | 3)) {
      // The upper half of an f32 alone: a bf16.
      const Element element = from.At(from_offset - 2);
      Set(offset, 2, element);
      ++i;
    }
    ++i;
  }
}

ShadowBlock* ShadowMemory::Find(uintptr_t page) const {
  Recent& recent = recent_[page % recent_.size()];
  if (recent.page == page) return recent.block;
  const auto found = pages_.find(page);
  recent = {page, found == pages_.end() ? nullptr : found->second.get()};
  return recent.block;
}

ShadowBlock& ShadowMemory::Make(uintptr_t page) {
  if (ShadowBlock* block = Find(page)) return *block;
  std::unique_ptr<ShadowBlock>& block = pages_[page];
  block = std::make_unique<ShadowBlock>(kPageBytes);
  recent_[page % recent_.size()] = {page, block.get()};
  return *block;
}

namespace {

struct PlaceInPage {
  explicit PlaceInPage(const void* at)
      : page(reinterpret_cast<uintptr_t>(at) / ShadowMemory::kPageBytes),
        offset(reinterpret_cast<uintptr_t>(at) % ShadowMemory::kPageBytes) {}
  uintptr_t page;
  size_t offset;
  size_t Part(size_t bytes) const { return std::min(bytes, ShadowMemory::kPageBytes - offset); }
};

const uint8_t* Bytes(const void* at) { return static_cast<const uint8_t*>(at); }

}  // namespace

bool ShadowMemory::Get(const void* at, int width, Element* element) {
  const PlaceInPage place(at);
  const ShadowBlock* block = Find(place.page);
  return block && block->Get(place.offset, width, Bytes(at), element);
}

void ShadowMemory::Set(void* at, int width, const Element& element) {
  const PlaceInPage place(at);
  Make(place.page).Set(place.offset, width, element);
}

void ShadowMemory::Clear(const void* at, size_t bytes) {
  while (bytes != 0) {
    const PlaceInPage place(at);
    const size_t part = place.Part(bytes);
    if (ShadowBlock* block = Find(place.page)) block->Clear(place.offset, part);
    at = Bytes(at) + part;
    bytes -= part;
  }
}

bool ShadowMemory::IsClear(const void* at, size_t bytes) const {
  while (bytes != 0) {
    const PlaceInPage place(at);
    const size_t part = place.Part(bytes);
    const ShadowBlock* block = Find(place.page);
    if (block && !block->IsClear(place.offset, part)) return false;
    at = Bytes(at) + part;
    bytes -= part;
  }
  return true;
}

void ShadowMemory::KeepOnly(const std::vector<HostRange>& ranges) {
  const auto kept = [&](uintptr_t page) {
    const uintptr_t begin = page * kPageBytes, end = begin + kPageBytes;
    const auto ends_before = [](const HostRange& range, uintptr_t at) { return range.end <= at; };
    const auto found = std::lower_bound(ranges.begin(), ranges.end(), begin, ends_before);
    return found != ranges.end() && found->begin < end;
  };
  std::erase_if(pages_, [&](const auto& entry) { return !kept(entry.first); });
  recent_.fill({});
}

void ShadowMemory::ToBlock(ShadowBlock& block, size_t offset, const void* from, size_t bytes) {
  while (bytes != 0) {
    const PlaceInPage place(from);
    const size_t part = place.Part(bytes);
    const ShadowBlock* source = Find(place.page);
    if (source) {
      block.Copy(offset, *source, place.offset, part);
    } else {
      block.Clear(offset, part);
    }
    from = Bytes(from) + part;
    offset += part;
    bytes -= part;
  }
}

void ShadowMemory::FromBlock(void* to, const ShadowBlock& block, size_t offset, size_t bytes) {
  while (bytes != 0) {
    const PlaceInPage place(to);
    const size_t part = place.Part(bytes);
    if (ShadowBlock* target = Find(place.page)) {
      target->Copy(place.offset, block, offset, part);
    } else if (!block.IsClear(offset, part)) {
      Make(place.page).Copy(place.offset, block, offset, part);
    }
    to = static_cast<uint8_t*>(to) + part;
    offset += part;
    bytes -= part;
  }
}

void ShadowMemory::Copy(void* to, const void* from, size_t bytes) {
  while (bytes != 0) {
    const PlaceInPage place(from);
    const size_t part = place.Part(bytes);
    const ShadowBlock* source = Find(place.page);
    if (source) {
      FromBlock(to, *source, place.offset, part);
    } else {
      Clear(to, part);
    }
    to = static_cast<uint8_t*>(to) + part;
    from = Bytes(from) + part;
    bytes -= part;
  }
}

}  // namespace tilelang::emulator
