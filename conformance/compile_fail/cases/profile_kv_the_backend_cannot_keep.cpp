// SPDX-License-Identifier: Apache-2.0
// expect: profile: this backend keeps no keys and values of that format
#include "whole_policies.hpp"

#include "coli/backend/scalar.hpp"
#include "coli/profile.hpp"

using mine = coli::profile<"mine", coli::ScalarBackend, coli::all_formats, WholeEviction, COLI_FAULT ? coli::KvFormat::f16 : coli::KvFormat::f32>;
static_assert(sizeof(mine) == 1);
