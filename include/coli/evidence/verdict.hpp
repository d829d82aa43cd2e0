// SPDX-License-Identifier: Apache-2.0
// Was the candidate better? The one rule by which a technique is adopted: a pure function of samples.
//
// At least five samples an arm, the median at least 10 % better, ranges that don't overlap, the same output. What misses
// one of these is parked; what can't be compared is invalid. Two arms that do the same can overlap or differ by chance:
// full separation of 5 against 5 happens in 0.8 % of comparisons with no effect, and 10 % on top of that in fewer.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace coli {

enum class Outcome { adopted, parked, invalid };
inline constexpr std::string_view name_of(Outcome outcome) noexcept {
  return outcome == Outcome::adopted ? "adopted" : outcome == Outcome::parked ? "parked" : "invalid";
}

inline constexpr std::size_t kLeastSamples = 5;
inline constexpr double kLeastImprovement = 0.10;

struct Spread {
  std::size_t n = 0;
  double median = 0, least = 0, most = 0;

  static Spread of(std::span<const double> samples) {
    if (samples.empty()) return {};
    std::vector<double> sorted(samples.begin(), samples.end());
    std::sort(sorted.begin(), sorted.end());
    const std::size_t n = sorted.size();
    return {n, (sorted[(n - 1) / 2] + sorted[n / 2]) / 2, sorted.front(), sorted.back()};
  }
};

struct Verdict {
  Outcome outcome = Outcome::invalid;
  double improvement = 0;  // of the median, positive is better; 0.1 is 10 %
  std::string reason;
};

/// `higher`: more of the metric is better. `identical`: the arms were told to do the same (a control of the method).
inline Verdict judge(std::span<const double> baseline, std::span<const double> candidate, bool higher, bool same_output, bool identical) {
  for (const auto& arm : {baseline, candidate})
    for (const double sample : arm)
      if (!std::isfinite(sample) || sample <= 0) return {Outcome::invalid, 0, "a sample is not a positive number"};
  if (std::min(baseline.size(), candidate.size()) < kLeastSamples) return {Outcome::invalid, 0, "fewer than " + std::to_string(kLeastSamples) + " samples in an arm"};
  if (baseline.size() != candidate.size()) return {Outcome::invalid, 0, "the arms have different numbers of samples"};
  if (!same_output) return {Outcome::invalid, 0, "the output differs between runs: no time counts"};
  const Spread b = Spread::of(baseline), c = Spread::of(candidate);
  const double improvement = higher ? c.median / b.median - 1 : b.median / c.median - 1;
  if (identical) return {Outcome::parked, improvement, "both arms are the same: there is nothing to adopt"};
  if (improvement < kLeastImprovement) return {Outcome::parked, improvement, "the median improves by less than 10 %"};
  if (higher ? c.least <= b.most : c.most >= b.least) return {Outcome::parked, improvement, "the ranges overlap"};
  return {Outcome::adopted, improvement, "at least 10 % better, ranges apart, the same output"};
}

}  // namespace coli
