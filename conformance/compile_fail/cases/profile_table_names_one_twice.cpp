// SPDX-License-Identifier: Apache-2.0
// expect: static assertion failed || static_assert failed
#include <array>

#include "coli/profile_about.hpp"

static_assert(coli::names_are_sound(std::array{coli::KnownProfile{"cpu", ""}, coli::KnownProfile{COLI_FAULT ? "cpu" : "mine", ""}}), "a name is twice in the table");
