// SPDX-License-Identifier: Apache-2.0
// From a prompt to a text, over a scripted sequence instead of a model.
#define BOOST_TEST_MODULE generation
#include <boost/test/unit_test.hpp>
