// SPDX-License-Identifier: Apache-2.0
#include "coli/profiles.hpp"
#include "driver/profile_entry.hpp"

namespace colidrv {
namespace {

coli::Result<coli::ScalarKernels> kernels() { return coli::ScalarKernels{}; }

}  // namespace

extern const ProfileEntry scalar_profile;
const ProfileEntry scalar_profile = entry_of<coli::profiles::scalar, kernels>();

}  // namespace colidrv
