// SPDX-License-Identifier: Apache-2.0
// Is the split between uploads and CPU work the best of all, at its edges too, and the placement fixed and even?
#include <boost/test/unit_test.hpp>
#include <limits>
#include <random>

#include "coli/plan/hybrid_split.hpp"

namespace coli::conformance {
namespace {

constexpr Bytes kExpert{2'654'208};  // 768 x 2048, two of Q4_K and one of Q6_K

std::uint32_t best_by_trial(std::uint32_t n, const SplitRates& rates) {
  std::uint32_t best = 0;
  for (std::uint32_t q = 1; q <= n; ++q)
    if (split_seconds(n, q, kExpert, rates) < split_seconds(n, best, kExpert, rates)) best = q;
  return best;
}

BOOST_AUTO_TEST_SUITE(hybrid_splitting)

BOOST_AUTO_TEST_CASE(whole_numbers_where_the_closed_form_is_whole) {
  // Both ends meet: 2 of 8 at 25 take as long as 6 of 8 at 75.
  BOOST_CHECK((hybrid_split(8, kExpert, {25e9, 75e9, 0}) == HybridSplit{2, 6}));
  // Of a memory that gives 100, uploads at 25 leave 75 of a CPU that could do 90.
  BOOST_CHECK((hybrid_split(8, kExpert, {25e9, 90e9, 100e9}) == HybridSplit{2, 6}));
  BOOST_CHECK_CLOSE(split_seconds(8, 2, kExpert, {25e9, 90e9, 100e9}), 2.0 * 2'654'208 / 25e9, 1e-9);
  // One upload less: the CPU does 3/100 of the 7 beside it at 75, the rest at 90.
  BOOST_CHECK_CLOSE(split_seconds(8, 1, kExpert, {25e9, 90e9, 100e9}), 2'654'208 * (1 / 25e9 + (7 - 3) / 90e9), 1e-9);
}

BOOST_AUTO_TEST_CASE(edges) {
  for (const double memory : {0.0, 60e9, 1e15}) {
    BOOST_CHECK((hybrid_split(0, kExpert, {25e9, 50e9, memory}) == HybridSplit{0, 0}));
    BOOST_CHECK((hybrid_split(1, kExpert, {25e9, 50e9, memory}) == HybridSplit{0, 1}));  // the faster alone
    BOOST_CHECK((hybrid_split(1, kExpert, {50e9, 25e9, memory}) == HybridSplit{1, 0}));
    BOOST_CHECK((hybrid_split(1, kExpert, {50e9, 50e9, memory}) == HybridSplit{0, 1}));  // a tie uploads less
    BOOST_CHECK((hybrid_split(1000, kExpert, {1e6, 50e9, memory}) == HybridSplit{0, 1000}));
    BOOST_CHECK((hybrid_split(1000, kExpert, {50e9, 1e3, memory}) == HybridSplit{1000, 0}));
  }
  // A CPU that uses all of the memory's rate gains nothing from uploads, which read the same memory.
  BOOST_CHECK((hybrid_split(8, kExpert, {25e9, 100e9, 100e9}) == HybridSplit{0, 8}));
  // Uploads that would use all of it: one processor at a time, so the faster.
  BOOST_CHECK((hybrid_split(8, kExpert, {60e9, 40e9, 50e9}) == HybridSplit{8, 0}));
  BOOST_CHECK_EQUAL(hybrid_split(0xFFFF'FFFF, kExpert, {25e9, 75e9, 0}).uploaded, 0x3FFF'FFFFU + 0U);
  BOOST_CHECK_EQUAL(hybrid_split(0xFFFF'FFFF, Bytes{0}, {25e9, 75e9, 0}).uploaded, 0U);
}

BOOST_AUTO_TEST_CASE(a_rate_that_is_not_measured_decides_nothing) {
  for (const double none : {0.0, -1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    BOOST_CHECK((hybrid_split(8, kExpert, {none, none, none}) == HybridSplit{8, 0}));
    BOOST_CHECK((hybrid_split(8, kExpert, {25e9, none, 60e9}) == HybridSplit{8, 0}));
    BOOST_CHECK((hybrid_split(8, kExpert, {none, 50e9, 60e9}) == HybridSplit{0, 8}));
  }
}

BOOST_AUTO_TEST_CASE(no_other_split_waits_less) {
  std::mt19937_64 random(8);
  std::uniform_real_distribution<double> exponent(7, 12);
  for (int round = 0; round < 3000; ++round) {
    SplitRates rates{std::pow(10, exponent(random)), std::pow(10, exponent(random)), 0};
    const double memory[] = {0, rates.compute, rates.compute * 1.5, std::max(rates.compute, rates.upload)};
    rates.memory = memory[round % 4];
    const auto n = static_cast<std::uint32_t>(random() % 40);
    const HybridSplit split = hybrid_split(n, kExpert, rates);
    BOOST_REQUIRE_EQUAL(split.uploaded + split.on_cpu, n);
    const std::uint32_t best = best_by_trial(n, rates);
    BOOST_CHECK_MESSAGE(split_seconds(n, split.uploaded, kExpert, rates) <= split_seconds(n, best, kExpert, rates) * (1 + 1e-12),
                        n << " at " << rates.upload << ", " << rates.compute << ": " << split.uploaded << ", better " << best);
  }
}

BOOST_AUTO_TEST_CASE(faster_uploads_never_upload_less) {
  for (const double memory : {0.0, 200e9}) {
    std::uint32_t before = 0;
    for (double upload = 1e9; upload < 100e9; upload *= 1.07) {
      const std::uint32_t q = hybrid_split(24, kExpert, {upload, 60e9, memory}).uploaded;
      BOOST_CHECK_GE(q, before);
      before = q;
    }
    BOOST_CHECK_GT(before, 12U);
  }
}

BOOST_AUTO_TEST_CASE(placement_is_even_and_has_its_count) {
  for (const std::uint32_t n : {1U, 2U, 7U, 64U, 128U, 511U})
    for (const std::uint32_t on_cpu : {0U, 1U, n / 3, n / 2, n - 1, n}) {
      const Placement placement{n, on_cpu};
      std::uint32_t count = 0;
      for (std::uint32_t e = 0; e < n; ++e) {
        count += placement.of(e) == RunsOn::cpu;
        // Of any first e + 1 experts the CPU has its share, rounded down.
        BOOST_CHECK_EQUAL(count, std::uint64_t{e + 1} * on_cpu / n);
      }
      BOOST_CHECK_EQUAL(count, on_cpu);
    }
  BOOST_CHECK_EQUAL(place_experts(128, 128, kExpert, {25e9, 50e9, 0}).on_cpu, 0U);
  BOOST_CHECK_EQUAL(place_experts(128, 200, kExpert, {25e9, 50e9, 0}).on_cpu, 0U);
  BOOST_CHECK_EQUAL(place_experts(128, 0, kExpert, {0, 50e9, 0}).on_cpu, 128U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace coli::conformance
