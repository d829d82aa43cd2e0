// SPDX-License-Identifier: Apache-2.0
// Do the fast matrix products stay within their bounds, and do layout, batch and row split never change a bit?
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdio>
#include <limits>

#include "coli/kernels/ref/matvec.hpp"
#include "simd_matrix.hpp"
#include "tolerance.hpp"

namespace {

using namespace coli;
using namespace coli::test;

/// Every column of a product against kernels/ref: exactly what the kernel read, and the f32 vector it stands for.
template <class F>
void check_against_ref(const simd::KernelTable& table, Format format, const TestMatrix<F>& m, const std::vector<Column>& columns,
                       const std::vector<std::vector<float>>& y) {
  const bool bytes = table.matmul[static_cast<std::size_t>(format)].q8 != nullptr;
  const std::size_t blocks = m.n_cols / F::kValuesPerBlock;
  constexpr bool kHasMinimum = requires { F::kMinOffset; };
  std::size_t group = 32;
  if constexpr (requires { F::kValuesPerGroup; }) group = F::kValuesPerGroup;
  std::vector<float> exact(m.n_rows), wanted(m.n_rows);
  std::vector<double> magnitude(m.n_cols);
  for (std::size_t c = 0; c < columns.size(); ++c) {
    const std::vector<float> seen = bytes ? columns[c].dequantised() : columns[c].values;
    ref::matvec<F>(m.plain.get(), m.n_rows, m.n_cols, seen.data(), exact.data());
    ref::matvec<F>(m.plain.get(), m.n_rows, m.n_cols, columns[c].values.data(), wanted.data());
    std::size_t worst_row = m.n_rows;
    for (std::size_t r = 0; r < m.n_rows; ++r) {
      double sum_abs = 0, quantisation = 0;
      for (std::size_t b = 0; b < blocks; ++b)
        term_magnitudes<F>(m.plain.get() + (r * blocks + b) * F::kBytesPerBlock, magnitude.data() + b * F::kValuesPerBlock);
      for (std::size_t i = 0; i < m.n_cols; ++i) sum_abs += magnitude[i] * std::abs(static_cast<double>(seen[i]));
      if (bytes)
        for (std::size_t g = 0; g < m.n_cols; g += 32) {
          float largest = 0;
          for (std::size_t i = g; i < g + 32; ++i) largest = std::max(largest, std::abs(columns[c].values[i]));
          for (std::size_t i = g; i < g + 32; ++i) quantisation += magnitude[i] * quantise_bound(static_cast<double>(largest));
        }
      const double bound = bytes ? byte_matmul_bound(m.n_cols / group, kHasMinimum, sum_abs) : float_matmul_bound(m.n_cols, sum_abs);
      const double off = std::abs(static_cast<double>(y[c][r]) - static_cast<double>(exact[r]));
      const double far = std::abs(static_cast<double>(y[c][r]) - static_cast<double>(wanted[r]));
      if (!(off <= bound + kRoundoff * std::abs(static_cast<double>(exact[r]))) || !(far <= bound + quantisation + kRoundoff * std::abs(static_cast<double>(wanted[r])))) worst_row = r;
    }
    BOOST_TEST(worst_row == m.n_rows, table.isa << " " << F::name.text << " " << m.n_rows << "x" << m.n_cols << " column " << c << " row " << worst_row
                                                << ": " << (worst_row < m.n_rows ? y[c][worst_row] : 0) << " is out of bounds");
  }
}

std::vector<Column> random_columns(const simd::KernelTable& table, std::size_t n, std::size_t n_cols, unsigned seed) {
  std::vector<Column> columns;
  for (std::size_t c = 0; c < n; ++c) columns.emplace_back(table, random_floats(n_cols, seed + static_cast<unsigned>(c), c % 3 == 1 ? 100.0f : 1.0f));
  return columns;
}

std::vector<std::vector<float>> product(const simd::KernelTable& table, Format format, const simd::Rows& rows, const std::vector<Column>& columns) {
  std::vector<std::vector<float>> y(columns.size(), std::vector<float>(rows.n_rows));
  std::vector<const Column*> in;
  std::vector<float*> out;
  for (std::size_t c = 0; c < columns.size(); ++c) in.push_back(&columns[c]), out.push_back(y[c].data());
  multiply(table, format, rows, in, out);
  return y;
}

/// Columns of a few lengths that every format allows, odd counts of blocks among them.
template <class F>
std::vector<std::size_t> column_counts() {
  if (F::kValuesPerBlock == 1) return {1, 3, 4, 66, 259};
  return {F::kValuesPerBlock, 3 * F::kValuesPerBlock, F::kValuesPerBlock * (F::kValuesPerBlock == 32 ? 18 : 2)};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(simd_matmul)

BOOST_AUTO_TEST_CASE(says_which_instruction_sets_it_tested) {
  for (const TableChoice& choice : table_choices())
    if (choice.table == nullptr) std::printf("SKIP: this processor does not run %s\n", choice.isa.c_str());
    else std::printf("kernels tested: %s\n", choice.isa.c_str());
  BOOST_TEST(table_choices().size() > 0u, "this build has no kernel table");
}

BOOST_AUTO_TEST_CASE(every_shape_is_within_the_bound_and_every_split_has_the_same_bits) {
  for_each_table([](const simd::KernelTable& table) {
    for_each_format([&]<class F>(Format format) {
      for (std::size_t n_cols : column_counts<F>())
        for (std::size_t n_rows : {1, 15, 16, 17, 31, 33}) {
          const TestMatrix<F> m(table, format, n_rows, n_cols, static_cast<unsigned>(n_rows * 1000 + n_cols));
          const std::vector<Column> columns = random_columns(table, 3, n_cols, 7);
          const auto y = product(table, format, m.rows(Layout::prepared), columns);
          check_against_ref(table, format, m, columns, y);
          const auto plain = product(table, format, m.rows(Layout::plain), columns);
          std::vector<float> by_tile(n_rows);
          for (std::size_t r = 0; r < n_rows; r += 16)
            multiply(table, format, m.rows(Layout::prepared, r, std::min(r + 16, n_rows)), {&columns[0]}, {by_tile.data()});
          for (std::size_t c = 0; c < columns.size(); ++c) BOOST_TEST(same_bits(y[c], plain[c]), table.isa << " " << F::name.text << ": plain is not prepared");
          BOOST_TEST(same_bits(y[0], by_tile), table.isa << " " << F::name.text << ": a row range is not the whole");
        }
    });
  });
}

BOOST_AUTO_TEST_CASE(a_batch_is_its_columns_one_by_one) {
  for_each_table([](const simd::KernelTable& table) {
    for_each_format([&]<class F>(Format format) {
      const std::size_t n_cols = std::max<std::size_t>(2 * F::kValuesPerBlock, 96);
      const TestMatrix<F> m(table, format, 20, n_cols, 3);
      const std::vector<Column> columns = random_columns(table, 17, n_cols, 11);
      const auto all = product(table, format, m.rows(Layout::prepared), columns);
      for (std::size_t n : {1, 2, 3, 4, 5, 6, 7, 8, 9, 17}) {
        const auto some = product(table, format, m.rows(Layout::prepared), {columns.begin(), columns.begin() + static_cast<std::ptrdiff_t>(n)});
        for (std::size_t c = 0; c < n; ++c) BOOST_TEST(same_bits(some[c], all[c]), table.isa << " " << F::name.text << ": column " << c << " of " << n);
      }
    });
  });
}

// Weights and activations at their extremes: an integer sum that wrapped or saturated would be far outside the bound.
BOOST_AUTO_TEST_CASE(extremes_do_not_overflow) {
  for_each_table([](const simd::KernelTable& table) {
    for_each_format([&]<class F>(Format format) {
      const std::size_t n_cols = std::max<std::size_t>(2 * F::kValuesPerBlock, 64);
      for (Fill fill : {Fill::all_ones, Fill::all_zeros, Fill::random}) {
        TestMatrix<F> m(table, format, 17, n_cols, 5, fill);
        if constexpr (std::is_same_v<F, Q8_0>) {  // the byte that has no positive twin
          if (fill == Fill::all_ones) {
            for (std::size_t i = 0; i < m.n_bytes; ++i)
              if (i % F::kBytesPerBlock >= F::kQuantsOffset) m.plain[i] = std::byte{0x80};
            table.matmul[static_cast<std::size_t>(format)].prepare(m.plain.get(), m.n_rows, m.n_cols, m.prepared.get());
          }
        }
        std::vector<Column> columns;
        for (float sign : {1.0f, -1.0f}) columns.emplace_back(table, std::vector<float>(n_cols, sign * 127));
        std::vector<float> alternating(n_cols);
        for (std::size_t i = 0; i < n_cols; ++i) alternating[i] = i % 2 == 0 ? 3 : -3.0f;
        columns.emplace_back(table, alternating);
        check_against_ref(table, format, m, columns, product(table, format, m.rows(Layout::prepared), columns));
      }
    });
  });
}

BOOST_AUTO_TEST_CASE(prepare_is_a_permutation_that_unprepares) {
  for_each_table([](const simd::KernelTable& table) {
    for_each_format([&]<class F>(Format format) {
      for (std::size_t n_rows : {1, 16, 31, 48}) {
        const std::size_t n_cols = F::kValuesPerBlock == 1 ? 37 : 3 * F::kValuesPerBlock;
        const TestMatrix<F> m(table, format, n_rows, n_cols, 9);
        std::vector<std::byte> a(m.plain.get(), m.plain.get() + m.n_bytes), b(m.prepared.get(), m.prepared.get() + m.n_bytes);
        std::vector<float> direct(n_cols), through(n_cols);
        for (std::size_t r = 0; r < n_rows; ++r) {
          simd::decode_row<F>(m.rows(Layout::plain), r, direct.data());
          simd::decode_row<F>(m.rows(Layout::prepared), r, through.data());
          BOOST_TEST(same_bits(direct, through), F::name.text << ": row " << r << " of " << n_rows);
        }
        std::sort(a.begin(), a.end());
        std::sort(b.begin(), b.end());
        BOOST_TEST((a == b), F::name.text << ": prepare invents bytes");
      }
    });
  });
}

BOOST_AUTO_TEST_CASE(pieces_prepared_alone_are_the_whole) {
  for_each_table([](const simd::KernelTable& table) {
    for_each_format([&]<class F>(Format format) {
      const std::size_t n_rows = 100, n_cols = F::kValuesPerBlock == 1 ? 35 : 3 * F::kValuesPerBlock, row = bytes_for<F>(n_cols);
      const TestMatrix<F> m(table, format, n_rows, n_cols, 13);
      ExactBytes pieces(new std::byte[m.n_bytes]);
      for (std::size_t r = 0; r < n_rows; r += simd::kPieceRows)
        table.matmul[static_cast<std::size_t>(format)].prepare(m.plain.get() + r * row, std::min(simd::kPieceRows, n_rows - r), n_cols, pieces.get() + r * row);
      BOOST_TEST(std::memcmp(pieces.get(), m.prepared.get(), m.n_bytes) == 0, F::name.text << ": a piece prepared alone is not its part of the whole");
    });
  });
}

BOOST_AUTO_TEST_CASE(a_vector_that_is_not_finite_gives_nan_and_no_more) {
  for_each_table([](const simd::KernelTable& table) {
    for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}) {
      std::vector<float> x = random_floats(512, 1);
      x[300] = bad;
      const Column column(table, x);
      const TestMatrix<Q4_K> m(table, Format::q4_k, 16, 512, 2);
      std::vector<float> y(16);
      multiply(table, Format::q4_k, m.rows(Layout::prepared), {&column}, {y.data()});
      for (float v : y) BOOST_TEST(std::isnan(v));
    }
  });
}

BOOST_AUTO_TEST_CASE(kernel_ids_name_format_instruction_set_and_path) {
  for_each_table([](const simd::KernelTable& table) {
    for_each_format([&]<class F>(Format format) {
      const simd::MatmulKernel& k = table.matmul[static_cast<std::size_t>(format)];
      const std::string wanted = std::string("matmul/") + F::name.text + "/" + table.isa + (k.decoded != nullptr ? "/decoded" : "/x16");
      BOOST_TEST(k.id == wanted);
      BOOST_TEST((k.q8 != nullptr) + (k.f32 != nullptr) + (k.decoded != nullptr) == 1);
      BOOST_TEST(k.prepare != nullptr);
    });
  });
}

BOOST_AUTO_TEST_SUITE_END()
