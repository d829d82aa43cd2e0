// SPDX-License-Identifier: Apache-2.0
// expect: EvictionPolicy: add  void on_hit(SlotId, ExpertKey) noexcept
#include "whole_policies.hpp"

struct Swapped : WholeEviction {
  using WholeEviction::WholeEviction;
#if COLI_FAULT
  void on_hit(coli::ExpertKey, coli::SlotId) noexcept {}
#endif
};
static_assert(coli::require_eviction_policy<Swapped>());
