// SPDX-License-Identifier: Apache-2.0
// How many bytes? A typed count with checked arithmetic, binary units only.
#pragma once

#include <charconv>
#include <compare>
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
  char buffer[48];
  const auto v = static_cast<double>(bytes.value);
  if (bytes.value < kKiB) std::snprintf(buffer, sizeof buffer, "%llu B", static_cast<unsigned long long>(bytes.value));
  else if (bytes.value < kMiB) std::snprintf(buffer, sizeof buffer, "%.2f KiB", v / static_cast<double>(kKiB));
  else if (bytes.value < kGiB) std::snprintf(buffer, sizeof buffer, "%.2f MiB", v / static_cast<double>(kMiB));
  else std::snprintf(buffer, sizeof buffer, "%.2f GiB", v / static_cast<double>(kGiB));
  return buffer;
}

/// Reads "4096", "512K", "1.5G", "6GiB": bytes, or K, M, G, T as powers of 1024. Nothing else is a size.
inline std::optional<Bytes> parse_bytes(std::string_view text) {
  double number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc{} || !(number >= 0)) return std::nullopt;
  std::string_view unit(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
  if (unit.size() > 1 && unit.ends_with("iB")) unit.remove_suffix(2);
  double scale = 1;
  if (unit == "K" || unit == "k") scale = static_cast<double>(kKiB);
  else if (unit == "M" || unit == "m") scale = static_cast<double>(kMiB);
  else if (unit == "G" || unit == "g") scale = static_cast<double>(kGiB);
  else if (unit == "T" || unit == "t") scale = static_cast<double>(kGiB) * 1024;
  else if (!unit.empty() && unit != "B") return std::nullopt;
  const double bytes = number * scale;
  if (!(bytes < 9.0e18)) return std::nullopt;
  return Bytes{static_cast<std::uint64_t>(bytes)};
}

}  // namespace coli
