// SPDX-License-Identifier: Apache-2.0
// Were these bytes damaged? CRC-32 (IEEE 802.3, reflected), eight bytes a step: guards files that are written as a run goes on.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace coli {

namespace crc32_detail {
/// table[i][b]: what byte b does when i more zero bytes follow it.
consteval std::array<std::array<std::uint32_t, 256>, 8> make_tables() {
  std::array<std::array<std::uint32_t, 256>, 8> table{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1U) != 0 ? 0xEDB88320U : 0U);
    table[0][b] = crc;
  }
  for (std::size_t i = 1; i < 8; ++i)
    for (std::size_t b = 0; b < 256; ++b) table[i][b] = (table[i - 1][b] >> 8) ^ table[0][table[i - 1][b] & 255U];
  return table;
}
inline constexpr auto kTables = make_tables();
}  // namespace crc32_detail

/// The checksum of `bytes`, or of more than one range: pass what the range before gave.
inline std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t before = 0) noexcept {
  const auto& t = crc32_detail::kTables;
  const auto at = [&](std::size_t i) { return std::to_integer<std::uint32_t>(bytes[i]); };
  std::uint32_t crc = ~before;
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    const std::uint32_t low = crc ^ (at(i) | at(i + 1) << 8 | at(i + 2) << 16 | at(i + 3) << 24);
    crc = t[7][low & 255U] ^ t[6][low >> 8 & 255U] ^ t[5][low >> 16 & 255U] ^ t[4][low >> 24] ^ t[3][at(i + 4)] ^ t[2][at(i + 5)] ^
          t[1][at(i + 6)] ^ t[0][at(i + 7)];
  }
  for (; i < bytes.size(); ++i) crc = (crc >> 8) ^ t[0][(crc ^ at(i)) & 255U];
  return ~crc;
}

}  // namespace coli
