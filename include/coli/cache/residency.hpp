// SPDX-License-Identifier: Apache-2.0
// Which expert sits in which slot, and the other way round? One table for the whole model.
//
// Both directions are plain arrays: O(1), nothing is allocated after construction. Slots are numbered within their
// size class; a layer belongs to one class, so a key needs no class beside it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "coli/core/ids.hpp"

namespace coli {

class ResidencyTable {
 public:
  ResidencyTable() = default;
  ResidencyTable(std::uint32_t n_layers, std::uint32_t n_experts, std::span<const std::uint32_t> slots_per_class)
      : n_experts_(n_experts), slot_of_(std::size_t{n_layers} * n_experts, kNone) {
    for (const std::uint32_t slots : slots_per_class) key_of_.emplace_back(slots, Tenant{});
  }

  std::optional<SlotId> slot_of(ExpertKey key) const noexcept {
    const std::uint32_t slot = slot_of_[index(key)];
    return slot == kNone ? std::nullopt : std::optional(SlotId{slot});
  }
  std::optional<ExpertKey> key_of(std::uint32_t size_class, SlotId slot) const noexcept {
    const Tenant& tenant = key_of_[size_class][slot.value];
    return tenant.present ? std::optional(tenant.key) : std::nullopt;
  }

  void place(std::uint32_t size_class, SlotId slot, ExpertKey key) noexcept {
    slot_of_[index(key)] = slot.value;
    key_of_[size_class][slot.value] = {key, true};
  }
  void remove(std::uint32_t size_class, SlotId slot) noexcept {
    Tenant& tenant = key_of_[size_class][slot.value];
    slot_of_[index(tenant.key)] = kNone;
    tenant.present = false;
  }

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
  struct Tenant {
    ExpertKey key{};
    bool present = false;
  };
  std::size_t index(ExpertKey key) const noexcept {
    return std::size_t{key.layer.value} * n_experts_ + key.expert.value;
  }

  std::uint32_t n_experts_ = 0;
  std::vector<std::uint32_t> slot_of_;
  std::vector<std::vector<Tenant>> key_of_;
};

}  // namespace coli
