// SPDX-License-Identifier: Apache-2.0
// Matrices in any format, random or at their extremes.
#pragma once

#include <cstddef>
#include <random>
#include <vector>

#include "coli/quant/format.hpp"

namespace coli::test {

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

/// fn.operator()<F>(format) for all formats.
template <class Fn>
void for_each_format(Fn fn) {
  for (std::size_t f = 0; f < kFormats; ++f)
    visit_format(static_cast<Format>(f), [&]<class F>() { fn.template operator()<F>(static_cast<Format>(f)); });
}

}  // namespace coli::test
