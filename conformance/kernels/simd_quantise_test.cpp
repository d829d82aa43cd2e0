// SPDX-License-Identifier: Apache-2.0
// Do quantised vectors hold what activation.hpp says, on every instruction set?
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>

#include "simd_matrix.hpp"
#include "tolerance.hpp"

using namespace coli;
using namespace coli::test;

BOOST_AUTO_TEST_SUITE(simd_quantise)

BOOST_AUTO_TEST_CASE(fields_agree_with_each_other_and_with_the_input) {
  for_each_table([](const simd::KernelTable& table) {
    for (float size : {1.0f, 1e-30f, 1e30f, 3e-37f})
      for (std::size_t n : {32, 96, 256, 288, 768}) {
        const Column column(table, random_floats(n, static_cast<unsigned>(n), size));
        const std::vector<float> back = column.dequantised();
        for (std::size_t g = 0; g < n; g += 32) {
          const simd::Q8Block& b = column.quantised[g / 256];
          float largest = 0;
          int sum[2] = {};
          for (std::size_t i = 0; i < 32; ++i) {
            const int q = b.quant[g % 256 + i];
            sum[i / 16] += q;
            largest = std::max(largest, std::abs(column.values[g + i]));
            BOOST_TEST(std::abs(q) <= 127);
          }
          const std::size_t group = g % 256 / 32;
          BOOST_TEST(b.scale[group] == (largest / 127.0f < 0x1p-126f ? 0 : largest / 127.0f));
          BOOST_TEST(b.scaled_sum[group] == b.scale[group] * static_cast<float>(sum[0] + sum[1]));
          BOOST_TEST(b.neg32_sum16[2 * group] == -32 * sum[0]);
          BOOST_TEST(b.neg32_sum16[2 * group + 1] == -32 * sum[1]);
          for (std::size_t i = g; i < g + 32; ++i)
            BOOST_TEST(std::abs(static_cast<double>(back[i]) - static_cast<double>(column.values[i])) <= quantise_bound(static_cast<double>(largest)) + (b.scale[group] == 0 ? 0x1p-119 : 0));
        }
        if (n % 256 != 0) {  // nothing behind the last value
          const simd::Q8Block& last = column.quantised.back();
          for (std::size_t i = n % 256; i < 256; ++i) BOOST_TEST(last.quant[i] == 0);
          for (std::size_t g = n % 256 / 32; g < 8; ++g) BOOST_TEST((last.scale[g] == 0 && last.scaled_sum[g] == 0));
        }
      }
  });
}

BOOST_AUTO_TEST_CASE(rounds_to_nearest_and_ties_to_even) {
  for_each_table([](const simd::KernelTable& table) {
    std::vector<float> x(32, 0.0f);
    x[0] = 127, x[1] = 0.5f, x[2] = 1.5f, x[3] = -2.5f, x[4] = 2.75f, x[5] = -127;
    const Column column(table, x);
    const std::int8_t wanted[6] = {127, 0, 2, -2, 3, -127};
    for (std::size_t i = 0; i < 6; ++i) BOOST_TEST(static_cast<int>(column.quantised[0].quant[i]) == static_cast<int>(wanted[i]));
  });
}

BOOST_AUTO_TEST_CASE(zeros_and_vanishing_groups_are_zero) {
  for_each_table([](const simd::KernelTable& table) {
    for (float tiny : {0.0f, 1e-45f, 1e-38f}) {
      const Column column(table, std::vector<float>(32, tiny));
      BOOST_TEST(column.quantised[0].scale[0] == 0.0f);
      for (std::size_t i = 0; i < 32; ++i) BOOST_TEST(column.quantised[0].quant[i] == 0);
    }
  });
}

BOOST_AUTO_TEST_CASE(what_is_not_finite_marks_its_group_only) {
  for_each_table([](const simd::KernelTable& table) {
    for (float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
      std::vector<float> x(96, 1.0f);
      x[40] = bad;
      const Column column(table, x);
      BOOST_TEST(std::isnan(column.quantised[0].scale[1]));
      BOOST_TEST(std::isnan(column.quantised[0].scaled_sum[1]));
      BOOST_TEST(column.quantised[0].scale[0] == 1 / 127.0f);
      BOOST_TEST(column.quantised[0].scale[2] == 1 / 127.0f);
    }
  });
}

BOOST_AUTO_TEST_CASE(every_instruction_set_writes_the_same_bytes) {
  std::vector<std::vector<simd::Q8Block>> all;
  for_each_table([&](const simd::KernelTable& table) { all.push_back(Column(table, random_floats(1056, 5, 3)).quantised); });
  for (const auto& blocks : all) BOOST_TEST(std::memcmp(blocks.data(), all[0].data(), blocks.size() * sizeof(simd::Q8Block)) == 0);
}

BOOST_AUTO_TEST_SUITE_END()
