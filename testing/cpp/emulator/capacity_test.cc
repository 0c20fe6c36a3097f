// Claims of a resource, in any order of their times.
#include "emulator/timing/capacity.h"

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "check.h"

namespace tilelang::emulator {
namespace {

TEST(ClaimsOfOneBinComeOneAfterTheOther) {
  Capacity pipe(1, 16);
  CHECK_EQ(pipe.Claim(0, 4).cycles(), 4.0);
  CHECK_EQ(pipe.Claim(0, 4).cycles(), 8.0);
  CHECK_EQ(pipe.Claim(12, 2).cycles(), 14.0);
  // What is in the bin already comes first.
  CHECK_EQ(pipe.Claim(3, 1).cycles(), 11.0);
}

TEST(AClaimMayComeAfterALaterOne) {
  Capacity pipe(1, 16);
  CHECK_EQ(pipe.Claim(100, 8).cycles(), 108.0);
  CHECK_EQ(pipe.Claim(50, 8).cycles(), 58.0);
}

TEST(FullBinsAreLeftOut) {
  Capacity pipe(2, 8);  // 16 units a bin
  CHECK_EQ(pipe.Claim(0, 32).cycles(), 16.0);
  CHECK_EQ(pipe.Claim(1, 2).cycles(), 17.0);
  // Over the end of a bin into the next one.
  CHECK_EQ(pipe.Claim(22, 8).cycles(), 26.0);
  CHECK_EQ(pipe.served(), 42.0);
}

TEST(NothingIsClaimedAtOnce) {
  Capacity pipe(1, 16);
  pipe.Claim(0, 12);
  CHECK_EQ(pipe.Claim(3, 0).cycles(), 3.0);
  CHECK_EQ(pipe.busy().cycles(), 12.0);
}

TEST(BurstsAreTakenAsLongAsThereIsRoom) {
  Capacity shared(1, 64);
  CHECK_EQ(shared.Take(5, 60).cycles(), 5.0);
  // Four of these in this bin, the rest in the next one.
  CHECK_EQ(shared.Take(5, 10).cycles(), 70.0);
}

TEST(AShareMayBeOccupied) {
  Capacity memory(1, 16);
  memory.Occupy(0, 32, 0.75);
  CHECK_EQ(memory.ShareAt(20), 0.75);
  CHECK_EQ(memory.ShareAt(40), 0.0);
  CHECK_EQ(memory.Claim(0, 6).cycles(), 16.0 + 14.0);
  CHECK_EQ(memory.busy().cycles(), 6.0);
}

// Bins as they are described, without a memory of which are full: what may take place is looked for
// from the first one on.
class Reference {
 public:
  explicit Reference(double width) : width_(width) {}
  double Claim(double from, double cycles) {
    double end = from;
    for (size_t bin = static_cast<size_t>(from / width_); cycles > 0; ++bin) {
      if (used_.size() <= bin) used_.resize(bin + 1);
      const double start = static_cast<double>(bin) * width_, begin = std::max(from, start);
      const double taken = std::min({cycles, width_ - used_[bin], start + width_ - begin});
      if (taken <= 0) continue;
      used_[bin] += taken;
      cycles -= taken;
      end = std::max(begin + taken, start + used_[bin]);
    }
    return end;
  }

 private:
  double width_;
  std::vector<double> used_;
};

TEST(RandomClaimsEndWhenTheBinsSay) {
  std::mt19937 random(7);
  // Of quarters of a cycle: exact in both.
  const auto quarters = [&](uint32_t most) { return 0.25 * (1 + random() % (4 * most)); };
  for (const int width : {8, 16, 256}) {
    for (const double load : {0.3, 0.9, 1.3}) {
      Capacity pipe(1, width);
      Reference reference(width);
      double now = 0, sum = 0;
      for (int i = 0; i < 3000; ++i) {
        const double cycles = quarters(5);
        // Some come much later than others, which follow.
        const double from = now + 0.25 * static_cast<double>(random() % 400);
        if (i % 50 == 0) pipe.Forget(now);
        CHECK_EQ(pipe.Claim(from, cycles).cycles(), reference.Claim(from, cycles));
        sum += cycles;
        now += 0.25 * static_cast<int>(cycles * 4 / load);
      }
      CHECK_EQ(pipe.busy().cycles(), sum);
    }
  }
}

TEST(SumsDoNotDependOnTheirOrder) {
  std::mt19937 random(3);
  std::vector<double> claims;
  for (int i = 0; i < 1000; ++i) claims.push_back(1.0 / (1 + random() % 97));
  Capacity one(1, 64), other(1, 64);
  for (const double cycles : claims) one.Claim(0, cycles);
  std::shuffle(claims.begin(), claims.end(), random);
  for (const double cycles : claims) other.Claim(0, cycles);
  CHECK(one.busy() == other.busy());
}

}  // namespace
}  // namespace tilelang::emulator
