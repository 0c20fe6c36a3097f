// Choices that depend on registers, which only ptxas counts.
#ifndef TILELANG_IR_REGISTER_CHOICES_H_
#define TILELANG_IR_REGISTER_CHOICES_H_

#include <string>

#include "ir/stmt.h"

namespace tilelang {

// Notes a pass option under which the kernel may need fewer registers. It is dropped outside of a
// compilation.
void NoteOtherChoice(const std::string& option, int64_t value);
// Notes the registers that the fragments of a launch need at one time in each thread, and those
// that a thread can have.
void NoteRegisters(int64_t needed, int64_t available);

// Collects what passes note on this thread during its life.
class RegisterChoices {
 public:
  RegisterChoices();
  ~RegisterChoices();
  RegisterChoices(const RegisterChoices&) = delete;
  RegisterChoices& operator=(const RegisterChoices&) = delete;

  // Returns whether fragments take nearly all registers of a thread in some launch.
  bool AreScarce() const { return scarce_; }
  // Returns the pass options that were noted, in order.
  const ir::Array<ir::Map<ir::String, ir::Any>>& choices() const { return choices_; }

 private:
  friend void NoteOtherChoice(const std::string& option, int64_t value);
  friend void NoteRegisters(int64_t needed, int64_t available);
  ir::Array<ir::Map<ir::String, ir::Any>> choices_;
  bool scarce_ = false;
  RegisterChoices* outer_;
};

}  // namespace tilelang

#endif  // TILELANG_IR_REGISTER_CHOICES_H_
