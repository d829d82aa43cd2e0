// SPDX-License-Identifier: Apache-2.0
#include "driver/registry.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <vector>

#include "coli/profile_about.hpp"

namespace colidrv {

#define COLI_PROFILE(profile) extern const ProfileEntry profile##_profile;
#include "coli_profiles.inc"
#undef COLI_PROFILE

namespace {

/// Best first; profiles that are not in the list of the build are passed over, those that are not in this list are never
/// picked: grid is for tests, cuda is not proven on hardware yet.
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
  for (const coli::KnownProfile& known : coli::kKnownProfiles)
    if (std::none_of(profiles().begin(), profiles().end(), [&](const ProfileEntry* p) { return p->name == known.name; })) names += ", " + std::string(known.name) + " (not in this build)";
  return names;
}

}  // namespace

std::span<const ProfileEntry* const> profiles() {
  static const std::vector<const ProfileEntry*> all = in_order_of_preference();
  return all;
}

coli::Result<const ProfileEntry*> find_profile(std::string_view name) {
  // Who asks for an instruction set must not be given a profile that has none to choose.
  const bool wants_isa = name == "auto" && std::getenv("COLI_ISA") != nullptr;
  std::string last_why;
  for (const ProfileEntry* p : profiles()) {
    if (name != "auto" ? p->name != name : wants_isa && p->isa == nullptr) continue;
    if (name == "auto" && std::find(kPreference.begin(), kPreference.end(), p->name) == kPreference.end()) continue;
    const std::string why = p->why_not();
    if (why.empty()) return p;
    last_why = why;
    if (name != "auto") return coli::Error{coli::Errc::unavailable, "is not available here; there are: " + list_of_names(), "profile '" + std::string(name) + "'"};
  }
  if (wants_isa) return coli::Error{coli::Errc::unavailable, last_why.empty() ? "is set, but no profile of this build chooses an instruction set; in this build: " + list_of_names() : last_why, last_why.empty() ? "COLI_ISA" : ""};
  const bool known = coli::known_profile(name) != nullptr;
  return coli::Error{coli::Errc::unavailable, (known ? "not in this build (COLI_PROFILES); there are: " : "is not in this build; there are: ") + list_of_names(), "profile '" + std::string(name) + "'"};
}

}  // namespace colidrv
