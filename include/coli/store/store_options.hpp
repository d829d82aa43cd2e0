// SPDX-License-Identifier: Apache-2.0
// Which store is asked for? Names as people type them, and what applies to several stores.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace coli {

enum class StoreKind { best, memory, mmap, pread, uring };

inline constexpr std::array<std::string_view, 5> kStoreKindNames{"auto", "memory", "mmap", "pread", "uring"};

constexpr std::string_view name_of(StoreKind kind) { return kStoreKindNames[static_cast<std::size_t>(kind)]; }

constexpr std::optional<StoreKind> parse_store_kind(std::string_view name) {
  for (std::size_t i = 0; i < kStoreKindNames.size(); ++i) {
    if (kStoreKindNames[i] == name) return static_cast<StoreKind>(i);
  }
  return std::nullopt;
}

struct StoreOptions {
  StoreKind kind = StoreKind::best;
  bool direct = true;      // ask for direct I/O
  unsigned depth = 0;      // reads with the kernel at once; 0: the store's default
  bool read_once = false;  // all experts will be read once, in order: what the page cache has need not come from disk
};

}  // namespace coli
