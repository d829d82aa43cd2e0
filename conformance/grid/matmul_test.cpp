// SPDX-License-Identifier: Apache-2.0
// The matrix products on the emulator.
#include <boost/test/unit_test.hpp>

#include "cases_matmul.hpp"
#include "on_the_emulator.hpp"

namespace coli::grid::cases {
namespace {

BOOST_AUTO_TEST_CASE(quantise_cases) {
  on_the_emulator([](auto& device, Report& report) { quantise(device, report); });
}

BOOST_AUTO_TEST_CASE(matmul_cases) {
  on_the_emulator([](auto& device, Report& report) { matmul(device, report); });
}

}  // namespace
}  // namespace coli::grid::cases
