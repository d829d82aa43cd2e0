// SPDX-License-Identifier: Apache-2.0
// expect: profile: a name is lower-case letters, digits, - and _, starts with a letter, and isn't auto
#include "whole_policies.hpp"

#include "coli/backend/scalar.hpp"
#include "coli/profile.hpp"

#if COLI_FAULT
using mine = coli::profile<"auto", coli::ScalarBackend, coli::all_formats, WholeEviction>;
#else
using mine = coli::profile<"automatic-1", coli::ScalarBackend, coli::all_formats, WholeEviction>;
#endif
static_assert(sizeof(mine) == 1);
