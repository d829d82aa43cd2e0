// SPDX-License-Identifier: Apache-2.0
// expect: QuantFormat: add  static constexpr FixedName name{"..."}
#include "whole_policies.hpp"

struct Nameless : WholeFormat {
#if COLI_FAULT
  static constexpr const char* name = "NAMELESS";
#endif
};
static_assert(coli::require_quant_format<Nameless>());
