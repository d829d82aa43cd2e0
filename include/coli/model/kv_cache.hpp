// SPDX-License-Identifier: Apache-2.0
// What do earlier positions look like? Keys and values per layer, KV head and position.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "coli/contracts/cpu_kernels.hpp"
#include "coli/core/accountant.hpp"
#include "coli/core/buffer.hpp"
#include "coli/core/bytes.hpp"
#include "coli/core/error.hpp"

namespace coli {

constexpr std::string_view name_of(KvFormat f) { return f == KvFormat::f32 ? "f32" : "f16"; }
constexpr std::size_t value_bytes(KvFormat f) { return f == KvFormat::f32 ? 4 : 2; }

struct KvShape {
  std::uint32_t n_layers;
  std::uint32_t n_kv_heads;
  std::uint32_t head_dim;
  std::uint32_t capacity;  // positions
  KvFormat format;

  constexpr std::uint64_t head_bytes() const { return std::uint64_t{capacity} * head_dim * value_bytes(format); }
  constexpr Bytes bytes() const { return Bytes{head_bytes()} * (std::uint64_t{2} * n_layers * n_kv_heads); }
};

/// Owns all keys and values. A head's positions are adjacent, so that attention streams through memory.
class KvCache {
 public:
  KvCache() = default;
  /// `memory` says what kind of memory it takes (a backend, or HostMemory). Errors: over_budget.
  template <class Memory>
  static Result<KvCache> allocate(Memory& memory, Accountant& accountant, KvShape shape) {
    COLI_TRY(taken, memory.allocate(accountant, MemoryClass::kv, shape.bytes()));
    KvCache cache;
    cache.memory_ = std::move(taken);
    cache.shape_ = shape;
    return cache;
  }

  KvHead head(std::uint32_t layer, std::uint32_t kv_head) const noexcept {
    const std::uint64_t index = std::uint64_t{layer} * shape_.n_kv_heads + kv_head;
    std::byte* keys = memory_.data() + index * 2 * shape_.head_bytes();
    return {keys, keys + shape_.head_bytes(), shape_.format};
  }
  const KvShape& shape() const noexcept { return shape_; }

 private:
  Buffer memory_;
  KvShape shape_{};
};

}  // namespace coli
