// SPDX-License-Identifier: Apache-2.0
// Is the token that is drawn the one that the options and the seed say?
#define BOOST_TEST_MODULE sample
#include <boost/test/unit_test.hpp>
