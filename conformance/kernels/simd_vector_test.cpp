// SPDX-License-Identifier: Apache-2.0
// Do the vector kernels (norm, rope, gate, softmax, sums, choices) compute what kernels/ref defines?
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <numeric>

#include "coli/kernels/ref/argmax.hpp"
#include "coli/kernels/ref/rmsnorm.hpp"
#include "coli/kernels/ref/rope.hpp"
#include "coli/kernels/ref/softmax.hpp"
#include "coli/kernels/ref/swiglu.hpp"
#include "coli/kernels/ref/top_k.hpp"
#include "coli/quant/half.hpp"
#include "guarded.hpp"
#include "simd_matrix.hpp"
#include "tolerance.hpp"

using namespace coli;
using namespace coli::test;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr std::size_t kLengths[] = {1, 2, 15, 16, 17, 63, 64, 65, 100, 128, 768, 2048};

void check_relative(float got, float wanted, double relative, double absolute, const char* what) {
  const double off = std::abs(static_cast<double>(got) - static_cast<double>(wanted));
  BOOST_TEST(off <= relative * std::abs(static_cast<double>(wanted)) + absolute, what << ": " << got << " instead of " << wanted);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(simd_vector)

BOOST_AUTO_TEST_CASE(rmsnorm_is_the_reference_s) {
  for_each_table([](const simd::KernelTable& table) {
    for (std::size_t n : kLengths)
      for (float size : {1.0f, 1e-4f, 1e4f}) {
        const std::vector<float> x = random_floats(n, 3, size), weight = random_floats(n, 4, 2);
        std::vector<float> y(n), wanted(n);
        table.rmsnorm(x.data(), weight.data(), n, 1e-6f, y.data());
        ref::rmsnorm(x.data(), weight.data(), n, static_cast<double>(1e-6f), wanted.data());
        // half the relative error of the sum of squares, then mean, root, quotient, two products, and the reference's own
        const double relative = gamma_n(static_cast<double>(n) / 64 + 10) / 2 + 6 * kRoundoff;
        for (std::size_t i = 0; i < n; ++i) check_relative(y[i], wanted[i], relative, 0, "rmsnorm");
        std::vector<float> in_place = x;
        table.rmsnorm(in_place.data(), weight.data(), n, 1e-6f, in_place.data());
        BOOST_TEST(same_bits(in_place, y));
      }
  });
}

BOOST_AUTO_TEST_CASE(rope_turns_pairs_like_the_reference) {
  for_each_table([](const simd::KernelTable& table) {
    for (std::size_t head_dim : {2, 6, 32, 34, 64, 80, 128, 256})
      for (std::uint64_t position : {0, 1, 7, 4097}) {
        const std::vector<float> x = random_floats(head_dim, 5);
        std::vector<float> turned = x, wanted = x, angles(head_dim);
        for (std::size_t i = 0; i < head_dim / 2; ++i) {
          const double angle = static_cast<double>(position) * std::pow(1e6, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
          angles[i] = static_cast<float>(std::cos(angle));
          angles[head_dim / 2 + i] = static_cast<float>(std::sin(angle));
        }
        table.rope(turned.data(), angles.data(), head_dim);
        ref::rope(wanted.data(), 1, head_dim, position, 1e6);
        for (std::size_t i = 0; i < head_dim; ++i) {
          const std::size_t j = i % (head_dim / 2);
          const double size = std::abs(static_cast<double>(x[j])) + std::abs(static_cast<double>(x[j + head_dim / 2]));
          check_relative(turned[i], wanted[i], 0, gamma_n(4) * size, "rope");
        }
      }
  });
}

BOOST_AUTO_TEST_CASE(swiglu_is_the_reference_s_over_the_whole_range) {
  for_each_table([](const simd::KernelTable& table) {
    for (float size : {1.0f, 20.0f, 86.0f})
      for (std::size_t n : kLengths) {
        const std::vector<float> gate = random_floats(n, 6, size), up = random_floats(n, 7);
        std::vector<float> out(n), wanted(n);
        table.swiglu(gate.data(), up.data(), n, out.data());
        ref::swiglu(gate.data(), up.data(), n, wanted.data());
        for (std::size_t i = 0; i < n; ++i) check_relative(out[i], wanted[i], 0x1p-20, 0, "swiglu");
      }
    const float gates[6] = {-1000, -90, 1000, 0, kNan, kInf}, ones[6] = {1, 1, 1, 1, 1, 1};
    float out[6];
    table.swiglu(gates, ones, 6, out);
    BOOST_TEST(out[0] == 0.0f);
    BOOST_TEST(std::abs(out[1]) <= 1e-36f);
    BOOST_TEST(out[2] == 1000.0f);
    BOOST_TEST(out[3] == 0.0f);
    BOOST_TEST(std::isnan(out[4]));
    BOOST_TEST(out[5] == kInf);
  });
}

BOOST_AUTO_TEST_CASE(softmax_sums_to_one_and_is_the_reference_s) {
  for_each_table([](const simd::KernelTable& table) {
    for (std::size_t n : kLengths)
      for (float size : {0.0f, 1.0f, 50.0f, 1e30f}) {
        const std::vector<float> x = random_floats(n, 8, size);
        std::vector<float> y(n), wanted(n);
        table.softmax(x.data(), n, y.data());
        ref::softmax(x.data(), n, wanted.data());
        // e^d of a rounded d = x - largest is off by |d| roundings of d, besides the polynomial's own error
        const double largest = *std::max_element(x.begin(), x.end());
        for (std::size_t i = 0; i < n; ++i) {
          const double d = std::min(largest - static_cast<double>(x[i]), 104.0);
          check_relative(y[i], wanted[i], 0x1p-20 + d * 2 * kRoundoff, 0x1p-125, "softmax");
        }
        const double sum = std::accumulate(y.begin(), y.end(), 0.0);
        BOOST_TEST(std::abs(sum - 1) <= 0x1p-19);
      }
    std::vector<float> x(20, 1.0f);
    x[7] = kNan;
    table.softmax(x.data(), x.size(), x.data());
    for (float v : x) BOOST_TEST(std::isnan(v));
  });
}

BOOST_AUTO_TEST_CASE(sums_are_exact_where_integers_allow) {
  for_each_table([](const simd::KernelTable& table) {
    for (std::size_t n : kLengths) {
      std::vector<float> out(n), x(n), rows(3 * n);
      for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<float>(i), x[i] = 2, rows[i] = 1, rows[n + i] = static_cast<float>(i), rows[2 * n + i] = -8;
      table.add(x.data(), n, out.data());
      const float weights[3] = {0.5f, 3, 0.25f};
      std::vector<float> sum = out;
      table.add_weighted(rows.data(), weights, 3, n, sum.data());
      for (std::size_t i = 0; i < n; ++i) {
        BOOST_TEST(out[i] == static_cast<float>(i) + 2);
        BOOST_TEST(sum[i] == out[i] + 0.5f + 3 * static_cast<float>(i) - 2);
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(choices_are_the_reference_s_with_ties_to_the_lower_id) {
  for_each_table([](const simd::KernelTable& table) {
    for (unsigned seed = 0; seed < 20; ++seed)
      for (std::size_t n : {1, 8, 16, 17, 60, 128, 1000}) {
        std::vector<float> x = random_floats(n, seed);
        if (seed % 2 == 0)
          for (float& v : x) v = std::round(v * 4);  // many ties, both zeros
        BOOST_TEST(table.argmax(x.data(), n) == *ref::argmax(x.data(), n));
        for (std::size_t k : {std::size_t{0}, std::size_t{1}, std::size_t{8}, n}) {
          if (k > n) continue;
          const conformance::Guarded<std::uint32_t> ids(k);  // not one id too many
          std::vector<std::uint32_t> wanted(k);
          BOOST_TEST(table.top_k(x.data(), n, k, ids.data()));
          BOOST_TEST(ref::top_k(x.data(), n, k, wanted.data()));
          BOOST_TEST(std::equal(wanted.begin(), wanted.end(), ids.data()));
        }
      }
  });
}

// What measures the memory must have read all of it: the sum of all words, whatever the streams.
BOOST_AUTO_TEST_CASE(read_loops_read_every_word) {
  std::vector<std::uint32_t> words(8 * 16 * 3);
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < words.size(); ++i) sum += words[i] = static_cast<std::uint32_t>(i * 2654435761U + 1);
  for_each_table([&](const simd::KernelTable& table) {
    for (const auto read : table.read) BOOST_TEST(read(reinterpret_cast<const std::byte*>(words.data()), words.size() * 4) == sum);
  });
}

BOOST_AUTO_TEST_CASE(choices_refuse_what_is_not_finite_anywhere) {
  for_each_table([](const simd::KernelTable& table) {
    for (float bad : {kNan, kInf, -kInf})
      for (std::size_t at : {0, 15, 16, 36}) {
        std::vector<float> x = random_floats(37, 9);
        x[at] = bad;
        std::uint32_t ids[4];
        BOOST_TEST(table.argmax(x.data(), x.size()) == ~std::size_t{0});
        BOOST_TEST(!table.top_k(x.data(), x.size(), 4, ids));
      }
    std::uint32_t ids[4];
    const float two[2] = {1, 2};
    BOOST_TEST(!table.top_k(two, 2, 3, ids));
    BOOST_TEST(table.argmax(two, 0) == ~std::size_t{0});
  });
}

BOOST_AUTO_TEST_CASE(f16_writes_are_the_format_s_rounding) {
  for_each_table([](const simd::KernelTable& table) {
    std::vector<float> x = random_floats(1000, 10, 3);
    for (float special : {0.0f, -0.0f, 65504.0f, 65520.0f, 1e-8f, -6e-5f, 2.98e-8f, kInf}) x.push_back(special);
    for (std::size_t n : {std::size_t{1}, std::size_t{16}, std::size_t{31}, x.size()}) {
      ExactBytes out(new std::byte[2 * n]);
      table.write_f16(x.data(), n, out.get());
      for (std::size_t i = 0; i < n; ++i) BOOST_TEST(block::u16(out.get() + 2 * i) == f32_to_f16(x[i]));
    }
  });
}

BOOST_AUTO_TEST_SUITE_END()
