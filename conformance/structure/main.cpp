// SPDX-License-Identifier: Apache-2.0
// Does the tree keep the shape that CONTRIBUTING.md promises? Every rule here is also shown a planted fault.
#define BOOST_TEST_MODULE structure
#include <boost/test/unit_test.hpp>
