// SPDX-License-Identifier: Apache-2.0
// Which experts lie on the device, and how do the others get there? The tier above the host's cache, above the disk.
//
// The same decisions as the host's cache (CacheCore: groups, leases, eviction policy), over slots on the device. A missing
// expert is leased from the host's cache, which reads it if it must, and uploaded from its slot while the device computes
// those that were there. A lease of the device's slots ends when the device has passed the layer: the next time the host
// waits. With a slot for every expert nothing of this runs: all is uploaded at the start, and the host is never asked.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "coli/backend/device.hpp"
#include "coli/cache/cache_core.hpp"
#include "coli/cache/slot_plan.hpp"
#include "coli/contracts/device.hpp"
#include "coli/contracts/eviction_policy.hpp"
#include "coli/expert_memory.hpp"
#include "coli/expert_tier.hpp"
#include "coli/moe/device_moe_block.hpp"

namespace coli {

template <Device D, CpuKernels Host, EvictionPolicy E, ExpertStore S>
struct ExpertTier<DeviceBackend<D, Host>, ExpertMemory<E, S>> {
 public:
  using Backend = DeviceBackend<D, Host>;
  using Memory = ExpertMemory<E, S>;
  using Address = grid::ExpertAddress;

  ExpertTier() = default;
  ExpertTier(const ExpertTier&) = delete;
  ExpertTier& operator=(const ExpertTier&) = delete;
  ~ExpertTier() {
    for (std::byte* at : pinned_) device_->unpin(at);
  }

  /// How many experts fit beside `bill`'s trunk, keys and values and scratch, which lie on the device. Errors: over_budget, with the arithmetic;
  /// unavailable, for options that a device does not have.
  Result<void> budget(Backend& backend, const Memory& memory, const EngineOptions& options, MemoryBill bill) {
    bill.base = options.vram ? backend.device().own_memory() : Bytes{};  // not the host's; what is free is free beside it
    if (options.prefetch != 0) return Error{Errc::unavailable, "device profiles do not guess the next layer's experts; leave it out", "--prefetch"};
    if (memory.has_experts() && memory.layout() != Layout::prepared)
      return Error{Errc::unavailable, "experts are uploaded as the device wants them, a mapped file has them otherwise; choose another store", "--store"};
    const Bytes limit = options.vram.value_or(backend.device().available_memory());
    backend.limit_vram(limit);
    evict_ = options.evict;
    if (!memory.has_experts()) return backend.vram().charge(MemoryClass::base, bill.base);
    const CacheGeometry& geometry = memory.geometry();
    if (geometry.n_experts() > grid::kMostExperts)
      return Error{Errc::unavailable, std::to_string(geometry.n_experts()) + " experts a layer; device profiles route among at most " + std::to_string(grid::kMostExperts)};
    bill.least_slots = least_slots(geometry).bytes;
    bill.all_slots = geometry.all_bytes();
    bill.io = Bytes{(std::uint64_t{geometry.n_layers()} + 2) * geometry.n_experts() * sizeof(Address)};
    auto slots = bill.slots_under(limit);
    if (!slots) {
      Error error = std::move(slots).error();
      error.subject = options.vram ? "--vram" : "device memory";
      return error;
    }
    COLI_CHECK(backend.vram().charge(MemoryClass::base, bill.base));
    COLI_TRY(plan, plan_slots(geometry, *slots));
    COLI_CHECK(place(backend, geometry, plan, options));
    if (const Placement& placed = backend.kernels().placement; placed.on_cpu != 0) {  // the CPU's need no slots here
      const Bytes needed{geometry.all_bytes().value / geometry.n_experts() * (geometry.n_experts() - placed.on_cpu)};
      COLI_TRY(fewer, plan_slots(geometry, std::clamp(needed, bill.least_slots, *slots)));
      plan = std::move(fewer);
    }
    plan_ = std::move(plan);
    holds_all_ = plan_.all_resident(geometry) && backend.kernels().placement.on_cpu == 0;
    backend.experts_are_resident(holds_all_);
    return {};
  }
  bool holds_all() const noexcept { return holds_all_; }

  /// Takes the slots; where they are for all, brings all. Errors: over_budget, io.
  Result<void> fill(Backend& backend, Memory& memory) {
    device_ = &backend.device();
    if (!memory.has_experts()) {
      holds_all_ = true;
      backend.experts_are_resident(true);
      return {};
    }
    geometry_ = &memory.geometry();
    cache_ = &memory.cache();
    for (std::size_t c = 0; c < plan_.slots.size(); ++c) {
      COLI_TRY(slots, device_buffer(*device_, backend.vram(), MemoryClass::slots, Bytes{geometry_->classes()[c].slot_bytes} * plan_.slots[c]));
      slots_.push_back(std::move(slots));
    }
    const std::uint64_t n_rows = holds_all_ ? geometry_->n_layers() : 2;
    COLI_TRY(table, device_buffer(*device_, backend.vram(), MemoryClass::io, Bytes{n_rows * geometry_->n_experts() * sizeof(Address)}));
    table_ = std::move(table);
    rows_.resize(n_rows * geometry_->n_experts());
    for (const std::span<const std::byte> span : cache_->slot_memory())
      if (!span.empty()) {
        pinned_.push_back(const_cast<std::byte*>(span.data()));
        device_->pin(pinned_.back(), span.size());
      }
    if (holds_all_) return bring_all();
    core_.emplace(*geometry_, plan_, [&](EvictionShape shape, std::uint32_t) {
      if constexpr (ChosenByName<E>) return evict_.empty() ? E(shape) : E(shape, evict_);
      else return E(shape);
    });
    return {};
  }

  ExpertTier& source(Memory&) noexcept { return *this; }
  bool is_there(LayerId layer, ExpertId expert) const noexcept { return holds_all_ || core_->resident({layer, expert}); }
  /// On the device, for every expert of the layer. Requires holds_all().
  const Address* addresses(LayerId layer) const noexcept { return row_on_device(layer.value); }

  /// As ExpertCache::next_wave, and no more misses than the host's cache can lease at once.
  std::size_t next_wave(LayerId layer, std::span<ExpertId> rest) const {
    return std::min<std::size_t>(core_->next_wave(layer, rest), cache_->max_group(layer));
  }

  /// How many of `rest`, put in front, the host's cache can lease beside `n_leased` of the same layer. 0: none now.
  std::size_t next_host_wave(LayerId layer, std::span<ExpertId> rest, std::size_t n_leased) const {
    const std::size_t most = cache_->max_group(layer);
    return most <= n_leased ? 0 : std::min(cache_->next_wave(layer, rest), most - n_leased);
  }
  auto lease_on_host(LayerId layer, std::span<const ExpertId> experts, const std::atomic<bool>* cancel) {
    n_on_cpu_ += experts.size();
    return cache_->acquire(layer, experts, cancel);
  }

  /// Calls run(addresses) for those that are there, at once, and again for the others when they have been put on their
  /// way; `addresses` [n_experts] on the device are null but for these. Calls meanwhile(n) while copies are under way, n the
  /// experts that the host's cache has leased for them. Errors: io, interrupted, internal, and those of `meanwhile`.
  template <class Run, class Meanwhile>
  Result<void> bring(Backend& backend, LayerId layer, std::span<const ExpertId> experts, const std::atomic<bool>* cancel, Run&& run, Meanwhile&& meanwhile) {
    COLI_CHECK(backend.finish());  // the device is past all that used the slots leased before, and past both rows
    end_lease();
    grants_.resize(experts.size());
    COLI_CHECK(core_->acquire(layer, experts, grants_));
    leased_ = layer;
    missing_.clear();
    clear_row(0), clear_row(1);
    for (std::size_t i = 0; i < experts.size(); ++i) {
      if (grants_[i].hit) row(0)[experts[i].value] = address(layer, grants_[i].slot);
      else missing_.push_back(experts[i]);
    }
    if (missing_.size() < experts.size()) run(send_row(0));
    if (missing_.empty()) return meanwhile(0);
    const auto slot_of = [&](ExpertId expert) { return *core_->slot_of({layer, expert}); };
    if (auto done = upload(layer, missing_, cancel, slot_of); !done) {
      for (const ExpertId expert : missing_) core_->abandon(layer, slot_of(expert));
      return done;
    }
    for (const ExpertId expert : missing_) row(1)[expert.value] = address(layer, slot_of(expert));
    const Address* const addresses = send_row(1);
    device_->after(Queue::compute, Queue::copies);
    run(addresses);
    auto beside = meanwhile(missing_.size());
    if (auto done = device_->finish(Queue::copies); !done) {
      for (const ExpertId expert : missing_) core_->abandon(layer, slot_of(expert));
      return done;
    }
    lease_.reset();  // the host's slots are read
    return beside;
  }

  DeviceTierStats stats(Backend& backend) const {
    D& device = backend.device();
    DeviceTierStats stats{plan_.total(), 0, 0, uploaded_bytes_, backend.kernels().placement.on_cpu, n_on_cpu_, backend.vram().total(), 0, backend.vram().held(MemoryClass::slots), device.work(), device.body_times()};
    if (geometry_ != nullptr)
      for (std::uint32_t c = 0; c < geometry_->classes().size(); ++c) stats.experts += geometry_->experts_in_class(c);
    if (core_)
      for (const LayerStats& l : core_->layer_stats()) stats.hits += l.hits, stats.misses += l.misses;
    return stats;
  }

 private:
  using HostCache = typename Memory::Cache;

  /// Decides once who computes which experts. Errors: usage, unavailable.
  static Result<void> place(Backend& backend, const CacheGeometry& geometry, const SlotPlan& plan, const EngineOptions& options) {
    const std::uint32_t n = geometry.n_experts();
    Placement placement{n, options.cpu_experts};
    if (options.split) {
      std::uint64_t all = 0, bytes = 0;
      for (std::uint32_t c = 0; c < geometry.classes().size(); ++c) all += geometry.experts_in_class(c), bytes += geometry.experts_in_class(c) * geometry.classes()[c].slot_bytes;
      placement = place_experts(n, static_cast<std::uint32_t>(n * plan.total() / std::max<std::uint64_t>(all, 1)), Bytes{bytes / std::max<std::uint64_t>(all, 1)}, *options.split);
    }
    if (placement.on_cpu == 0) return {};
    if (placement.on_cpu > n) return Error{Errc::usage, std::to_string(placement.on_cpu) + " of " + std::to_string(n) + " experts", "--cpu-experts"};
    if (!backend.kernels().host) return Error{Errc::unavailable, "no kernels of the CPU run here", "--cpu-experts"};
    backend.place_experts(placement);
    return {};
  }

  std::byte* slot_at(LayerId layer, SlotId slot) const noexcept {
    const std::uint32_t c = geometry_->class_of(layer);
    return slots_[c].data() + geometry_->classes()[c].slot_bytes * slot.value;
  }
  Address address(LayerId layer, SlotId slot) const noexcept {
    const std::byte* at = slot_at(layer, slot);
    return {at + geometry_->part_offset(layer, Part::gate), at + geometry_->part_offset(layer, Part::up), at + geometry_->part_offset(layer, Part::down)};
  }
  Address* row(std::size_t i) noexcept { return rows_.data() + i * geometry_->n_experts(); }
  void clear_row(std::size_t i) noexcept { std::fill_n(row(i), geometry_->n_experts(), Address{nullptr, nullptr, nullptr}); }
  const Address* row_on_device(std::size_t i) const noexcept { return reinterpret_cast<const Address*>(table_.data()) + i * geometry_->n_experts(); }
  const Address* send_row(std::size_t i) {
    const std::size_t bytes = geometry_->n_experts() * sizeof(Address);
    device_->upload(Queue::compute, table_.data() + i * bytes, reinterpret_cast<const std::byte*>(row(i)), bytes);
    return row_on_device(i);
  }
  void end_lease() {
    if (!leased_) return;
    for (const SlotGrant& grant : grants_) core_->release(*leased_, grant.slot);
    leased_.reset();
  }

  /// Asks the host's cache for experts and puts each part on its way as it comes. They are there once the copies are done;
  /// the host's lease is held until then.
  template <class SlotOf>
  Result<void> upload(LayerId layer, std::span<const ExpertId> experts, const std::atomic<bool>* cancel, SlotOf&& slot_of) {
    COLI_TRY(lease, cache_->acquire(layer, experts, cancel));
    lease_.emplace(std::move(lease));
    const auto put = [&](const ReadyExpert& expert, Part part, const std::byte* from) {
      const std::size_t bytes = geometry_->slot_bytes(layer, part);
      device_->upload(Queue::copies, slot_at(layer, slot_of(expert.key.expert)) + geometry_->part_offset(layer, part), from, bytes);
      uploaded_bytes_ += bytes;
    };
    const auto put_all = [&]() -> Result<void> {
      for (;;) {
        COLI_TRY(next, lease_->next());
        if (!next) break;
        put(*next, Part::gate, next->part[static_cast<std::size_t>(Part::gate)]);
        put(*next, Part::up, next->part[static_cast<std::size_t>(Part::up)]);
        COLI_TRY(down, lease_->down(*next));
        put(*next, Part::down, down);
      }
      if (auto error = lease_->error()) return *std::move(error);
      return {};
    };
    auto done = put_all();
    if (!done) {
      (void)device_->finish(Queue::copies);  // nothing may still read the host's slots
      lease_.reset();
    }
    return done;
  }

  Result<void> bring_all() {
    std::vector<std::uint32_t> next_slot(slots_.size(), 0);
    std::vector<ExpertId> wave;
    for (std::uint32_t l = 0; l < geometry_->n_layers(); ++l) {
      const LayerId layer{l};
      if (!geometry_->has_experts(layer)) continue;
      std::uint32_t& first = next_slot[geometry_->class_of(layer)];
      for (std::uint32_t e = 0; e < geometry_->n_experts();) {
        wave.clear();
        for (; wave.size() < cache_->max_group(layer) && e < geometry_->n_experts(); ++e) wave.push_back(ExpertId{e});
        const auto slot_of = [&](ExpertId expert) { return SlotId{first + expert.value}; };
        COLI_CHECK(upload(layer, wave, nullptr, slot_of));
        COLI_CHECK(device_->finish(Queue::copies));
        lease_.reset();
      }
      for (std::uint32_t e = 0; e < geometry_->n_experts(); ++e) row(l)[e] = address(layer, SlotId{first + e});
      first += geometry_->n_experts();
      (void)send_row(l);
    }
    return device_->finish(Queue::compute);
  }

  D* device_ = nullptr;
  const CacheGeometry* geometry_ = nullptr;
  HostCache* cache_ = nullptr;
  SlotPlan plan_;
  bool holds_all_ = false;
  std::vector<Buffer> slots_;  // by size class
  Buffer table_;               // [n_layers or 2, n_experts] addresses
  std::vector<Address> rows_;  // the host's copy
  std::vector<std::byte*> pinned_;
  std::string evict_;
  std::optional<CacheCore<E>> core_;
  std::vector<SlotGrant> grants_;
  std::optional<LayerId> leased_;  // grants_ are pinned
  std::vector<ExpertId> missing_;
  std::optional<typename HostCache::Lease> lease_;  // of the host's slots that uploads read
  std::uint64_t uploaded_bytes_ = 0, n_on_cpu_ = 0;
};

}  // namespace coli
