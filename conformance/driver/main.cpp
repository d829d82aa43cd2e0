// SPDX-License-Identifier: Apache-2.0
// Does colidrv do what it says, in every exit code and to the byte of what it prints? The real program is run.
#define BOOST_TEST_MODULE driver
#include <boost/test/unit_test.hpp>
