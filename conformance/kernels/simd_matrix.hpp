// SPDX-License-Identifier: Apache-2.0
// Test matrices in any format and any extreme, vectors to multiply them with, and one call for every kernel signature.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "coli/kernels/simd/rows.hpp"
#include "coli/kernels/simd/unprepare.hpp"
#include "random_matrix.hpp"
#include "ref_random.hpp"
#include "simd_tables.hpp"

namespace coli::test {

/// Exactly n bytes on the heap, so that a sanitizer sees the first byte past them.
using ExactBytes = std::unique_ptr<std::byte[]>;

/// One vector in both of the forms that kernels read.
struct Column {
  std::vector<float> values;
  std::vector<simd::Q8Block> quantised;  // empty where values are not a multiple of 32

  Column(const simd::KernelTable& table, std::vector<float> x) : values(std::move(x)) {
    if (values.size() % 32 != 0) return;
    quantised.resize(simd::q8_blocks(values.size()));
    table.quantise(values.data(), values.size(), quantised.data());
  }
  /// What the byte kernels see.
  std::vector<float> dequantised() const {
    std::vector<float> x(values.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const simd::Q8Block& b = quantised[i / 256];
      x[i] = b.scale[i % 256 / 32] * static_cast<float>(b.quant[i % 256]);
    }
    return x;
  }
};

/// out[c] = rows of W times columns[c], by whichever entry of the table the format has.
inline void multiply(const simd::KernelTable& table, Format format, const simd::Rows& rows, const std::vector<const Column*>& columns,
                     const std::vector<float*>& out) {
  const simd::MatmulKernel& k = table.matmul[static_cast<std::size_t>(format)];
  std::vector<const simd::Q8Block*> q8;
  std::vector<const float*> f32;
  for (const Column* c : columns) q8.push_back(c->quantised.data()), f32.push_back(c->values.data());
  if (k.q8 != nullptr) k.q8(rows, q8.data(), columns.size(), out.data());
  else if (k.f32 != nullptr) k.f32(rows, f32.data(), columns.size(), out.data());
  else k.decoded(rows, simd::decoded_format(format), f32.data(), columns.size(), out.data());
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

/// A matrix in both layouts, exactly allocated.
template <class F>
struct TestMatrix {
  std::size_t n_rows, n_cols, n_bytes;
  ExactBytes plain, prepared;

  TestMatrix(const simd::KernelTable& table, Format format, std::size_t rows, std::size_t cols, unsigned seed, Fill fill = Fill::random)
      : n_rows(rows), n_cols(cols) {
    const std::vector<std::byte> bytes = test_matrix<F>(rows, cols, seed, fill);
    n_bytes = bytes.size();
    plain.reset(new std::byte[n_bytes]);
    prepared.reset(new std::byte[n_bytes]);
    std::copy(bytes.begin(), bytes.end(), plain.get());
    table.matmul[static_cast<std::size_t>(format)].prepare(plain.get(), rows, cols, prepared.get());
  }
  simd::Rows rows(Layout layout) const { return rows(layout, 0, n_rows); }
  simd::Rows rows(Layout layout, std::size_t begin, std::size_t end) const {
    return {layout == Layout::plain ? plain.get() : prepared.get(), layout, n_rows, n_cols, begin, end};
  }
};

}  // namespace coli::test
