// SPDX-License-Identifier: Apache-2.0
// Every other kernel body on the emulator: within its bounds of kernels/ref, free of races, and not without its barriers.
#include <bit>
#include <boost/test/unit_test.hpp>

#include "cases_attend.hpp"
#include "cases_choice.hpp"
#include "cases_groups.hpp"
#include "cases_rmsnorm.hpp"
#include "cases_rows.hpp"
#include "on_the_emulator.hpp"

namespace coli::grid::cases {
namespace {

// What a device is compared by: two processors may differ in which NaN they return, and in nothing else.
BOOST_AUTO_TEST_CASE(a_digest_knows_one_nan_and_every_other_bit) {
  const auto digest = [](std::uint32_t bits) {
    Report report;
    report.digest(std::vector<float>{1.0f, std::bit_cast<float>(bits), 2.0f});
    return report.digests().front().hash;
  };
  for (const std::uint32_t nan : {0x7FFF'FFFFu, 0xFFC0'0000u, 0x7F80'0001u}) BOOST_TEST(digest(nan) == digest(0x7FC0'0000u), "NaN " << nan);
  BOOST_TEST(digest(0x7F80'0000u) != digest(0x7FC0'0000u));  // infinity
  BOOST_TEST(digest(0x8000'0000u) != digest(0));
  BOOST_TEST(digest(0x3F80'0001u) != digest(0x3F80'0000u));
  Report integers;  // of which none is NaN
  integers.digest(std::vector<std::uint32_t>{0x7FFF'FFFFu});
  integers.digest(std::vector<std::uint32_t>{0x7FC0'0000u});
  BOOST_TEST(integers.digests()[0].hash != integers.digests()[1].hash);
}

BOOST_AUTO_TEST_CASE(rmsnorm_cases) {
  on_the_emulator([](auto& device, Report& report) {
    rmsnorm_rows(device, report);
    rmsnorm_quantised(device, report);
  });
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
BOOST_AUTO_TEST_CASE(groups_cases) {
  on_the_emulator([](auto& device, Report& report) {
    expert_groups(device, report);
    set_groups(device, report);
  });
}
BOOST_AUTO_TEST_CASE(argmax_cases) {
  on_the_emulator([](auto& device, Report& report) { argmax(device, report); });
}

}  // namespace
}  // namespace coli::grid::cases
