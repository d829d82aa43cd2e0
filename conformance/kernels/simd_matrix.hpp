// SPDX-License-Identifier: Apache-2.0
// Test matrices in any format and any extreme, vectors to multiply them with, and one call for every kernel signature.
#pragma once

#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "coli/kernels/simd/rows.hpp"
#include "coli/kernels/simd/unprepare.hpp"
#include "ref_random.hpp"
#include "simd_tables.hpp"

namespace coli::test {

/// Exactly n bytes on the heap, so that a sanitizer sees the first byte past them.
using ExactBytes = std::unique_ptr<std::byte[]>;

enum class Fill { random, all_ones, all_zeros };  // of the quants; scales stay finite

/// Random or extreme blocks. Scales vary in sign and size where they are f16; a format's own encode where it has one value.
template <class F>
std::vector<std::byte> test_matrix(std::size_t n_rows, std::size_t n_cols, unsigned seed, Fill fill = Fill::random) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(n_rows * bytes_for<F>(n_cols));
  for (std::byte& b : bytes) b = fill == Fill::random ? static_cast<std::byte>(random()) : fill == Fill::all_ones ? std::byte{0xFF} : std::byte{0};
  const auto scale = [&] { return (static_cast<float>(random() % 2000) - 1000) * 1e-5f; };
  for (std::size_t at = 0; at < bytes.size(); at += F::kBytesPerBlock) {
    if constexpr (F::kValuesPerBlock == 1) {
      const float value = (static_cast<float>(random() % 4001) - 2000) * 1e-3f;
      F::encode(&value, bytes.data() + at);
    }
    if constexpr (requires { F::kScaleOffset; }) block::put_f16(bytes.data() + at + F::kScaleOffset, scale());
    if constexpr (requires { F::kMinOffset; }) block::put_f16(bytes.data() + at + F::kMinOffset, scale());
    if constexpr (requires { F::kExponentOffset; }) bytes[at] = static_cast<std::byte>(118 + random() % 8);
  }
  return bytes;
}

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

/// fn.operator()<F>(format) for all formats.
template <class Fn>
void for_each_format(Fn fn) {
  for (std::size_t f = 0; f < kFormats; ++f)
    visit_format(static_cast<Format>(f), [&]<class F>() { fn.template operator()<F>(static_cast<Format>(f)); });
}

}  // namespace coli::test
