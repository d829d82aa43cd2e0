// SPDX-License-Identifier: Apache-2.0
// The most likely token; ties go to the lower id.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <string>

#include "coli/contracts/sampler.hpp"

namespace coli {

/// The two largest logits of a step, and whose the largest is.
struct TopTwo {
  TokenId best;
  float first;
  float second;  // -infinity where there is only one candidate
  float margin() const noexcept { return first - second; }
};

/// -infinity marks a token that may not be chosen. Errors: internal, where a logit is NaN or +infinity or none is finite.
inline Result<TopTwo> top_two(std::span<const float> logits) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  TopTwo top{TokenId{-1}, kNever, kNever};
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const float logit = logits[i];
    if (!(logit < std::numeric_limits<float>::infinity()))
      return Error{Errc::internal, "the logit of token " + std::to_string(i) + " is not finite (" + std::to_string(logit) + ")", "logits"};
    if (logit > top.first) {
      top.second = top.first;
      top.first = logit;
      top.best = TokenId{static_cast<std::int32_t>(i)};
    } else if (logit > top.second) {
      top.second = logit;
    }
  }
  if (top.best.value < 0) return Error{Errc::internal, "no token has a finite logit", "logits"};
  return top;
}

struct Greedy {
  Result<TokenId> next(std::span<const float> logits) const {
    COLI_TRY(top, top_two(logits));
    return top.best;
  }
};
static_assert(Sampler<Greedy>);

}  // namespace coli
