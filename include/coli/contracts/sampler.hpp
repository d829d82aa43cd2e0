// SPDX-License-Identifier: Apache-2.0
// What must a sampler provide? One token from one step's logits.
#pragma once

#include <concepts>
#include <span>

#include "coli/core/error.hpp"
#include "coli/core/ids.hpp"

namespace coli {

template <class S>
concept PicksToken = requires(S s, std::span<const float> logits) { { s.next(logits) } -> std::same_as<Result<TokenId>>; };

/// Laws (check_sampler_laws<S>()): the same seed gives the same tokens everywhere; ties go to the lower id; NaN is an
/// error; temperature 0 is greedy; a token that the vocabulary marks as never sampled is never picked (the engine
/// hands such logits over as -infinity).
template <class S>
concept Sampler = PicksToken<S>;

template <class S>
consteval bool require_sampler() {
  static_assert(PicksToken<S>, "Sampler: add  Result<TokenId> next(std::span<const float> logits)");
  return true;
}

}  // namespace coli
