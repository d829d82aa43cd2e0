// SPDX-License-Identifier: Apache-2.0
// How deep a queue is kept, by what the device shows.
#include "coli/store/queue_depth.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace coli {
namespace {

void bunch(QueueDepth& depth, int times) {
  for (int i = 0; i < times; ++i) depth.woke(4 + static_cast<std::size_t>(i) % 5, 4 + static_cast<std::size_t>(i) % 5);
}

BOOST_AUTO_TEST_SUITE(queue_depth)

BOOST_AUTO_TEST_CASE(a_queue_is_kept_full) {
  QueueDepth depth(8);
  BOOST_TEST(!depth.in_bursts());
  BOOST_TEST(depth.room(0, 100) == 8U);
  BOOST_TEST(depth.room(3, 1) == 5U);
  BOOST_TEST(depth.room(8, 1) == 0U);
  BOOST_TEST(depth.room(9, 1) == 0U);
  BOOST_TEST(QueueDepth(0).room(0, 5) == 1U);
}

BOOST_AUTO_TEST_CASE(a_device_that_reports_whole_queues_gets_bursts_after_32_of_them) {
  QueueDepth depth(8);
  bunch(depth, 31);
  BOOST_TEST(!depth.in_bursts());
  depth.woke(8, 8);
  BOOST_TEST(depth.in_bursts());
}

BOOST_AUTO_TEST_CASE(what_shows_nothing_is_no_evidence) {
  QueueDepth depth(8);
  bunch(depth, 31);
  for (int i = 0; i < 100; ++i) {
    depth.woke(3, 3);  // few reads may well end together
    depth.woke(1, 1);
    depth.woke(5, 0);  // woken by something else
    depth.woke(0, 0);
  }
  BOOST_TEST(!depth.in_bursts());
  bunch(depth, 1);
  BOOST_TEST(depth.in_bursts());
}

BOOST_AUTO_TEST_CASE(one_that_came_alone_weighs_as_much_as_eight_that_came_together) {
  QueueDepth depth(8);
  bunch(depth, 31);
  depth.woke(8, 7);
  bunch(depth, 8);
  BOOST_TEST(!depth.in_bursts());
  bunch(depth, 1);
  BOOST_TEST(depth.in_bursts());
}

BOOST_AUTO_TEST_CASE(a_device_whose_reads_end_together_half_of_the_time_keeps_its_full_queue) {
  for (const std::uint32_t percent : {10U, 30U, 50U}) {
    QueueDepth depth(8);
    std::mt19937 random(percent);
    for (int i = 0; i < 200'000; ++i) {
      depth.woke(8, random() % 100 < percent ? 8 : 1);
      BOOST_TEST_REQUIRE(!depth.in_bursts());
    }
  }
}

BOOST_AUTO_TEST_CASE(a_device_that_reports_reads_one_by_one_gets_its_full_queue_back) {
  QueueDepth depth(8);
  bunch(depth, 100);
  for (int i = 0; i < 3; ++i) depth.woke(8, 1);
  BOOST_TEST(depth.in_bursts());
  depth.woke(4, 3);
  BOOST_TEST(!depth.in_bursts());
  BOOST_TEST(depth.room(3, 9) == 5U);
}

BOOST_AUTO_TEST_CASE(a_full_queue_is_tried_every_64th_burst) {
  QueueDepth depth(8);
  depth.begin_with_bursts();
  std::vector<int> full;
  for (int i = 1; i <= 200; ++i)
    if (depth.room(0, 6) == 8U) full.push_back(i);
  BOOST_TEST(full == (std::vector<int>{64, 128, 192}), boost::test_tools::per_element());
  for (int i = 0; i < 200; ++i) BOOST_TEST(depth.room(0, 3) == 2U);  // too few to show anything
}

BOOST_AUTO_TEST_CASE(a_demanded_depth_stays) {
  QueueDepth depth(4, false);
  bunch(depth, 100);
  BOOST_TEST(!depth.in_bursts());
  BOOST_TEST(depth.room(0, 3) == 4U);
}

BOOST_AUTO_TEST_CASE(a_burst_is_a_third_of_what_waits) {
  QueueDepth depth(8);
  depth.begin_with_bursts();
  for (const auto& [waiting, burst] : {std::pair<std::size_t, std::size_t>{0, 0}, {1, 1}, {2, 1}, {3, 2}, {4, 2}, {6, 2}, {8, 2}, {9, 3}, {12, 4}, {24, 8}, {384, 8}})
    BOOST_TEST(depth.room(0, waiting) == burst);
  for (std::size_t under_way = 1; under_way <= 8; ++under_way) BOOST_TEST(depth.room(under_way, 24) == 0U);  // until it has ended
  QueueDepth shallow(1);
  shallow.begin_with_bursts();
  BOOST_TEST(shallow.room(0, 9) == 1U);
}

BOOST_AUTO_TEST_CASE(bursts_shrink_to_one) {
  for (std::size_t all = 1; all <= 400; ++all) {
    QueueDepth depth(8);
    depth.begin_with_bursts();
    std::size_t last = 8, n = 0;
    for (std::size_t left = all; left != 0;) {
      const std::size_t burst = depth.room(0, left);
      if (++n == 64 && left >= 4) break;  // the full one
      BOOST_TEST_REQUIRE(burst >= 1U);
      BOOST_TEST_REQUIRE(burst <= std::min(left, last));
      left -= burst;
      last = burst;
    }
    BOOST_TEST_REQUIRE((last == 1U || n == 64U));  // nothing else is to be filled after what comes last
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace coli
