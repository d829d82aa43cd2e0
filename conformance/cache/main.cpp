// SPDX-License-Identifier: Apache-2.0
// The test program of include/coli/cache/.
#define BOOST_TEST_MODULE cache
#include <boost/test/unit_test.hpp>

#include "case_watchdog.hpp"

using coli::test::CaseWatchdog;
BOOST_TEST_GLOBAL_FIXTURE(CaseWatchdog);
