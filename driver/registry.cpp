// SPDX-License-Identifier: Apache-2.0
#include "driver/registry.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <vector>

#include "driver/isa/select.hpp"

namespace colidrv {

#define COLI_PROFILE(profile) extern const ProfileEntry profile##_profile;
#include "coli_profiles.inc"
#undef COLI_PROFILE

namespace {

/// Best first; profiles that are not in the list of the build are passed over.
constexpr std::array kPreference{std::string_view("cpu"), std::string_view("scalar")};

std::vector<const ProfileEntry*> in_order_of_preference() {
  std::vector<const ProfileEntry*> all{
#define COLI_PROFILE(profile) &profile##_profile,
#include "coli_profiles.inc"
#undef COLI_PROFILE
  };
  const auto rank = [](const ProfileEntry* p) { return std::find(kPreference.begin(), kPreference.end(), p->name); };
  std::stable_sort(all.begin(), all.end(), [&](const ProfileEntry* a, const ProfileEntry* b) { return rank(a) < rank(b); });
  return all;
}

std::string list_of_names() {
  std::string names;
  for (const ProfileEntry* p : profiles()) {
    const std::string why = p->why_not();
    names += (names.empty() ? "" : ", ") + std::string(p->name) + (why.empty() ? "" : " (not here: " + why + ")");
  }
  return names;
}

coli::Result<void> check_isa() {
  COLI_TRY(table, select_isa());
  (void)table;
  return {};
}

}  // namespace

std::span<const ProfileEntry* const> profiles() {
  static const std::vector<const ProfileEntry*> all = in_order_of_preference();
  return all;
}

coli::Result<const ProfileEntry*> find_profile(std::string_view name) {
  // Who asks for an instruction set must not be given another profile instead.
  if (name == "auto" && std::getenv("COLI_ISA") != nullptr) COLI_CHECK(check_isa());
  for (const ProfileEntry* p : profiles()) {
    if (name != "auto" && p->name != name) continue;
    const std::string why = p->why_not();
    if (why.empty()) return p;
    if (name != "auto") return coli::Error{coli::Errc::unavailable, why, "profile '" + std::string(name) + "'"};
  }
  return coli::Error{coli::Errc::unavailable, "is not in this build; in this build: " + list_of_names(), "profile '" + std::string(name) + "'"};
}

}  // namespace colidrv
