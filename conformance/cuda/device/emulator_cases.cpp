// SPDX-License-Identifier: Apache-2.0
// The cases of every kernel body, on the emulator: the digests that a device is asked for.   emulator_cases --digests FILE
#include <vector>

#include "conformance/cuda/device/all_cases.hpp"
#include "conformance/grid/host_device.hpp"

int main(int argc, char** argv) {
  coli::grid::cases::HostDevice device({coli::grid::Scheduler::fibers, 5});
  coli::grid::cases::Report report;
  coli::grid::cases::all(device, report);
  return coli::grid::cases::tell(report, report.digests().size(), argc, argv);
}
