// SPDX-License-Identifier: Apache-2.0
// Do the words that everything else is said in mean what they say?
#define BOOST_TEST_MODULE core
#include <boost/test/unit_test.hpp>

#include "case_watchdog.hpp"

using coli::test::CaseWatchdog;
BOOST_TEST_GLOBAL_FIXTURE(CaseWatchdog);
