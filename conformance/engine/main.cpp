// SPDX-License-Identifier: Apache-2.0
#define BOOST_TEST_MODULE engine
#include <boost/test/unit_test.hpp>

#include "case_watchdog.hpp"

using coli::test::CaseWatchdog;
BOOST_TEST_GLOBAL_FIXTURE(CaseWatchdog);
