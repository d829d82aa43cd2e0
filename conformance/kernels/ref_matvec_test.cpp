// SPDX-License-Identifier: Apache-2.0
// Is the reference matrix product exact where it can be, linear, and independent of how rows are split?
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>

#include "coli/kernels/ref/matvec.hpp"
#include "coli/quant/format.hpp"
#include "ref_random.hpp"

namespace {

/// Random bytes with scales that are finite: any such block is valid.
template <class F>
std::vector<std::byte> random_matrix(std::size_t n_rows, std::size_t n_cols, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(n_rows * coli::bytes_for<F>(n_cols));
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  for (std::size_t at = 0; at < bytes.size(); at += F::kBytesPerBlock) {
    if constexpr (F::kValuesPerBlock == 1) {
      const float value = static_cast<float>(random() % 1000) * 0.01f - 5;
      F::encode(&value, bytes.data() + at);
    }
    if constexpr (requires { F::kScaleOffset; }) coli::block::put_f16(bytes.data() + at + F::kScaleOffset, 0.01f);
    if constexpr (requires { F::kMinOffset; }) coli::block::put_f16(bytes.data() + at + F::kMinOffset, 0.02f);
    if constexpr (requires { F::kExponentOffset; }) bytes[at] = std::byte{120};
  }
  return bytes;
}

template <class Fn>
void for_each_format(Fn fn) {
  for (std::size_t f = 0; f < coli::kFormats; ++f) coli::visit_format(static_cast<coli::Format>(f), fn);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(ref_matvec)

BOOST_AUTO_TEST_CASE(small_integers_by_hand) {
  const float w[2][3] = {{1, 2, 3}, {-4, 0.5f, 0}};
  const float x[3] = {10, 100, 1000};
  float y[2];
  coli::ref::matvec<coli::F32>(reinterpret_cast<const std::byte*>(w), 2, 3, x, y);
  BOOST_TEST(y[0] == 3210.0f);
  BOOST_TEST(y[1] == 10.0f);
}

// The f64 sum keeps what an f32 sum would lose: 2^24 + 1 - 2^24.
BOOST_AUTO_TEST_CASE(sums_in_f64_and_rounds_once) {
  const float w[3] = {16777216, 1, -16777216}, x[3] = {1, 1, 1};
  float y[1];
  coli::ref::matvec<coli::F32>(reinterpret_cast<const std::byte*>(w), 1, 3, x, y);
  BOOST_TEST(y[0] == 1.0f);
}

BOOST_AUTO_TEST_CASE(a_unit_vector_picks_a_column_of_the_decoded_matrix) {
  for_each_format([]<class F>() {
    const std::size_t n_cols = 2 * F::kValuesPerBlock, n_rows = 3;
    const auto w = random_matrix<F>(n_rows, n_cols, 1);
    for (std::size_t column = 0; column < n_cols; column += 1 + n_cols / 9) {
      std::vector<float> x(n_cols, 0.0f), y(n_rows), values(n_cols);
      x[column] = -2;
      coli::ref::matvec<F>(w.data(), n_rows, n_cols, x.data(), y.data());
      for (std::size_t r = 0; r < n_rows; ++r) {
        for (std::size_t b = 0; b < 2; ++b)
          F::decode(w.data() + (2 * r + b) * F::kBytesPerBlock, values.data() + b * F::kValuesPerBlock);
        BOOST_TEST_REQUIRE(y[r] == -2 * values[column], F::name.view());
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(any_split_of_rows_gives_the_same_bits_and_writes_its_rows_only) {
  for_each_format([]<class F>() {
    const std::size_t n_cols = 256, n_rows = 7;
    const auto w = random_matrix<F>(n_rows, n_cols, 2);
    const auto x = coli::test::random_floats(n_cols, 3);
    std::vector<float> whole(n_rows);
    coli::ref::matvec<F>(w.data(), n_rows, n_cols, x.data(), whole.data());
    for (std::size_t begin = 0; begin <= n_rows; ++begin)
      for (std::size_t end = begin; end <= n_rows; ++end) {
        std::vector<float> part(n_rows, 1234.5f);
        coli::ref::matvec_rows<F>(w.data(), begin, end, n_cols, x.data(), part.data());
        for (std::size_t r = 0; r < n_rows; ++r)
          BOOST_TEST_REQUIRE(part[r] == (r >= begin && r < end ? whole[r] : 1234.5f), F::name.view());
      }
  });
}

// Against sums in long double of a different order; the bound is that of an f64 sum and one f32 rounding.
BOOST_AUTO_TEST_CASE(equals_a_wider_sum_in_reverse_order) {
  for_each_format([]<class F>() {
    const std::size_t n_cols = 1024;
    const auto w = random_matrix<F>(4, n_cols, 5);
    const auto x = coli::test::random_floats(n_cols, 6);
    std::vector<float> y(4), row(n_cols);
    coli::ref::matvec<F>(w.data(), 4, n_cols, x.data(), y.data());
    for (std::size_t r = 0; r < 4; ++r) {
      for (std::size_t b = 0; b < n_cols / F::kValuesPerBlock; ++b)
        F::decode(w.data() + r * coli::bytes_for<F>(n_cols) + b * F::kBytesPerBlock,
                  row.data() + b * F::kValuesPerBlock);
      long double sum = 0, magnitude = 0;
      for (std::size_t i = n_cols; i-- > 0;) {
        sum += static_cast<long double>(row[i]) * x[i];
        magnitude += std::abs(static_cast<long double>(row[i]) * x[i]);
      }
      BOOST_TEST_REQUIRE(std::abs(y[r] - sum) <= std::abs(sum) * 0x1p-24L + magnitude * n_cols * 0x1p-53L,
                         F::name.view());
    }
  });
}

BOOST_AUTO_TEST_SUITE_END()
