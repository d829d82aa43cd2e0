// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "coli/grid_profile.hpp"
#include "driver/profile_entry.hpp"

namespace colidrv {
namespace {

coli::Result<coli::DeviceKernels<coli::grid::HostQueues>> kernels() {
  coli::DeviceKernels<coli::grid::HostQueues> here{std::make_shared<coli::grid::HostQueues>(coli::grid::HostQueuesOptions{})};
  here.host = coli::ScalarKernels{};
  return here;
}

}  // namespace

extern const ProfileEntry grid_profile;
const ProfileEntry grid_profile = entry_of<coli::profiles::grid, kernels>();

}  // namespace colidrv
