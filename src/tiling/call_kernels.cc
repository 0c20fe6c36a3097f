#include "tiling/call_kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace tilelang::tiling {

namespace {

constexpr int64_t kRowsOfCalls[] = {16,   32,   64,   96,   128,  192,  256,  384,
                                    512,  768,  1024, 1280, 1536, 2048, 2560, 3072,
                                    3584, 4096, 5120, 6144, 8192, 16384};
constexpr int64_t kColumnsOfCalls[] = {1024, 2048, 4096, 8192, 16384};
// The share of the time of a mean call that a kernel has to save.
constexpr double kWorthKernel = 0.006;
// Candidates of a call that become kernels, the fastest ones.
constexpr size_t kFastest = 8;
constexpr double kNever = std::numeric_limits<double>::infinity();

// A kernel and what it means for each of the calls.
struct Option {
  CallKernel kernel;
  std::vector<double> times;  // microseconds; kNever where it does not run
  std::vector<double> waves;  // the cost of all waves
  double longest = 0;         // of the times
  bool is_known = false;      // whether the program can be rewritten to it
  bool applies = true;
};

class KernelChooser {
 public:
  KernelChooser(const TileRules& rules, const GemmProblem& problem, const TileSettings& settings) {
    for (int64_t rows : kRowsOfCalls) {
      for (int64_t columns : kColumnsOfCalls) {
        calls_.push_back(problem);
        if (problem.dynamic_m) calls_.back().m = rows;
        if (problem.dynamic_n) calls_.back().n = columns;
        if (!problem.dynamic_n) break;
      }
      if (!problem.dynamic_m) break;
    }
    std::map<std::pair<TileForm, bool>, Candidate> pool;
    for (const GemmProblem& call : calls_) Consider(rules.Propose(call), settings, &pool);
    for (const auto& [key, candidate] : pool)
      options_.push_back(OptionOf(rules, candidate, key.second));
  }

  std::vector<CallKernel> Choose(size_t count,
                                 const std::function<TiledLaunch(const CallKernel&)>& apply) {
    std::vector<const Option*> chosen;
    double loss = kNever;
    while (chosen.size() < count) {
      double most = chosen.empty() ? kNever : loss - kWorthKernel * Calls();
      std::vector<std::pair<double, Option*>> ranked;
      for (Option& option : options_) {
        if (!option.applies || (chosen.empty() && option.kernel.in_one_wave)) continue;
        double with = LossOf(With(chosen, &option));
        if (with < most) ranked.emplace_back(with, &option);
      }
      std::stable_sort(ranked.begin(), ranked.end(),
                       [](const auto& a, const auto& b) { return a.first < b.first; });
      auto next = std::find_if(ranked.begin(), ranked.end(),
                               [&](const auto& each) { return Applies(each.second, apply); });
      if (next == ranked.end()) break;
      loss = next->first;
      chosen = With(chosen, next->second);
    }
    std::vector<CallKernel> kernels;
    for (const Option* option : chosen) kernels.push_back(option->kernel);
    return kernels;
  }

 private:
  static bool Applies(Option* option, const std::function<TiledLaunch(const CallKernel&)>& apply) {
    if (!option->is_known) option->kernel.tiled = apply(option->kernel);
    option->is_known = true;
    option->applies = option->kernel.tiled.launch.defined();
    return option->applies;
  }

  double Calls() const { return static_cast<double>(calls_.size()); }

  // Adds the fastest candidates of one call to the pool.
  void Consider(const std::vector<Candidate>& candidates, const TileSettings& settings,
                std::map<std::pair<TileForm, bool>, Candidate>* pool) {
    std::vector<const Candidate*> allowed;
    for (const Candidate& c : candidates) {
      if (settings.Allow(c.form.tile.columns, c.form.pairs, c.form.parts)) allowed.push_back(&c);
    }
    std::stable_sort(allowed.begin(), allowed.end(), [](const auto* a, const auto* b) {
      return a->microseconds < b->microseconds;
    });
    best_.push_back(allowed.empty() ? kNever : allowed[0]->microseconds);
    size_t of_one_wave = 0;
    size_t of_any = 0;
    for (const Candidate* c : allowed) {
      if (c->IsOneWave() && of_one_wave++ < kFastest) pool->try_emplace({c->form, true}, *c);
      if (c->any_grid && of_any++ < kFastest) pool->try_emplace({c->form, false}, *c);
    }
  }

  Option OptionOf(const TileRules& rules, const Candidate& candidate, bool in_one_wave) const {
    Option option{{candidate, in_one_wave, {}}};
    for (const GemmProblem& call : calls_) {
      Candidate of_call = rules.Predict(call, candidate, in_one_wave);
      bool runs = !in_one_wave || of_call.IsOneWave();
      option.times.push_back(runs ? of_call.microseconds : kNever);
      auto waves = static_cast<double>(CeilDiv(of_call.tiles, of_call.wave));
      option.waves.push_back(waves * of_call.wave_cost);
      if (!runs || of_call.microseconds <= option.longest) continue;
      option.longest = of_call.microseconds;
      option.kernel.candidate = of_call;
    }
    return option;
  }

  // Returns the kernels with another one, in the order in which a call looks at them.
  static std::vector<const Option*> With(std::vector<const Option*> chosen, const Option* option) {
    auto after = [](const Option* a, const Option* b) {
      if (a->kernel.in_one_wave != b->kernel.in_one_wave) return a->kernel.in_one_wave;
      return a->kernel.in_one_wave && a->longest < b->longest;
    };
    chosen.insert(std::upper_bound(chosen.begin(), chosen.end(), option, after), option);
    return chosen;
  }

  // Returns the sum of the shares by which the calls take longer than with their best candidates.
  double LossOf(const std::vector<const Option*>& kernels) const {
    double loss = 0;
    for (size_t call = 0; call < best_.size(); ++call) {
      const Option* runs = nullptr;
      for (const Option* option : kernels) {
        if (std::isinf(option->times[call])) continue;
        if (option->kernel.in_one_wave) {
          runs = option;
          break;
        }
        if (runs == nullptr || option->waves[call] < runs->waves[call]) runs = option;
      }
      if (runs == nullptr) return kNever;
      loss += runs->times[call] / best_[call] - 1;
    }
    return loss;
  }

  std::vector<GemmProblem> calls_;
  std::vector<double> best_;  // microseconds of each call's best candidate
  std::vector<Option> options_;
};

}  // namespace

std::vector<CallKernel> ChooseKernels(const TileRules& rules, const GemmProblem& problem,
                                      const TileSettings& settings, size_t count,
                                      const std::function<TiledLaunch(const CallKernel&)>& apply) {
  return KernelChooser(rules, problem, settings).Choose(count, apply);
}

}  // namespace tilelang::tiling
