// SPDX-License-Identifier: Apache-2.0
// expect: EvictionPolicy: add  std::optional<SlotId> victim(const Evictable&, ExpertKey incoming) noexcept
#include "whole_policies.hpp"

#if COLI_FAULT
using Victim = coli::SlotId;  // cannot say "none may go"
#else
using Victim = std::optional<coli::SlotId>;
#endif
struct First : WholeEviction {
  using WholeEviction::WholeEviction;
  Victim victim(const coli::Evictable&, coli::ExpertKey) noexcept { return Victim{}; }
};
static_assert(coli::require_eviction_policy<First>());
