// SPDX-License-Identifier: Apache-2.0
// Every other kernel body on the emulator: within its bounds of kernels/ref, free of races, and not without its barriers.
#include <boost/test/unit_test.hpp>

#include "cases_attend.hpp"
#include "cases_choice.hpp"
#include "cases_rmsnorm.hpp"
#include "cases_rows.hpp"
#include "on_the_emulator.hpp"

namespace coli::grid::cases {
namespace {

BOOST_AUTO_TEST_CASE(rmsnorm_cases) {
  on_the_emulator([](auto& device, Report& report) { rmsnorm_rows(device, report); });
}
BOOST_AUTO_TEST_CASE(row_cases) {
  on_the_emulator([](auto& device, Report& report) {
    exponential(device, report);
    rope(device, report);
    swiglu(device, report);
    combine(device, report);
  });
}
BOOST_AUTO_TEST_CASE(embed_cases) {
  on_the_emulator([](auto& device, Report& report) { embed(device, report); });
}
BOOST_AUTO_TEST_CASE(attend_cases) {
  const auto cases = [](auto& device, Report& report) { attend(device, report); };
  on_the_emulator(cases);
  needs_its_barrier(Planted::no_block_barrier, cases);
  needs_its_barrier(Planted::no_wait, cases);
}
BOOST_AUTO_TEST_CASE(top_k_cases) {
  const auto cases = [](auto& device, Report& report) { top_k(device, report); };
  on_the_emulator(cases);
  needs_its_barrier(Planted::no_warp_barrier, cases);
}
BOOST_AUTO_TEST_CASE(group_by_expert_cases) {
  on_the_emulator([](auto& device, Report& report) { group_by_expert(device, report); });
}
BOOST_AUTO_TEST_CASE(argmax_cases) {
  on_the_emulator([](auto& device, Report& report) { argmax(device, report); });
}

}  // namespace
}  // namespace coli::grid::cases
