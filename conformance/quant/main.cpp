// SPDX-License-Identifier: Apache-2.0
// Do the weight formats mean what their published definitions say?
#define BOOST_TEST_MODULE quant
#include <boost/test/unit_test.hpp>
