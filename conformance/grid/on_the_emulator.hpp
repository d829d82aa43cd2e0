// SPDX-License-Identifier: Apache-2.0
// Runs cases on the emulator: with every access checked, then in other orders of threads and blocks for the same bits.
#pragma once

#include <boost/test/unit_test.hpp>
#include <string>

#include "cases.hpp"
#include "host_device.hpp"

namespace coli::grid::cases {

inline void check(const Report& report) {
  for (const std::string& failure : report.failures()) BOOST_ERROR(failure);
  BOOST_TEST(report.n_checks() > 0u);
}

/// The cases of one body; again in other orders of threads and blocks, on two workers, for the same bits.
template <class Cases>
void on_the_emulator(Cases cases) {
  HostDevice checked;
  Report report;
  cases(checked, report);
  check(report);
  if (kThreadSanitizer) return;
  for (const std::uint64_t seed : {7u, 8u}) {
    HostDevice device({Scheduler::fibers, seed});
    Report again;
    cases(device, again);
    check(again);
    BOOST_TEST((again.digests() == report.digests()), "another order of threads gives other bits");
  }
}

/// The cases of a body that needs the barrier that `planted` leaves out: does the emulator say so?
template <class Cases>
void needs_its_barrier(Planted planted, Cases cases) {
  if (kThreadSanitizer) return;
  GridOptions options = HostDevice::checked();
  options.planted = planted;
  HostDevice device(options, std::size_t{1} << 20);
  Report report;
  cases(device, report);
  bool is_seen = false;
  for (const std::string& failure : report.failures())
    is_seen = is_seen || failure.find("with no barrier between them") != std::string::npos || failure.find("that nobody has written") != std::string::npos;
  BOOST_TEST(is_seen, "a barrier left out of the body goes unnoticed");
}

}  // namespace coli::grid::cases
