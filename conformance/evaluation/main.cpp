// SPDX-License-Identifier: Apache-2.0
// Do evaluations compare what they claim to compare?
#define BOOST_TEST_MODULE evaluation
#include <boost/test/unit_test.hpp>
