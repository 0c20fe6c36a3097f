#include "emulator/core/unwritten_registers.h"

#include <algorithm>

#include "emulator/core/control_handlers.h"

namespace tilelang::emulator {
namespace {

constexpr uint32_t kNone = ~uint32_t{0};
// Sets of registers for all blocks together; larger kernels are not looked at.
constexpr uint64_t kMaxWords = uint64_t{1} << 24;

template <typename F>
void ForEachRead(const OperandUse& use, F&& body) {
  for (uint32_t slot : use.reads) body(slot);
  for (const AddressOperand& address : use.addresses) body(address.slot);
  for (uint32_t slot : use.engine_reads) body(slot);
  for (uint32_t slot : use.engine_writes) body(slot);  // accumulators
}

template <typename F>
void ForEachWrite(const OperandUse& use, F&& body) {
  for (uint32_t slot : use.writes) body(slot);
  for (uint32_t slot : use.engine_writes) body(slot);
}

// Instructions that are executed one after the other.
struct Block {
  uint32_t begin = 0, end = 0;
  std::vector<uint32_t> next;  // blocks
};

class Analysis {
 public:
  Analysis(const Kernel& kernel, const std::vector<UnwrittenRegister>& declared)
      : kernel_(kernel), number_(kernel.file_bytes / 32 + 1, kNone) {
    FindBlocks();
    FindCandidates(declared);
  }

  // Indices of declared registers.
  std::vector<uint32_t> Run() {
    if (candidates_.empty() || blocks_.size() * words_ > kMaxWords) return {};
    Solve();
    std::vector<bool> found(candidates_.size());
    for (size_t b = 0; b < blocks_.size(); ++b) {
      Walk(blocks_[b], written_[b], [&](uint32_t number) { found[number] = true; });
    }
    std::vector<uint32_t> result;
    for (size_t i = 0; i < found.size(); ++i) {
      if (found[i]) result.push_back(candidates_[i]);
    }
    return result;
  }

 private:
  using Set = std::vector<uint64_t>;

  uint32_t NumberOf(uint32_t slot) const { return slot == kNoSlot ? kNone : number_[slot / 32]; }

  void FindBlocks() {
    const size_t count = kernel_.code.size();
    std::vector<bool> begins(count + 1);
    begins[0] = true;
    for (size_t pc = 0; pc < count; ++pc) {
      const Successors after = SuccessorsOf(kernel_.code[pc]);
      if (!after.jumps) continue;
      begins[pc + 1] = true;
      for (uint32_t target : after.targets) begins[target] = true;
    }
    std::vector<uint32_t> block_at(count + 1, kNone);
    for (uint32_t pc = 0; pc < count; ++pc) {
      if (begins[pc]) blocks_.push_back({pc, pc, {}});
      blocks_.back().end = pc + 1;
      block_at[pc] = static_cast<uint32_t>(blocks_.size() - 1);
    }
    for (Block& block : blocks_) {
      const Successors after = SuccessorsOf(kernel_.code[block.end - 1]);
      if (after.next && block.end < count) block.next.push_back(block_at[block.end]);
      for (uint32_t target : after.targets) {
        if (target < count) block.next.push_back(block_at[target]);
      }
    }
  }

  // Finds the registers that a block reads before it writes them; no others can matter.
  void FindCandidates(const std::vector<UnwrittenRegister>& declared) {
    for (uint32_t i = 0; i < declared.size(); ++i) number_[declared[i].slot / 32] = i;
    words_ = declared.size() / 64 + 1;
    std::vector<bool> exposed(declared.size());
    for (const Block& block : blocks_) {
      Walk(block, Set(words_), [&](uint32_t number) { exposed[number] = true; });
    }
    std::fill(number_.begin(), number_.end(), kNone);
    for (uint32_t i = 0; i < declared.size(); ++i) {
      if (!exposed[i]) continue;
      number_[declared[i].slot / 32] = static_cast<uint32_t>(candidates_.size());
      candidates_.push_back(i);
    }
    words_ = candidates_.size() / 64 + 1;
  }

  // Calls read(number) for what the block reads when only `written` and its own writes are there.
  template <typename F>
  void Walk(const Block& block, Set written, F&& read) const {
    for (uint32_t pc = block.begin; pc < block.end; ++pc) {
      const OperandUse& use = kernel_.sources[kernel_.code[pc].source].use;
      ForEachRead(use, [&](uint32_t slot) {
        const uint32_t number = NumberOf(slot);
        if (number != kNone && !(written[number / 64] >> (number % 64) & 1)) read(number);
      });
      AddWrites(pc, &written);
    }
  }

  void AddWrites(uint32_t pc, Set* written) const {
    const Op& op = kernel_.code[pc];
    if (op.guard != kNoSlot) return;
    ForEachWrite(kernel_.sources[op.source].use, [&](uint32_t slot) {
      const uint32_t number = NumberOf(slot);
      if (number != kNone) (*written)[number / 64] |= uint64_t{1} << (number % 64);
    });
  }

  // `written_`: what all paths to a block have written.
  void Solve() {
    written_.assign(blocks_.size(), Set(words_, ~uint64_t{0}));
    written_[0].assign(words_, 0);
    std::vector<bool> queued(blocks_.size());
    std::vector<uint32_t> queue{0};
    std::vector<bool> reached(blocks_.size());
    while (!queue.empty()) {
      const uint32_t b = queue.back();
      queue.pop_back();
      queued[b] = false;
      reached[b] = true;
      Set after = written_[b];
      for (uint32_t pc = blocks_[b].begin; pc < blocks_[b].end; ++pc) AddWrites(pc, &after);
      for (uint32_t next : blocks_[b].next) {
        bool changed = !reached[next];
        for (size_t i = 0; i < words_; ++i) {
          const uint64_t both = written_[next][i] & after[i];
          changed |= both != written_[next][i];
          written_[next][i] = both;
        }
        if (!changed || queued[next]) continue;
        queued[next] = true;
        queue.push_back(next);
      }
    }
  }

  const Kernel& kernel_;
  std::vector<Block> blocks_;
  std::vector<uint32_t> number_;      // by slot / 32
  std::vector<uint32_t> candidates_;  // declared registers by their numbers
  size_t words_ = 0;
  std::vector<Set> written_;  // by block
};

// Marks what may see the value of one of the registers, or what was computed from it.
void MarkWhatSees(Kernel* kernel) {
  std::vector<bool> tainted(kernel->file_bytes / 32 + 1);
  for (const UnwrittenRegister& each : kernel->unwritten) tainted[each.slot / 32] = true;
  for (bool changed = true; changed;) {
    changed = false;
    for (const Op& op : kernel->code) {
      SourceLine& source = kernel->sources[op.source];
      bool sees = false;
      ForEachRead(source.use,
                  [&](uint32_t slot) { sees |= slot != kNoSlot && tainted[slot / 32]; });
      if (sees) {
        ForEachWrite(source.use, [&](uint32_t slot) {
          changed |= !tainted[slot / 32];
          tainted[slot / 32] = true;
        });
      }
      ForEachWrite(source.use, [&](uint32_t slot) { sees |= tainted[slot / 32]; });
      source.sees_unwritten = sees;
    }
  }
}

}  // namespace

void FindUnwrittenRegisters(Kernel* kernel, const std::vector<UnwrittenRegister>& declared) {
  if (kernel->uses_stack || kernel->code.empty()) return;
  for (uint32_t index : Analysis(*kernel, declared).Run()) {
    kernel->unwritten.push_back(declared[index]);
  }
  if (!kernel->unwritten.empty()) MarkWhatSees(kernel);
}

uint32_t FirstReader(const Kernel& kernel, uint32_t slot) {
  const auto reader = std::find_if(kernel.code.begin(), kernel.code.end(), [&](const Op& op) {
    bool reads = false;
    ForEachRead(kernel.sources[op.source].use, [&](uint32_t each) { reads |= each == slot; });
    return reads;
  });
  return static_cast<uint32_t>(reader - kernel.code.begin());
}

}  // namespace tilelang::emulator
