// SPDX-License-Identifier: Apache-2.0
// Several policies in one type, one of them chosen by name when a cache is made: one engine, many ways to evict.
//
// The price is one branch a call. The first policy of the list is what runs where no name is given.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <variant>

#include "coli/contracts/eviction_policy.hpp"
#include "coli/core/fixed_name.hpp"
#include "coli/core/ids.hpp"

namespace coli {

template <EvictionPolicy... Ps>
class OneOf {
 public:
  static constexpr FixedName name{"one-of"};
  static constexpr std::array<std::string_view, sizeof...(Ps)> kNames{Ps::name.view()...};

  static std::span<const std::string_view> names() noexcept { return kNames; }
  static bool holds(std::string_view wanted) noexcept {
    for (const std::string_view held : kNames)
      if (held == wanted) return true;
    return false;
  }

  /// Requires holds(wanted).
  OneOf(EvictionShape shape, std::string_view wanted) : policy_(make(shape, wanted, std::index_sequence_for<Ps...>{})) {}
  explicit OneOf(EvictionShape shape) : OneOf(shape, kNames.front()) {}

  std::string_view chosen() const noexcept { return kNames[policy_.index()]; }

  void on_fill(SlotId slot, ExpertKey key) noexcept {
    visit([&](auto& p) { p.on_fill(slot, key); });
  }
  void on_hit(SlotId slot, ExpertKey key) noexcept {
    visit([&](auto& p) { p.on_hit(slot, key); });
  }
  void on_erase(SlotId slot, ExpertKey key) noexcept {
    visit([&](auto& p) { p.on_erase(slot, key); });
  }
  std::optional<SlotId> victim(const Evictable& may_go, ExpertKey incoming) noexcept {
    return visit([&](auto& p) { return p.victim(may_go, incoming); });
  }
  void on_tick() noexcept {
    visit([](auto& p) {
      if constexpr (requires { p.on_tick(); }) p.on_tick();
    });
  }
  void reset() noexcept {
    visit([](auto& p) { p.reset(); });
  }

 private:
  using Policy = std::variant<Ps...>;

  template <std::size_t... I>
  static Policy make(EvictionShape shape, std::string_view wanted, std::index_sequence<I...>) {
    std::optional<Policy> made;
    ((wanted == kNames[I] ? void(made.emplace(std::in_place_index<I>, shape)) : void()), ...);
    return *std::move(made);
  }
  template <class Fn>
  decltype(auto) visit(Fn&& fn) noexcept {
    return std::visit(std::forward<Fn>(fn), policy_);
  }

  Policy policy_;
};

}  // namespace coli
