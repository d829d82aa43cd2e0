// SPDX-License-Identifier: Apache-2.0
// One store type for an engine whose rung of the I/O ladder is chosen when the model is opened.
// A read moves a megabyte: one visit a call costs nothing beside it.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <variant>

#include "coli/contracts/expert_store.hpp"
#include "coli/core/error.hpp"
#include "coli/core/fixed_name.hpp"
#include "coli/store/expert_index.hpp"
#include "coli/store/memory_store.hpp"
#include "coli/store/pread_store.hpp"

namespace coli {

class AnyStore {
  using Rung = std::variant<std::unique_ptr<MemoryStore>, std::unique_ptr<PreadStore>>;

  // First, because its deduced type must be known where it is called.
  template <class Fn>
  decltype(auto) visit(Fn&& fn) const {
    return std::visit([&](const auto& store) -> decltype(auto) { return fn(*store); }, rung_);
  }

 public:
  static constexpr FixedName name{"any"};

  /// Memory where the model is in memory already, else pread. The index must outlive the store. Errors: io.
  static Result<std::unique_ptr<AnyStore>> open(const ExpertIndex& index) {
    if (index.all_in_memory()) return std::unique_ptr<AnyStore>(new AnyStore(std::make_unique<MemoryStore>(index)));
    COLI_TRY(pread,
             PreadStore::open(index, {.workers = 4, .direct = true, .cached_first = true, .drop_behind = false}));
    return std::unique_ptr<AnyStore>(new AnyStore(std::move(pread)));
  }

  std::string_view rung() const {
    return visit([](auto& store) { return std::remove_reference_t<decltype(store)>::name.view(); });
  }

  Result<ReadTicket> submit(ExpertKey key, Part part, std::span<std::byte> destination, Urgency urgency) {
    return visit([&](auto& store) { return store.submit(key, part, destination, urgency); });
  }
  std::optional<Completion> poll() {
    return visit([](auto& store) { return store.poll(); });
  }
  std::optional<Completion> wait(std::chrono::milliseconds patience) {
    return visit([&](auto& store) { return store.wait(patience); });
  }
  void cancel(ReadTicket ticket) {
    visit([&](auto& store) { store.cancel(ticket); });
  }
  void promote(ReadTicket ticket) {
    visit([&](auto& store) { store.promote(ticket); });
  }
  StoreAlignment alignment() const noexcept {
    return visit([](auto& store) { return store.alignment(); });
  }

 private:
  explicit AnyStore(Rung rung) : rung_(std::move(rung)) {}

  Rung rung_;
};
static_assert(ExpertStore<AnyStore> && require_expert_store<AnyStore>());

}  // namespace coli
