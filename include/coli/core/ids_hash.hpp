// SPDX-License-Identifier: Apache-2.0
// What is a prompt called where its tokens are not to be listed? By the SHA-256 of its ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "coli/core/ids.hpp"
#include "coli/core/sha256.hpp"

namespace coli {

/// Of the ids as 32-bit little-endian integers; 64 hexadecimal digits.
inline std::string hash_of_ids(std::span<const TokenId> ids) {
  Sha256 hash;
  for (const TokenId id : ids) {
    const auto v = static_cast<std::uint32_t>(id.value);
    const std::byte bytes[4]{static_cast<std::byte>(v), static_cast<std::byte>(v >> 8), static_cast<std::byte>(v >> 16), static_cast<std::byte>(v >> 24)};
    hash.update(bytes);
  }
  return hash.hex();
}

}  // namespace coli
