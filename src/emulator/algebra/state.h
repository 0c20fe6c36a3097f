// The algebraic mode of launches: floats carry elements of a finite field beside their bits.
#ifndef TILELANG_EMULATOR_ALGEBRA_STATE_H_
#define TILELANG_EMULATOR_ALGEBRA_STATE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "emulator/algebra/element_shadow.h"
#include "emulator/algebra/rule.h"
#include "emulator/base/error.h"
#include "emulator/core/algebra.h"
#include "emulator/core/machine.h"

namespace tilelang::emulator {

// The kinds of remarks about an instruction that affects how far the result can be trusted.
enum class RemarkKind : uint8_t {
  kBroken,     // it computed bits of a float that had an element, which is lost
  kPrecision,  // it dropped bits of floats
};

struct AlgebraRemark {
  RemarkKind kind = RemarkKind::kBroken;
  std::string spelling;
  Where where;
  uint64_t count = 0;
};

// Lives as long as the arrays whose elements it keeps.
class AlgebraState : public Algebra {
 public:
  // Returns the state of this host thread's launch, or nullptr.
  static AlgebraState* Current() { return static_cast<AlgebraState*>(current_algebra); }

  std::unique_ptr<RegisterChecks> MakeWarpValues(const Warp& warp) override;
  void Forget(const void* at, size_t bytes) override { memory.Clear(at, bytes); }
  void Copy(void* to, const void* from, size_t bytes) override { memory.Copy(to, from, bytes); }

  void BeginLaunch();
  // Drops the elements of the machine's own memory. Those of the program's memory stay: `global` is
  // what the launch has seen of it.
  void EndLaunch(const std::vector<HostRange>& global);
  // Takes a range for memory of the program.
  void Keep(HostRange range);

  const std::vector<ElementRule>& RulesFor(const Kernel& kernel);
  void Remark(RemarkKind kind, const Kernel& kernel, const Op& op, uint64_t count);
  // Returns the remarks of all launches, as JSON.
  std::string DescribeRemarks() const;

  ShadowMemory memory;
  bool has_polynomials = false;  // a kernel has begun to compute a function by its polynomial

 private:
  std::map<const Kernel*, std::vector<ElementRule>> rules_;
  std::map<std::pair<RemarkKind, std::pair<std::string, int>>, AlgebraRemark> remarks_;
  std::map<std::pair<RemarkKind, const Op*>, AlgebraRemark*> by_op_;
  std::map<uintptr_t, uintptr_t> kept_;  // ends of disjoint ranges of the program's memory by begin
};

// The exact value of the float at `bits`.
Element ElementOfBits(Type type, const uint8_t* bits);
double FloatOfBits(Type type, const uint8_t* bits);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_ALGEBRA_STATE_H_
