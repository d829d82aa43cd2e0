// SPDX-License-Identifier: Apache-2.0
// The test program of include/coli/evidence/ and of the route trace format.
#define BOOST_TEST_MODULE evidence
#include <boost/test/unit_test.hpp>
