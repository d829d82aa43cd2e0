// SPDX-License-Identifier: Apache-2.0
// Do faultss compare what they claim to compare?
#define BOOST_TEST_MODULE faults
#include <boost/test/unit_test.hpp>
