// SPDX-License-Identifier: Apache-2.0
// Does text become the reference's ids, and ids the same text again?
#define BOOST_TEST_MODULE text
#include <boost/test/unit_test.hpp>
