// SPDX-License-Identifier: Apache-2.0
// expect: profile: the second policy is a set of formats
#include "whole_policies.hpp"

#include "coli/backend/scalar.hpp"
#include "coli/profile.hpp"

#if COLI_FAULT
using chosen = coli::formats<coli::Q4_K, coli::F32, coli::Q4_K>;
#else
using chosen = coli::formats<coli::Q4_K, coli::F32>;
#endif
using mine = coli::profile<"mine", coli::ScalarBackend, chosen, WholeEviction>;
static_assert(sizeof(mine) == 1);
