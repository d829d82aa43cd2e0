// SPDX-License-Identifier: Apache-2.0
// The laws of the kit inside Boost.Test: broken ones fail the test, in their own words.
#pragma once

#include <boost/test/unit_test.hpp>

#include "coli/conformance/findings.hpp"

namespace coli::test {

inline void expect_obeyed(const conformance::Findings& found) { BOOST_TEST(static_cast<bool>(found), found.text()); }

}  // namespace coli::test
