// SPDX-License-Identifier: Apache-2.0
// expect: ExpertStore: add  void cancel(ReadTicket)
#include "whole_policies.hpp"

struct Hasty : WholeStore {
#if COLI_FAULT
  void cancel(coli::ReadTicket) = delete;
#endif
};
static_assert(coli::require_expert_store<Hasty>());
