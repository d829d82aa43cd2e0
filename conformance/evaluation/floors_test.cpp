// SPDX-License-Identifier: Apache-2.0
// Is a floor 80 % of the worst margin, truncated to two significant digits?
#include <boost/test/unit_test.hpp>
#include <limits>

#include "coli/evaluation/floors.hpp"

namespace coli::evaluation {
namespace {

BOOST_AUTO_TEST_SUITE(floors)

BOOST_AUTO_TEST_CASE(by_hand) {
  BOOST_TEST(*floor_under(0.301F) == 0.24);   // 0.2408
  BOOST_TEST(*floor_under(1.335F) == 1.0);    // 1.068: rounding would give 1.1
  BOOST_TEST(*floor_under(1.029F) == 0.82);   // 0.8232
  BOOST_TEST(*floor_under(0.417F) == 0.33);   // 0.3336
  BOOST_TEST(*floor_under(12.49F) == 9.9);    // 9.992
  BOOST_TEST(*floor_under(124.9F) == 99);     // 99.92
  BOOST_TEST(*floor_under(0.0004963869F) == 0.00039);
  BOOST_TEST(*floor_under(1.25F) == 1);       // exactly
  BOOST_TEST(*floor_under(0) == 0);
  BOOST_TEST(!floor_under(std::numeric_limits<float>::infinity()).has_value());
}

BOOST_AUTO_TEST_CASE(never_above_what_was_measured) {
  for (float worst = 1e-6F; worst < 1e6F; worst *= 1.037F) {
    BOOST_TEST(*floor_under(worst) <= worst * 0.8 * (1 + 1e-15));
    BOOST_TEST(*floor_under(worst) > worst * 0.8 * 0.9);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace coli::evaluation
