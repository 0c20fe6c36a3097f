// The mbarrier object: phases completed by arrivals and transaction bytes.
#ifndef TILELANG_EMULATOR_ASYNC_MBARRIER_H_
#define TILELANG_EMULATOR_ASYNC_MBARRIER_H_

#include <cstdint>

namespace tilelang::emulator {

// The phase rule of the PTX ISA: a phase completes when no arrival and no transaction byte is
// pending; the next phase then starts with the expected count and no bytes. Misuse throws
// EmulatorError of kind "mbarrier".
class Mbarrier {
 public:
  // The range of the arrival counts (1..kMaxCount) and of the transaction count (+-kMaxCount).
  static constexpr int64_t kMaxCount = (int64_t{1} << 20) - 1;

  Mbarrier() = default;
  explicit Mbarrier(int64_t count);

  void ExpectTransactions(int64_t bytes);
  void CompleteTransactions(int64_t bytes);
  // `count` arrivals; returns the state token that mbarrier.arrive delivers. With `drop` the
  // expected count of later phases shrinks too.
  uint64_t Arrive(int64_t count, bool drop = false);
  // mbarrier.arrive.noComplete: an arrival that must not complete the phase.
  uint64_t ArriveNoComplete(int64_t count, bool drop = false);
  // One more arrival is pending in this phase (cp.async.mbarrier.arrive without .noinc).
  void AddPending();

  // Waits by parity: true unless the running phase has this parity.
  bool ParityDone(uint32_t parity) const { return (completed_ & 1) != (parity & 1); }
  // Waits by token; the token must be of the running or the preceding phase.
  bool TokenDone(uint64_t token) const;
  static int64_t PendingOfToken(uint64_t token) { return token & kMaxCount; }

  uint64_t completed_phases() const { return completed_; }
  int64_t pending() const { return pending_; }
  int64_t expected() const { return expected_; }
  int64_t transactions() const { return transactions_; }

  // The 64-bit word shown in shared memory. Programs do not interpret it; a word that differs from
  // this one was overwritten by an ordinary store.
  uint64_t Word() const;

 private:
  uint64_t Token() const { return (completed_ << 20) | static_cast<uint64_t>(pending_); }
  void TakeArrivals(int64_t count);
  void CheckTransactions() const;
  void CompleteIfDone();

  int64_t expected_ = 0;
  int64_t pending_ = 0;
  int64_t transactions_ = 0;
  uint64_t completed_ = 0;
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_ASYNC_MBARRIER_H_
