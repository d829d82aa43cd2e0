// SPDX-License-Identifier: Apache-2.0
// expect: ExpertStore: add  Result<ReadTicket> submit(ExpertKey, Part, std::span<std::byte> destination, Urgency)
#include "whole_policies.hpp"

struct Calm : WholeStore {
#if COLI_FAULT
  coli::Result<coli::ReadTicket> submit(coli::ExpertKey, coli::Part, std::span<std::byte>) { return coli::ReadTicket{}; }
#endif
};
static_assert(coli::require_expert_store<Calm>());
