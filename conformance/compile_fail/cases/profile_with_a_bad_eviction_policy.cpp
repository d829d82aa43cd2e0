// SPDX-License-Identifier: Apache-2.0
// expect: EvictionPolicy: add  void reset() noexcept
#include "whole_policies.hpp"

#include "coli/backend/scalar.hpp"
#include "coli/profile.hpp"

struct Stubborn : WholeEviction {
  using WholeEviction::WholeEviction;
#if COLI_FAULT
  void reset() noexcept = delete;
#endif
};
using mine = coli::profile<"mine", coli::ScalarBackend, coli::all_formats, Stubborn>;
static_assert(coli::Profile<mine> && mine::name.view() == "mine");
static_assert(sizeof(mine) == 1);  // complete: its own checks have run
