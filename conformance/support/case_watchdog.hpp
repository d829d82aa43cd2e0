// SPDX-License-Identifier: Apache-2.0
// Which test case hangs? A program's time-out can't say; this ends the program with the case's name.
#pragma once

#include <boost/test/framework.hpp>
#include <boost/test/tree/observer.hpp>
#include <boost/test/tree/test_unit.hpp>
#include <boost/test/unit_test_suite.hpp>
#include <chrono>
#include <optional>

#include "watchdog.hpp"

namespace coli::test {

/// As a global fixture: each test case has `kPatience`, under the slowest sanitizer on a busy machine.
class CaseWatchdog : public boost::unit_test::test_observer {
 public:
  static constexpr std::chrono::seconds kPatience{240};

  CaseWatchdog() { boost::unit_test::framework::register_observer(*this); }
  ~CaseWatchdog() override { boost::unit_test::framework::deregister_observer(*this); }

  void test_unit_start(const boost::unit_test::test_unit& unit) override {
    if (unit.p_type == boost::unit_test::TUT_CASE) watchdog_.emplace(unit.full_name(), kPatience);
  }
  void test_unit_finish(const boost::unit_test::test_unit& unit, unsigned long) override {
    if (unit.p_type == boost::unit_test::TUT_CASE) watchdog_.reset();
  }

 private:
  std::optional<Watchdog> watchdog_;
};

}  // namespace coli::test
