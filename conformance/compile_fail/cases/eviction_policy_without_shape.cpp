// SPDX-License-Identifier: Apache-2.0
// expect: EvictionPolicy: add a constructor from EvictionShape
#include "whole_policies.hpp"

struct Unshaped : WholeEviction {
#if COLI_FAULT
  Unshaped() : WholeEviction(coli::EvictionShape{}) {}
#else
  using WholeEviction::WholeEviction;
#endif
};
static_assert(coli::require_eviction_policy<Unshaped>());
