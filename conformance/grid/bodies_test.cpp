// SPDX-License-Identifier: Apache-2.0
// Every kernel body on the emulator: within its bounds of kernels/ref, free of races, and not without its barriers.
#include <boost/test/unit_test.hpp>

#include "cases_rmsnorm.hpp"
#include "host_device.hpp"

namespace coli::grid {
namespace {

using cases::HostDevice;
using cases::kThreadSanitizer;
using cases::Report;

void check(const Report& report) {
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

BOOST_AUTO_TEST_SUITE(bodies)

BOOST_AUTO_TEST_CASE(rmsnorm) {
  on_the_emulator([](auto& device, Report& report) { cases::rmsnorm(device, report); });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace coli::grid
