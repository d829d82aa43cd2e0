// SPDX-License-Identifier: Apache-2.0
// Draws a token: repetition penalty, top-k, temperature, top-p and min-p, then one draw from a seeded generator.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "coli/contracts/sampler.hpp"
#include "coli/sample/greedy.hpp"
#include "coli/sample/rng.hpp"

namespace coli {

struct SamplingOptions {
  double temperature = 0.8;     // 0: greedy
  std::uint32_t top_k = 0;      // 0: all
  double top_p = 1;             // keep the likeliest tokens that together reach this probability
  double min_p = 0;             // keep tokens at least this likely relative to the likeliest
  double repeat_penalty = 1;    // 1: off; divides positive, multiplies negative logits of tokens seen
  std::uint64_t seed = 0;

  /// Errors: usage, naming the option.
  Result<void> validate() const {
    const auto refuse = [](const char* option, double value, const char* range) {
      char text[32];
      const char* const end = std::to_chars(text, text + sizeof text, value).ptr;
      return Error{Errc::usage, std::string(static_cast<const char*>(text), end) + " is out of range; expected " + range, option};
    };
    if (!(temperature >= 0 && temperature <= 1e6)) return refuse("--temp", temperature, "0 (greedy) to 1000000");
    if (!(top_p > 0 && top_p <= 1)) return refuse("--top-p", top_p, "more than 0, at most 1");
    if (!(min_p >= 0 && min_p <= 1)) return refuse("--min-p", min_p, "0 to 1");
    if (!(repeat_penalty > 0 && repeat_penalty <= 1e6)) return refuse("--repeat-penalty", repeat_penalty, "more than 0, at most 1000000; 1 is off");
    return {};
  }
};

/// Filters apply in this order: penalty, top-k, temperature and softmax (f64), top-p, min-p. Where a filter ranks
/// tokens, ties go to the lower id. A token e^60 times less likely than the likeliest is never drawn.
class RandomSampler {
 public:
  explicit RandomSampler(const SamplingOptions& options) : options_(options), rng_(options.seed) {}

  /// Counts `token` as seen for the repetition penalty (prompt and generated tokens).
  void saw(TokenId token) {
    if (options_.repeat_penalty != 1) seen_.insert(token);
  }

  Result<TokenId> next(std::span<const float> logits) {
    if (options_.repeat_penalty != 1) {
      penalised_.assign(logits.begin(), logits.end());
      for (const TokenId token : seen_) {
        if (token.value < 0 || static_cast<std::size_t>(token.value) >= penalised_.size()) continue;
        float& logit = penalised_[static_cast<std::size_t>(token.value)];
        if (!std::isfinite(logit)) continue;  // never sampled, or refused below
        constexpr double kMost = std::numeric_limits<float>::max();  // a penalty must not make a logit infinite
        logit = static_cast<float>(std::clamp(logit > 0 ? logit / options_.repeat_penalty : logit * options_.repeat_penalty, -kMost, kMost));
      }
      logits = penalised_;
    }
    COLI_TRY(top, top_two(logits));  // refuses what is not finite
    if (options_.temperature == 0) return top.best;

    // Sorting a whole vocabulary costs more than a layer: sort only as far as the filters look.
    candidates_.clear();
    double sum = 0;
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const double exponent = (static_cast<double>(logits[i]) - top.first) / options_.temperature;
      if (exponent < kNegligible) continue;
      candidates_.push_back({logits[i], static_cast<std::int32_t>(i), std::exp(exponent)});
    }
    std::size_t kept = candidates_.size();
    if (options_.top_k != 0 && options_.top_k < kept) sort_first(kept = options_.top_k);
    for (std::size_t i = 0; i < kept; ++i) sum += candidates_[i].weight;
    double mass = sum;
    if (options_.top_p < 1) {
      const double enough = options_.top_p * sum;
      std::size_t sorted = 0, n = 0;
      for (mass = 0; n < kept && (n == 0 || mass < enough); ++n) {
        if (n == sorted) sort_first(sorted = std::min(kept, std::max<std::size_t>(64, 8 * sorted)));
        mass += candidates_[n].weight;
      }
      kept = n;
    }
    if (options_.min_p > 0) {  // the likeliest token's weight is exactly 1
      const auto end = std::remove_if(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(kept),
                                      [&](const Candidate& c) { return c.weight < options_.min_p; });
      kept = static_cast<std::size_t>(end - candidates_.begin());
      mass = 0;
      for (std::size_t i = 0; i < kept; ++i) mass += candidates_[i].weight;
    }

    double draw = rng_.uniform() * mass;
    for (std::size_t i = 0; i < kept; ++i) {
      draw -= candidates_[i].weight;
      if (draw < 0) return TokenId{candidates_[i].id};
    }
    return TokenId{candidates_[kept - 1].id};  // rounding ate the last sliver
  }

 private:
  struct Candidate {
    float logit;
    std::int32_t id;
    double weight;
  };
  static constexpr double kNegligible = -60;

  /// Puts the n likeliest candidates first, in order.
  void sort_first(std::size_t n) {
    std::partial_sort(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(n), candidates_.end(),
                      [](const Candidate& a, const Candidate& b) { return a.logit != b.logit ? a.logit > b.logit : a.id < b.id; });
  }

  SamplingOptions options_;
  Rng rng_;
  std::unordered_set<TokenId> seen_;
  std::vector<float> penalised_;
  std::vector<Candidate> candidates_;
};
static_assert(Sampler<RandomSampler>);

}  // namespace coli
