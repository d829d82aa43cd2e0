// SPDX-License-Identifier: Apache-2.0
// The test program of include/coli/store/.
#define BOOST_TEST_MODULE store
#include <boost/test/unit_test.hpp>

#include "case_watchdog.hpp"

using coli::test::CaseWatchdog;
BOOST_TEST_GLOBAL_FIXTURE(CaseWatchdog);
