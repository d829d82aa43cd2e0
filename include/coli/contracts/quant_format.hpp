// SPDX-License-Identifier: Apache-2.0
// What must a weight format provide? Its block, its sizes, and the one true decode.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "coli/contracts/names_itself.hpp"

namespace coli {

template <class F>
concept HasBlockLayout = requires {
  { F::kValuesPerBlock } -> std::convertible_to<std::size_t>;
  { F::kBytesPerBlock } -> std::convertible_to<std::size_t>;
  requires F::kValuesPerBlock > 0 && F::kBytesPerBlock > 0;
};
template <class F>
concept DecodesBlock = requires(const std::byte* block, float* values) {
  { F::decode(block, values) } noexcept -> std::same_as<void>;
};
template <class F>
concept EncodesBlock = requires(const float* values, std::byte* block) {
  { F::encode(values, block) } noexcept -> std::same_as<void>;
};

/// A row is whole blocks of kValuesPerBlock values in kBytesPerBlock bytes, little-endian, unaligned.
/// `decode(block, values)` is bit-exact to the published definition and reads exactly one block; it defines the
/// format. `encode` is optional (fixtures and synthetic models need it for some).
template <class F>
concept QuantFormat = NamesItself<F> && HasBlockLayout<F> && DecodesBlock<F>;

template <class F>
consteval bool require_quant_format() {
  static_assert(NamesItself<F>, "QuantFormat: add  static constexpr FixedName name{\"...\"}");
  static_assert(HasBlockLayout<F>, "QuantFormat: add  static constexpr std::size_t kValuesPerBlock, kBytesPerBlock  (both > 0)");
  static_assert(DecodesBlock<F>, "QuantFormat: add  static void decode(const std::byte* block, float* values) noexcept");
  return true;
}

/// Bytes of a row of `values` values; 0 where the row is not whole blocks (no row is empty).
template <QuantFormat F>
constexpr std::uint64_t bytes_for(std::uint64_t values) noexcept {
  return values % F::kValuesPerBlock == 0 ? values / F::kValuesPerBlock * F::kBytesPerBlock : 0;
}

}  // namespace coli
