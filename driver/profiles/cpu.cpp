// SPDX-License-Identifier: Apache-2.0
#include "coli/profiles.hpp"
#include "driver/isa/select.hpp"
#include "driver/profile_entry.hpp"

namespace colidrv {
namespace {

coli::Result<coli::SimdKernels> kernels() {
  COLI_TRY(table, select_isa());
  return coli::SimdKernels(*table);
}

std::string isa() {
  const auto table = select_isa();
  std::string text = table ? (*table)->isa : "none";
  text += "; in this build";
  for (const IsaEntry& entry : isas()) text += " " + std::string(entry.name) + (entry.runs_here() ? "" : " (not on this machine)");
  return text;
}

}  // namespace

extern const ProfileEntry cpu_profile;
const ProfileEntry cpu_profile = entry_of<coli::profiles::cpu, kernels>(isa);

}  // namespace colidrv
