// SPDX-License-Identifier: Apache-2.0
// expect: QuantFormat: add  static constexpr std::size_t kValuesPerBlock, kBytesPerBlock  (both > 0)
#include "whole_policies.hpp"

struct Nothing : WholeFormat {
  static constexpr std::size_t kValuesPerBlock = COLI_FAULT ? 0 : 2;
};
static_assert(coli::require_quant_format<Nothing>());
