// SPDX-License-Identifier: Apache-2.0
// Are the right experts chosen, weighed and run?
#define BOOST_TEST_MODULE moe
#include <boost/test/unit_test.hpp>
