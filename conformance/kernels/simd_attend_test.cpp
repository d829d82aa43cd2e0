// SPDX-License-Identifier: Apache-2.0
// Does the fast attention see what the reference sees, in f32 and f16, past the split of positions, for any head and token?
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "coli/kernels/ref/attend.hpp"
#include "coli/kernels/simd/attend.hpp"
#include "coli/quant/half.hpp"
#include "simd_matrix.hpp"
#include "tolerance.hpp"

using namespace coli;
using namespace coli::test;

namespace {

struct Cache {
  std::size_t n_positions, head_dim;
  std::vector<float> keys, values;  // what the kernels read, as floats
  ExactBytes key_bytes, value_bytes;

  Cache(std::size_t positions, std::size_t dim, bool f16, unsigned seed, float size = 1)
      : n_positions(positions), head_dim(dim), keys(random_floats(positions * dim, seed, size)), values(random_floats(positions * dim, seed + 1)) {
    key_bytes = store(keys, f16);
    value_bytes = store(values, f16);
  }
  static ExactBytes store(std::vector<float>& x, bool f16) {
    ExactBytes bytes(new std::byte[x.size() * (f16 ? 2 : 4)]);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (f16) {
        block::put_f16(bytes.get() + 2 * i, x[i]);
        x[i] = block::f16(bytes.get() + 2 * i);
      } else {
        block::put_u32(bytes.get() + 4 * i, std::bit_cast<std::uint32_t>(x[i]));
      }
    }
    return bytes;
  }
};

std::vector<float> run(const simd::KernelTable& table, bool f16, const Cache& cache, const std::vector<float>& queries, std::size_t n_positions) {
  std::vector<float> out(queries.size());
  const float scale = 1 / std::sqrt(static_cast<float>(cache.head_dim));
  (f16 ? table.attend_f16 : table.attend_f32)({queries.data(), cache.key_bytes.get(), cache.value_bytes.get(), 1, queries.size() / cache.head_dim, 0,
                                               n_positions, cache.head_dim, scale, out.data()});
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(simd_attend)

// A weight's relative error is the absolute error of its exponent: the score (head_dim / 16 + 6 roundings of sum |q k|
// / sqrt(head_dim)) and the subtraction; plus 2^-20 for exp, sums and merges. It reaches the output through values of at
// most 1.
BOOST_AUTO_TEST_CASE(is_the_reference_s_for_every_shape) {
  for_each_table([](const simd::KernelTable& table) {
    for (bool f16 : {false, true})
      for (std::size_t head_dim : {2, 16, 30, 64, 80, 128, 200, 256})
        for (std::size_t n_positions : {1, 2, 15, 16, 17, 255, 256, 257, 600}) {
          const Cache cache(n_positions, head_dim, f16, static_cast<unsigned>(head_dim + n_positions), 3);
          const std::vector<float> query = random_floats(head_dim, 77, 3);
          const std::vector<float> out = run(table, f16, cache, query, n_positions);
          std::vector<float> wanted(head_dim);
          std::vector<double> weights(n_positions);
          ref::attend(query.data(), cache.keys.data(), cache.values.data(), n_positions, head_dim, head_dim, weights.data(), wanted.data());
          double largest_score = 0;
          for (std::size_t p = 0; p < n_positions; ++p) {
            double sum = 0;
            for (std::size_t d = 0; d < head_dim; ++d) sum += std::abs(static_cast<double>(query[d]) * static_cast<double>(cache.keys[p * head_dim + d]));
            largest_score = std::max(largest_score, sum / std::sqrt(static_cast<double>(head_dim)));
          }
          const double score_error = gamma_n(static_cast<double>(head_dim) / 16 + 8) * largest_score;
          const double bound = 2 * std::expm1(2 * score_error) + 0x1p-19 + gamma_n(static_cast<double>(n_positions));
          double worst = 0;
          for (std::size_t d = 0; d < head_dim; ++d) worst = std::max(worst, std::abs(static_cast<double>(out[d]) - static_cast<double>(wanted[d])));
          BOOST_TEST(worst <= bound, table.isa << " head_dim " << head_dim << " positions " << n_positions << ": off by " << worst);
        }
  });
}

BOOST_AUTO_TEST_CASE(heads_together_are_heads_alone) {
  for_each_table([](const simd::KernelTable& table) {
    for (bool f16 : {false, true})
      for (std::size_t n_positions : {1, 19, 256, 300}) {
        const Cache cache(n_positions, 64, f16, 5);
        const std::vector<float> queries = random_floats(8 * 64, 6, 4);
        const std::vector<float> all = run(table, f16, cache, queries, n_positions);
        for (std::size_t n : {1, 2, 3, 5})
          for (std::size_t h = 0; h + n <= 8; h += n) {
            const std::vector<float> some(queries.begin() + static_cast<std::ptrdiff_t>(h * 64), queries.begin() + static_cast<std::ptrdiff_t>((h + n) * 64));
            const std::vector<float> wanted(all.begin() + static_cast<std::ptrdiff_t>(h * 64), all.begin() + static_cast<std::ptrdiff_t>((h + n) * 64));
            BOOST_TEST(same_bits(run(table, f16, cache, some, n_positions), wanted));
          }
      }
  });
}

// Every way in which tokens of a tile can lie about the end of a split; what later tokens see must not reach earlier ones.
BOOST_AUTO_TEST_CASE(tokens_together_are_tokens_alone) {
  for_each_table([](const simd::KernelTable& table) {
    for (bool f16 : {false, true})
      for (std::size_t head_dim : {30, 64, 128, 272})
        for (std::size_t n_positions : {1, 14, 250, 254, 255, 256, 509})
          for (std::size_t n_heads : {1, 3, 8}) {
            constexpr std::size_t kTokens = 7;
            const std::size_t stride = (n_heads + 1) * head_dim;  // a head of another KV head between
            Cache cache(n_positions + kTokens - 1, head_dim, f16, 11);
            const std::size_t bytes = head_dim * (f16 ? 2 : 4);
            std::memset(cache.key_bytes.get() + (n_positions + kTokens - 2) * bytes, 0xFF, bytes);  // NaN where only the last token may look
            std::memset(cache.value_bytes.get() + (n_positions + kTokens - 2) * bytes, 0xFF, bytes);
            const std::vector<float> queries = random_floats(kTokens * stride, 12, 2);
            std::vector<float> together(queries.size(), -1), alone(queries.size(), -1);
            const auto attend = f16 ? table.attend_f16 : table.attend_f32;
            attend({queries.data(), cache.key_bytes.get(), cache.value_bytes.get(), kTokens, n_heads, stride, n_positions, head_dim, 0.2F, together.data()});
            for (std::size_t t = 0; t < kTokens; ++t)
              attend({queries.data() + t * stride, cache.key_bytes.get(), cache.value_bytes.get(), 1, n_heads, 0, n_positions + t, head_dim, 0.2F,
                      alone.data() + t * stride});
            const std::size_t last = (kTokens - 1) * stride;
            BOOST_TEST(same_bits(std::vector<float>(together.begin(), together.begin() + static_cast<std::ptrdiff_t>(last)),
                                 std::vector<float>(alone.begin(), alone.begin() + static_cast<std::ptrdiff_t>(last))));
            for (std::size_t i = 0; i < n_heads * head_dim; ++i) BOOST_TEST(std::isnan(together[last + i]));
            BOOST_TEST(together[last - 1] == -1);  // not a head of ours
          }
  });
}

BOOST_AUTO_TEST_CASE(later_positions_are_not_read) {
  for_each_table([](const simd::KernelTable& table) {
    for (bool f16 : {false, true}) {
      const Cache all(300, 32, f16, 8);
      const std::vector<float> query = random_floats(32, 9);
      const std::vector<float> some = run(table, f16, all, query, 270);
      Cache cut(300, 32, f16, 8);
      const std::size_t bytes = 32 * (f16 ? 2 : 4);
      std::memset(cut.key_bytes.get() + 270 * bytes, 0xFF, 30 * bytes);
      std::memset(cut.value_bytes.get() + 270 * bytes, 0xFF, 30 * bytes);
      BOOST_TEST(same_bits(run(table, f16, cut, query, 270), some));
    }
  });
}

BOOST_AUTO_TEST_CASE(one_position_is_its_value) {
  for_each_table([](const simd::KernelTable& table) {
    const Cache cache(1, 48, false, 3);
    BOOST_TEST(same_bits(run(table, false, cache, random_floats(48, 4), 1), cache.values));
  });
}

BOOST_AUTO_TEST_CASE(nan_in_a_key_reaches_the_output) {
  for_each_table([](const simd::KernelTable& table) {
    Cache cache(400, 32, false, 3);
    std::memset(cache.key_bytes.get() + 100 * 32 * 4, 0xFF, 4);
    for (float v : run(table, false, cache, random_floats(32, 4), 400)) BOOST_TEST(std::isnan(v));
  });
}

BOOST_AUTO_TEST_SUITE_END()
