// SPDX-License-Identifier: Apache-2.0
// expect: QuantFormat: add  static void decode(const std::byte* block, float* values) noexcept
#include "whole_policies.hpp"

struct Careless : WholeFormat {
  static void decode(const std::byte*, float*) noexcept(!COLI_FAULT) {}
};
static_assert(coli::require_quant_format<Careless>());
