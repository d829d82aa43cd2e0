// SPDX-License-Identifier: Apache-2.0
// What does the least policy that meets each contract look like? Cases derive from it and spoil one thing.
#pragma once

#include "coli/contracts/eviction_policy.hpp"
#include "coli/contracts/expert_store.hpp"
#include "coli/contracts/quant_format.hpp"
#include "coli/contracts/sampler.hpp"
#include "coli/core/fixed_name.hpp"

struct WholeFormat {
  static constexpr coli::FixedName name{"WHOLE"};
  static constexpr std::size_t kValuesPerBlock = 2;
  static constexpr std::size_t kBytesPerBlock = 1;
  static void decode(const std::byte*, float*) noexcept {}
};
static_assert(coli::require_quant_format<WholeFormat>() && coli::QuantFormat<WholeFormat>);

struct WholeEviction {
  static constexpr coli::FixedName name{"whole"};
  explicit WholeEviction(coli::EvictionShape) {}
  void on_fill(coli::SlotId, coli::ExpertKey) noexcept {}
  void on_hit(coli::SlotId, coli::ExpertKey) noexcept {}
  void on_erase(coli::SlotId, coli::ExpertKey) noexcept {}
  std::optional<coli::SlotId> victim(const coli::Evictable&, coli::ExpertKey) noexcept { return std::nullopt; }
  void reset() noexcept {}
};
static_assert(coli::require_eviction_policy<WholeEviction>() && coli::EvictionPolicy<WholeEviction>);

struct WholeStore {
  static constexpr coli::FixedName name{"whole"};
  coli::Result<coli::ReadTicket> submit(coli::ExpertKey, coli::Part, std::span<std::byte>, coli::Urgency) {
    return coli::ReadTicket{};
  }
  std::optional<coli::Completion> poll() { return std::nullopt; }
  std::optional<coli::Completion> wait(std::chrono::milliseconds) { return std::nullopt; }
  void cancel(coli::ReadTicket) {}
  void promote(coli::ReadTicket) {}
  coli::StoreAlignment alignment() const noexcept { return {1, 0}; }
};
static_assert(coli::require_expert_store<WholeStore>() && coli::ExpertStore<WholeStore>);

struct WholeSampler {
  coli::Result<coli::TokenId> next(std::span<const float>) { return coli::TokenId{0}; }
};
static_assert(coli::require_sampler<WholeSampler>() && coli::Sampler<WholeSampler>);
