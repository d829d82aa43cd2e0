// SPDX-License-Identifier: Apache-2.0
// expect: Sampler: add  Result<TokenId> next(std::span<const float> logits)
#include "whole_policies.hpp"

struct Zero : WholeSampler {
#if COLI_FAULT
  coli::TokenId next(std::span<const float>) { return coli::TokenId{0}; }  // NaN could not be an error
#endif
};
static_assert(coli::require_sampler<Zero>());
