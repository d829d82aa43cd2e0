// SPDX-License-Identifier: Apache-2.0
// Does the model of decode time add up as its formula says? Hand-worked values, sums over all outcomes, and laws.
#include <boost/test/unit_test.hpp>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "coli/plan/decode_time.hpp"

namespace coli::conformance {
namespace {

namespace tt = boost::test_tools;
constexpr double kDisk = 1000;  // bytes a second

BOOST_AUTO_TEST_CASE(a_layer_is_the_formula) {
  // Trunk 2 s, experts 0.5 s and 800 bytes each, 6 resident, 2 missed: 2 + max(3, 1.6) + 0.5 would be 5.5, but eight
  // experts at 0.5 s take 4 s whatever the disk does.
  const DecodeTime hidden = layer_time({2, 0.5, 800, 6, 2}, kDisk);
  BOOST_TEST(hidden.seconds() == 6.0);
  BOOST_TEST(hidden.wait_seconds == 0.0);
  // 3 resident, 5 missed: 2 + max(1.5, 4) + 0.5 = 6.5, of which 2 + 4 is computing.
  const DecodeTime bound = layer_time({2, 0.5, 800, 3, 5}, kDisk);
  BOOST_TEST(bound.seconds() == 6.5);
  BOOST_TEST(bound.compute_seconds == 6.0);
  BOOST_TEST(bound.wait_seconds == 0.5);
  // Nothing resident: 2 + 6.4 + 0.5.
  BOOST_TEST(layer_time({2, 0.5, 800, 0, 8}, kDisk).seconds() == 8.9, tt::tolerance(1e-15));
  // Nothing missed, no experts at all: the disk doesn't count, not even one that stands still.
  BOOST_TEST(layer_time({2, 0.5, 800, 8, 0}, 0).seconds() == 6.0);
  BOOST_TEST(layer_time({2, 0, 0, 0, 0}, 0).seconds() == 2.0);
}

BOOST_AUTO_TEST_CASE(a_token_is_its_head_and_its_layers) {
  const std::array<LayerLoad, 3> layers{{{2, 0.5, 800, 3, 5}, {2, 0, 0, 0, 0}, {1, 0.5, 1000, 0, 1}}};
  const DecodeTime token = token_time(3, layers, kDisk);
  BOOST_TEST(token.seconds() == 3 + 6.5 + 2 + (1 + 1 + 0.5));
  BOOST_TEST(token.rate() == 1 / 14.0);
  BOOST_TEST(token_time(0, {}, kDisk).rate() == 0);
}

BOOST_AUTO_TEST_CASE(more_hits_a_faster_disk_and_smaller_experts_are_never_slower) {
  std::uint64_t state = 1;
  const auto random = [&] {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<double>(state >> 33) / 2147483648.0;
  };
  for (int i = 0; i < 2000; ++i) {
    const auto k = static_cast<std::uint32_t>(1 + random() * 16);
    const auto missed = static_cast<std::uint32_t>(random() * k + 1);
    const LayerLoad layer{random(), random(), 1000 * random(), k - missed, missed};
    const double disk = 10 + 5000 * random();
    const double seconds = layer_time(layer, disk).seconds();
    LayerLoad better = layer;
    ++better.resident, --better.missed;
    BOOST_TEST(layer_time(better, disk).seconds() <= seconds + 1e-12);
    BOOST_TEST(layer_time(layer, disk * 2).seconds() <= seconds);
    better = layer, better.expert_bytes /= 2;
    BOOST_TEST(layer_time(better, disk).seconds() <= seconds);
    // Never faster than computing all or reading all, never slower than both one after the other.
    const double reads = layer.missed * layer.expert_bytes / disk, computes = layer.trunk_seconds + k * layer.expert_seconds;
    BOOST_TEST(seconds >= std::max(computes, reads));
    BOOST_TEST(seconds <= computes + reads + 1e-12);
  }
}

/// The expectation as it is defined: over all subsets of misses.
double by_enumeration(const LayerLoad& layer, std::uint32_t k, double hit, double disk) {
  double sum = 0;
  for (std::uint32_t set = 0; set < (1U << k); ++set) {
    LayerLoad outcome = layer;
    outcome.missed = static_cast<std::uint32_t>(__builtin_popcount(set));
    outcome.resident = k - outcome.missed;
    sum += std::pow(1 - hit, outcome.missed) * std::pow(hit, outcome.resident) * layer_time(outcome, disk).seconds();
  }
  return sum;
}

BOOST_AUTO_TEST_CASE(the_expectation_is_over_every_outcome) {
  const LayerLoad layer{2, 0.5, 800, 0, 0};
  for (const std::uint32_t k : {1U, 2U, 8U, 10U})
    for (const double hit : {0.0, 0.001, 0.3, 0.5, 0.77, 0.999, 1.0})
      BOOST_TEST(expected_layer_time(layer, k, hit, kDisk).seconds() == by_enumeration(layer, k, hit, kDisk), tt::tolerance(1e-12));
  BOOST_TEST(expected_layer_time(layer, 0, 0.5, kDisk).seconds() == 2.0);
  // Far beyond what powers of probabilities could hold.
  const double many = expected_layer_time({0, 0, 1, 0, 0}, 60000, 0.5, 1).seconds();
  BOOST_TEST(many == 30000, tt::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(the_average_layer_is_slower_than_the_layer_of_the_average) {
  const LayerLoad even{0, 1, 1000, 4, 4};  // resident computing and reading balance at 4 misses
  BOOST_TEST(expected_layer_time(even, 8, 0.5, kDisk).seconds() > layer_time(even, kDisk).seconds());
}

}  // namespace
}  // namespace coli::conformance
