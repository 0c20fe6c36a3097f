// Runs passes: dumps, times and verifies their results, collects their remarks.
#ifndef TILELANG_DRIVER_INSTRUMENT_H_
#define TILELANG_DRIVER_INSTRUMENT_H_

#include <functional>
#include <optional>
#include <string>
#include <type_traits>

#include "check/verify.h"
#include "ir/function.h"
#include "ir/remark.h"
#include "target/target.h"

namespace tilelang::driver {

// One compilation. Environment:
//   TILELANG_DUMP_IR=dir   writes dir/<function>/NN_<pass>.txt after each pass: its time, then
//                          the function, or "(unchanged)"; NN_<pass>.places has the Python
//                          line of each of its lines
//   TILELANG_VERIFY=1      checks the invariants of the stage after each pass
//   TILELANG_VERIFY_SYNCHRONIZATION=1
//                          checks what the result waits for (verify/verify_synchronization.h)
//   TILELANG_REMARKS=1     prints remarks to stderr as they are made
class PassContext {
 public:
  explicit PassContext(const Target& target);

  // func after `pass`, a function of (Func, Target) or (Func). `reaches`: the stage of the
  // result, when the pass leads to a new one.
  template <typename Pass>
  ir::Func Run(const char* name, const Pass& pass, const ir::Func& func,
               std::optional<check::Stage> reaches = std::nullopt) {
    if constexpr (std::is_invocable_v<Pass, const ir::Func&>) {
      return RunTimed(name, [&] { return pass(func); }, func, reaches);
    } else {
      return RunTimed(name, [&] { return pass(func, target_); }, func, reaches);
    }
  }

  bool verifies_synchronization() const { return verify_synchronization_; }
  const ir::Array<RemarkRef>& remarks() const { return collector_.remarks(); }

 private:
  ir::Func RunTimed(const char* name, const std::function<ir::Func()>& pass, const ir::Func& before,
                    std::optional<check::Stage> reaches);
  void Dump(const std::string& name, const ir::Func& func, double milliseconds);

  Target target_;
  RemarkCollector collector_;
  check::Stage stage_ = check::Stage::kTile;
  std::string dump_directory_;  // empty: no dumps
  std::string last_text_;
  int dumped_ = 0;
  bool verify_ = false;
  bool verify_synchronization_ = false;
};

// Makes a pass known to Python as tilelang.transform.run_pass(name, func, target): the global
// function "tl.transform.<name>" of (Func, architecture) gives [Func, remarks].
void RegisterPass(const std::string& name,
                  std::function<ir::Func(const ir::Func&, const Target&)> pass);

}  // namespace tilelang::driver

#endif  // TILELANG_DRIVER_INSTRUMENT_H_
