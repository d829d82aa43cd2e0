// SPDX-License-Identifier: Apache-2.0
// The test program of include/coli/cache/.
#define BOOST_TEST_MODULE cache
#include <boost/test/unit_test.hpp>
