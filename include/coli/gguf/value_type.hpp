// SPDX-License-Identifier: Apache-2.0
// What kinds of metadata value does GGUF have? Their ids, names and sizes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace coli::gguf {

/// The numbers are GGUF's own.
enum class ValueType : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, bool_, string, array, u64, i64, f64 };
inline constexpr std::uint32_t kValueTypes = 13;

constexpr std::string_view name_of(ValueType type) {
  constexpr std::array<std::string_view, kValueTypes> names{"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                                            "bool", "string", "array", "u64", "i64", "f64"};
  return names[static_cast<std::uint32_t>(type)];
}

/// Bytes of one value in a file; 0 for strings and arrays, whose size is their own affair.
constexpr std::size_t size_of(ValueType type) {
  constexpr std::array<std::uint8_t, kValueTypes> sizes{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return sizes[static_cast<std::uint32_t>(type)];
}

constexpr bool is_unsigned_integer(ValueType type) {
  return type == ValueType::u8 || type == ValueType::u16 || type == ValueType::u32 || type == ValueType::u64;
}
constexpr bool is_signed_integer(ValueType type) {
  return type == ValueType::i8 || type == ValueType::i16 || type == ValueType::i32 || type == ValueType::i64;
}
constexpr bool is_integer(ValueType type) { return is_unsigned_integer(type) || is_signed_integer(type); }
constexpr bool is_float(ValueType type) { return type == ValueType::f32 || type == ValueType::f64; }

}  // namespace coli::gguf
