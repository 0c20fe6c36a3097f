#include "emulator/async/mbarrier.h"

#include <string>

#include "emulator/base/error.h"

namespace tilelang::emulator {
namespace {

[[noreturn]] void Misuse(const std::string& message) { throw EmulatorError("mbarrier", message); }

}  // namespace

Mbarrier::Mbarrier(int64_t count) : expected_(count), pending_(count) {
  if (count < 1 || count > kMaxCount) {
    Misuse("mbarrier.init count " + std::to_string(count) + " is not in 1..1048575");
  }
}

void Mbarrier::CheckTransactions() const {
  if (transactions_ < -kMaxCount || transactions_ > kMaxCount) {
    Misuse("the transaction count of the phase reached " + std::to_string(transactions_) +
           " bytes; its range is -1048575..1048575");
  }
}

void Mbarrier::CompleteIfDone() {
  if (pending_ != 0 || transactions_ != 0) return;
  ++completed_;
  pending_ = expected_;
}

void Mbarrier::ExpectTransactions(int64_t bytes) {
  if (bytes < 0 || bytes > kMaxCount) {
    Misuse("expect_tx of " + std::to_string(bytes) + " bytes is not in 0..1048575");
  }
  transactions_ += bytes;
  CheckTransactions();
}

void Mbarrier::CompleteTransactions(int64_t bytes) {
  transactions_ -= bytes;
  CheckTransactions();
  if (pending_ == 0 && transactions_ < 0) {
    Misuse("transaction underflow: " + std::to_string(-transactions_) +
           " more bytes completed than the phase expected, and all of its arrivals are in; "
           "it can never complete");
  }
  CompleteIfDone();
}

void Mbarrier::TakeArrivals(int64_t count) {
  if (count < 1 || count > kMaxCount) {
    Misuse("arrival count " + std::to_string(count) + " is not in 1..1048575");
  }
  if (count > pending_) {
    Misuse("over-arrival: " + std::to_string(count) + " arrival(s) but the phase awaits " +
           std::to_string(pending_) + " of " + std::to_string(expected_) + " (phase " +
           std::to_string(completed_) + ", " + std::to_string(transactions_) +
           " transaction bytes pending)");
  }
  pending_ -= count;
  if (pending_ == 0 && transactions_ < 0) {
    Misuse("transaction underflow: the last arrival found " + std::to_string(-transactions_) +
           " more bytes completed than expected");
  }
}

uint64_t Mbarrier::Arrive(int64_t count, bool drop) {
  const uint64_t token = Token();
  TakeArrivals(count);
  if (drop) expected_ -= count;
  CompleteIfDone();
  return token;
}

uint64_t Mbarrier::ArriveNoComplete(int64_t count, bool drop) {
  if (count >= pending_) {
    Misuse("arrive.noComplete of " + std::to_string(count) +
           " would complete the phase, which awaits " + std::to_string(pending_) + " arrival(s)");
  }
  return Arrive(count, drop);
}

void Mbarrier::AddPending() {
  if (pending_ == kMaxCount) Misuse("the pending count exceeds 1048575");
  ++pending_;
}

bool Mbarrier::TokenDone(uint64_t token) const {
  const uint64_t phase = token >> 20;
  if (phase == completed_) return false;
  if (phase + 1 == completed_) return true;
  Misuse("the state token is of phase " + std::to_string(phase) + " but the barrier runs phase " +
         std::to_string(completed_) +
         "; only tokens of the running or the preceding phase can be waited for");
}

uint64_t Mbarrier::Word() const {
  return (completed_ & 7) << 61 | (static_cast<uint64_t>(transactions_) & 0x1FFFFF) << 40 |
         static_cast<uint64_t>(pending_) << 20 | static_cast<uint64_t>(expected_);
}

}  // namespace tilelang::emulator
