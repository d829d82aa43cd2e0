// SPDX-License-Identifier: Apache-2.0
// The kernel tests again, for a processor that is not this one: Boost.Test in its header-only form.
#define BOOST_TEST_MODULE kernels
#include <boost/test/included/unit_test.hpp>
