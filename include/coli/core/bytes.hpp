// SPDX-License-Identifier: Apache-2.0
// How many bytes? A typed count with checked arithmetic, binary units only.
#pragma once

#include <array>
#include <charconv>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace coli {

/// A count of bytes. Sums saturate at the largest value instead of wrapping, so that an absurd request is
/// refused as too large and never as negative.
struct Bytes {
  std::uint64_t value{};

  constexpr Bytes() = default;
  constexpr explicit Bytes(std::uint64_t v) noexcept : value(v) {}
  friend constexpr auto operator<=>(Bytes, Bytes) = default;

  friend constexpr Bytes operator+(Bytes a, Bytes b) noexcept {
    const std::uint64_t sum = a.value + b.value;
    return Bytes{sum < a.value ? std::numeric_limits<std::uint64_t>::max() : sum};
  }
  friend constexpr Bytes operator-(Bytes a, Bytes b) noexcept { return Bytes{a.value > b.value ? a.value - b.value : 0}; }
  friend constexpr Bytes operator*(Bytes a, std::uint64_t n) noexcept {
    std::uint64_t product = 0;
    return Bytes{__builtin_mul_overflow(a.value, n, &product) ? std::numeric_limits<std::uint64_t>::max() : product};
  }
  constexpr Bytes& operator+=(Bytes b) noexcept { return *this = *this + b; }
};

inline constexpr std::uint64_t kKiB = 1024;
inline constexpr std::uint64_t kMiB = 1024 * kKiB;
inline constexpr std::uint64_t kGiB = 1024 * kMiB;

/// "1.50 GiB": for people. Machines get the plain count.
inline std::string to_text(Bytes bytes) {
  char text[48];
  if (bytes.value < kKiB) {
    std::snprintf(text, sizeof text, "%llu B", static_cast<unsigned long long>(bytes.value));
    return text;
  }
  constexpr std::array units{"KiB", "MiB", "GiB"};
  std::size_t unit = 0;
  auto v = static_cast<double>(bytes.value) / static_cast<double>(kKiB);
  for (; v >= 1023.995 && unit + 1 < units.size(); ++unit) v /= 1024;  // what would print as 1024.00 is 1.00 of the next
  std::snprintf(text, sizeof text, "%.2f %s", v, units[unit]);
  return text;
}

/// Reads "4096", "512K", "1.5G", "6GiB": bytes, or K, M, G, T (iB) as powers of 1024. Nothing else is a size: no sign,
/// no space, no decimal unit, no part of a byte. Whole numbers are exact over all of 64 bits.
inline std::optional<Bytes> parse_bytes(std::string_view text) {
  const std::string_view number = text.substr(0, text.find_first_not_of("0123456789."));
  std::string_view unit = text.substr(number.size());
  if (number.empty() || number.front() == '.' || number.back() == '.') return std::nullopt;
  unsigned shift = 0;
  if (!unit.empty() && unit != "B") {
    const std::size_t letter = std::string_view("KMGT").find(unit.front() >= 'a' ? static_cast<char>(unit.front() - 32) : unit.front());
    if (letter == std::string_view::npos || (unit.size() > 1 && unit.substr(1) != "iB")) return std::nullopt;
    shift = 10 * static_cast<unsigned>(letter + 1);
  }
  const char* const end = number.data() + number.size();
  if (number.find('.') == std::string_view::npos) {
    std::uint64_t whole = 0;
    if (std::from_chars(number.data(), end, whole).ec != std::errc{}) return std::nullopt;
    if (whole > std::numeric_limits<std::uint64_t>::max() >> shift) return std::nullopt;
    return Bytes{whole << shift};
  }
  double value = 0;
  const auto [rest, error] = std::from_chars(number.data(), end, value, std::chars_format::fixed);
  if (error != std::errc{} || rest != end || shift == 0) return std::nullopt;
  value *= static_cast<double>(std::uint64_t{1} << shift);
  if (!(value < 0x1.0p63)) return std::nullopt;
  return Bytes{static_cast<std::uint64_t>(value)};
}

}  // namespace coli
