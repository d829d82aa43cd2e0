// SPDX-License-Identifier: Apache-2.0
// expect: QuantFormat: add  static void decode(const std::byte* block, float* values) noexcept
#include "whole_policies.hpp"

#if COLI_FAULT
struct Mute : WholeFormat {
  static void decode(const std::byte*, float*) = delete;
};
#else
struct Mute : WholeFormat {};
#endif
static_assert(coli::require_quant_format<Mute>());
