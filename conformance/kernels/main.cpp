// SPDX-License-Identifier: Apache-2.0
// Does each kernel compute what its operation means?
#define BOOST_TEST_MODULE kernels
#include <boost/test/unit_test.hpp>
