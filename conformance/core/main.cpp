// SPDX-License-Identifier: Apache-2.0
// Do the words that everything else is said in mean what they say?
#define BOOST_TEST_MODULE core
#include <boost/test/unit_test.hpp>
