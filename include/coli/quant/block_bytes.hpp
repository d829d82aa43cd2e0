// SPDX-License-Identifier: Apache-2.0
// How is a field read from, or written to, the bytes of a block?
//
// Blocks are little-endian and unaligned. Bytes are assembled one by one, which is free of aliasing and alignment
// rules, works in constant expressions and on any byte order, and compiles to one load or store.
#pragma once

#include <cstddef>
#include <cstdint>

#include "coli/quant/half.hpp"

namespace coli::block {

constexpr unsigned u8(const std::byte* at) noexcept { return std::to_integer<unsigned>(*at); }
constexpr int i8(const std::byte* at) noexcept { return static_cast<std::int8_t>(u8(at)); }
constexpr std::uint16_t u16(const std::byte* at) noexcept {
  return static_cast<std::uint16_t>(u8(at) | (u8(at + 1) << 8));
}
constexpr std::uint32_t u32(const std::byte* at) noexcept {
  return static_cast<std::uint32_t>(u8(at) | (u8(at + 1) << 8) | (u8(at + 2) << 16) | (u8(at + 3) << 24));
}
constexpr float f16(const std::byte* at) noexcept { return f16_to_f32(u16(at)); }

constexpr void put_u8(std::byte* at, unsigned value) noexcept { *at = static_cast<std::byte>(value & 0xFFu); }
constexpr void put_u16(std::byte* at, unsigned value) noexcept {
  put_u8(at, value);
  put_u8(at + 1, value >> 8);
}
constexpr void put_u32(std::byte* at, std::uint32_t value) noexcept {
  put_u16(at, value & 0xFFFFu);
  put_u16(at + 2, value >> 16);
}
constexpr void put_f16(std::byte* at, float value) noexcept { put_u16(at, f32_to_f16(value)); }

}  // namespace coli::block
