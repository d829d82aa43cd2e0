// SPDX-License-Identifier: Apache-2.0
// The bounded cache of experts: who is acquired is leased, what is missing is read while the rest is computed.
//
// CacheCore decides, ReadDesk reads, SlotPool holds the bytes; this class joins them under one lock, for any number of
// computing threads. The lock is never held while bytes are copied or waited for. A thread with nothing to compute puts
// arrived parts into their slots; with none of those either, one thread waits in the store and the others for it.
// Prefetch reads into staging buffers only: an expert gets a slot when it is demanded, so speculation evicts nothing
// and changes no hit count. A warm start does the same for slots that are free, and puts experts there unasked. A
// resident model is the same cache with a slot for every expert, filled by fill_all.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "coli/cache/cache_core.hpp"
#include "coli/cache/cache_stats.hpp"
#include "coli/cache/geometry.hpp"
#include "coli/cache/in_flight.hpp"
#include "coli/cache/lease.hpp"
#include "coli/cache/read_desk.hpp"
#include "coli/cache/slot_plan.hpp"
#include "coli/cache/slot_pool.hpp"
#include "coli/cache/staging.hpp"
#include "coli/cache/warm_start.hpp"
#include "coli/contracts/eviction_policy.hpp"
#include "coli/contracts/expert_store.hpp"
#include "coli/core/accountant.hpp"
#include "coli/core/error.hpp"
#include "coli/core/ids.hpp"

namespace coli {

/// Puts one piece of a part into its place in a slot: a copy, or the backend's preparation. `raw` and `slot_part` are of
/// the whole part. Called by several threads at once, for different pieces.
using SlotFiller = std::function<void(ExpertKey, Part, FillPiece, std::span<const std::byte> raw, std::byte* slot_part)>;

/// All parts of one layer's experts at once, and as much again for half of a speculative layer.
constexpr std::uint32_t default_staging_buffers(std::uint32_t top_k) noexcept {
  return std::clamp<std::uint32_t>(top_k * 4, 6, 64);
}

struct CacheOptions {
  std::uint32_t staging_buffers = 0;  // 0: default_staging_buffers
  std::uint32_t fill_pieces = 1;      // that the filler is asked for, a part
  /// Hand out the store's own bytes, unprepared, without slots; needs a store that doesn't copy, and an empty filler.
  bool zero_copy = false;
};

template <EvictionPolicy E, ExpertStore S>
class ExpertCache {
  static_assert(require_eviction_policy<E>() && require_expert_store<S>());

 public:
  using Group = LeaseGroup;
  using Lease = coli::Lease<ExpertCache>;

  /// Accountant and store must outlive the cache. An empty filler copies. `make_policy(EvictionShape, size_class)`.
  /// Errors: over_budget; usage, where zero_copy can't be.
  template <class MakePolicy>
  static Result<std::unique_ptr<ExpertCache>> open(Accountant& accountant, S& store, const CacheGeometry& geometry,
                                                   const SlotPlan& plan, SlotFiller filler, CacheOptions options,
                                                   MakePolicy&& make_policy) {
    if (options.zero_copy) {
      if (store.alignment().copies()) return Error{Errc::usage, "a store that copies can't be used without slots"};
      if (filler) return Error{Errc::usage, "prepared weights need slots"};
      const SlotPlan none{std::vector<std::uint32_t>(plan.slots.size(), 0), Bytes{0}};
      std::unique_ptr<ExpertCache> cache(
          new ExpertCache(store, geometry, none, SlotPool{}, Staging{}, {}, 1, make_policy));
      COLI_CHECK(cache->map_all());
      return cache;
    }
    for (std::size_t c = 0; c < plan.slots.size(); ++c) {
      if (plan.slots[c] < geometry.top_k()) {
        return Error{Errc::over_budget, std::to_string(plan.slots[c]) + " slots can't hold the " +
                                            std::to_string(geometry.top_k()) + " experts of one layer"};
      }
    }
    const std::uint32_t n_buffers =
        options.staging_buffers != 0 ? options.staging_buffers : default_staging_buffers(geometry.top_k());
    COLI_TRY(staging, Staging::allocate(accountant, n_buffers, geometry.largest_raw_part(), store.alignment()));
    COLI_TRY(pool, SlotPool::allocate(accountant, geometry, plan));
    return std::unique_ptr<ExpertCache>(
        new ExpertCache(store, geometry, plan, std::move(pool), std::move(staging), std::move(filler),
                        std::max(options.fill_pieces, 1U), make_policy));
  }
  static Result<std::unique_ptr<ExpertCache>> open(Accountant& accountant, S& store, const CacheGeometry& geometry,
                                                   const SlotPlan& plan, SlotFiller filler = {},
                                                   CacheOptions options = {}) {
    return open(accountant, store, geometry, plan, std::move(filler), options,
                [](EvictionShape shape, std::uint32_t) { return E(shape); });
  }

  ExpertCache(const ExpertCache&) = delete;
  ExpertCache& operator=(const ExpertCache&) = delete;
  /// Waits for reads under way: their buffers are ours. All leases must have ended.
  ~ExpertCache() {
    {
      const std::lock_guard lock(mutex_);
      while (!speculative_.empty()) give_up(*speculative_.front());
      while (!warm_.reading().empty()) give_up(*warm_.reading().front());
    }
    while (desk_.any_under_way()) {
      if (auto completion = desk_.wait(kPatience)) receive(std::move(*completion));
    }
  }

  /// Leases the distinct experts of one layer, and starts reading the missing ones. Doesn't block, but for a piece that
  /// another lease's thread is just putting into a slot that is wanted here. At most max_group(layer) experts: larger
  /// batches go in waves, see next_wave. `cancel` is watched while waiting.
  /// Errors: usage, where the group is too large or slots are held by other leases.
  Result<Lease> acquire(LayerId layer, std::span<const ExpertId> experts, const std::atomic<bool>* cancel = nullptr) {
    std::unique_lock lock(mutex_);
    Group& group = groups_.take();
    group.clear();
    group.cancel = cancel;
    if (auto added = mapped_.empty() ? add(lock, group, layer, experts) : add_mapped(group, layer, experts); !added) {
      groups_.give_back(group);
      return std::move(added).error();
    }
    drop_stale(layer);
    submit();
    return Lease(*this, group);
  }

  /// How many experts of this layer one group may have, while no other lease is held.
  std::uint32_t max_group(LayerId layer) const noexcept {
    return mapped_.empty() ? core_.max_group(layer) : geometry().n_experts();
  }

  /// For a batch that touches more experts than one group may have: puts into the front of `rest` what to acquire next,
  /// and says how many. Residents come first, so that they are used before the batch's own misses can evict them.
  std::size_t next_wave(LayerId layer, std::span<ExpertId> rest) const {
    const std::lock_guard lock(mutex_);
    return mapped_.empty() ? core_.next_wave(layer, rest) : rest.size();
  }

  /// Reads experts that are likely to be demanded by `layer`, best guess first, while the disk is idle. Never blocks;
  /// guesses that are resident or find no room are skipped.
  void prefetch(LayerId layer, std::span<const ExpertId> experts) {
    const std::lock_guard lock(mutex_);
    if (!mapped_.empty() || !geometry().has_experts(layer)) return;
    for (std::size_t i = speculative_.size(); i-- > 0;) {
      if (speculative_[i]->key.layer != layer) give_up(*speculative_[i]);
    }
    for (const ExpertId expert : experts) {
      if ((speculative_.size() + 1) * kParts > desk_.n_buffers() / 2) break;
      const ExpertKey key{layer, expert};
      if (expert.value >= geometry().n_experts() || core_.resident(key) || find_speculative(key) != nullptr) continue;
      Filling& filling = fillings_.take();
      filling = Filling{.key = key, .speculative = true};
      speculative_.push_back(&filling);
      desk_.order(filling, raw_bytes(layer));
      ++prefetch_stats_.issued;
    }
    submit();
  }

  /// Gives every expert its slot and reads it, with `n_threads` threads preparing: how a resident model is loaded. No
  /// misses are counted. Errors: usage, where there are fewer slots than experts; io; interrupted.
  Result<void> fill_all(unsigned n_threads, const std::atomic<bool>* cancel = nullptr) {
    if (!mapped_.empty()) return {};
    COLI_TRY(lease, acquire_all(cancel));
    return fill(lease, n_threads);
  }

  /// The memory that reads land in: anybody's until the first lease.
  std::span<std::byte> io_memory() const noexcept { return desk_.buffers(); }

  /// Takes the page faults of the slots beforehand, in the background: for a cache that fills as it is used.
  void touch_slots() { pool_.touch_early(); }

  /// Has experts read into slots that are free, the first of `keys` first, until none is: a warm start. It goes on beside
  /// all else: reads begin only while no demand waits or is being read, and what has arrived is put into its slot by
  /// threads that would wait otherwise. Evicts nothing, and never blocks; a read that fails is forgotten. Nothing is
  /// read where the store doesn't copy: its bytes are there.
  void warm(std::vector<ExpertKey> keys) {
    const std::lock_guard lock(mutex_);
    if (desk_.n_buffers() == 0) return;
    warm_.begin(std::move(keys));
    submit();
  }

  const CacheGeometry& geometry() const noexcept { return core_.geometry(); }
  std::string_view policy_name() const noexcept {
    if constexpr (ChosenByName<E>) return core_.policy(0).chosen();
    else return E::name.view();
  }
  static constexpr std::string_view store_name() noexcept { return S::name.view(); }

  /// The slots' memory: what a bandwidth measurement may read.
  std::vector<std::span<const std::byte>> slot_memory() const { return pool_.memory(); }

  CacheStats stats(bool per_layer = false) const {
    const std::lock_guard lock(mutex_);
    CacheStats stats;
    for (const LayerStats& layer : core_.layer_stats()) {
      stats.hits += layer.hits;
      stats.misses += layer.misses;
    }
    stats.bytes_read = desk_.bytes_read();
    stats.read_seconds = desk_.read_seconds();
    stats.wait_seconds = seconds(wait_time_);
    stats.fill_seconds = seconds(fill_time_);
    stats.prefetch = prefetch_stats_;
    stats.warm = warm_.stats();
    if (per_layer) stats.layers.assign(core_.layer_stats().begin(), core_.layer_stats().end());
    return stats;
  }
  /// As in stats(), for those who ask between layers.
  double wait_seconds() const {
    const std::lock_guard lock(mutex_);
    return seconds(wait_time_);
  }
  void reset_stats() {
    const std::lock_guard lock(mutex_);
    core_.reset_stats();
    desk_.reset_stats();
    wait_time_ = fill_time_ = {};
    prefetch_stats_ = {};
    warm_.reset_stats();
  }

 private:
  friend Lease;
  using Clock = std::chrono::steady_clock;
  /// Bounds how late a cancel or a change of the waiting thread is seen.
  static constexpr std::chrono::milliseconds kPatience{20};

  template <class MakePolicy>
  ExpertCache(S& store, const CacheGeometry& geometry, const SlotPlan& plan, SlotPool pool, Staging staging,
              SlotFiller filler, std::uint32_t n_pieces, MakePolicy&& make_policy)
      : store_(&store),
        core_(geometry, plan, make_policy),
        pool_(std::move(pool)),
        desk_(store, std::move(staging), n_pieces),
        filler_(std::move(filler)),
        warm_(plan.slots) {
    for (const std::uint32_t slots : plan.slots) in_slot_.emplace_back(slots, nullptr);
  }

  //--- the lease's side --------------------------------------------------------------------------------------------

  Result<std::optional<ReadyExpert>> next(Group& group) {
    std::unique_lock lock(mutex_);
    for (;;) {
      receive_all();
      watch_cancel(group);
      if (group.error) {
        if (std::exchange(group.error_told, true)) return std::optional<ReadyExpert>();
        return *group.error;
      }
      if (desk_.starved() && desk_.any_arrived()) {  // keep the disk busy before computing what can wait
        fill_one(lock, nullptr);
        continue;
      }
      if (group.next_resident < group.resident.size()) return hand_out(group, group.resident[group.next_resident++]);
      if (!group.ready.empty()) {
        const std::uint32_t item = group.ready.front();
        group.ready.pop_front();
        return hand_out(group, item);
      }
      const bool all_handed_out = group.n_handed_out == group.items.size();
      if (all_handed_out && nothing_to_fill(group)) return std::optional<ReadyExpert>();
      if (desk_.any_arrived())
        fill_one(lock, nullptr);
      else if (all_handed_out)
        wait_for_change(lock, group);
      else
        block(lock, group);
    }
  }

  Result<const std::byte*> down(Group& group, const ReadyExpert& expert) {
    constexpr auto d = static_cast<std::size_t>(Part::down);
    if (expert.part[d] != nullptr) return expert.part[d];
    std::unique_lock lock(mutex_);
    const typename Group::Item& item = group.items[expert.index];
    for (;;) {
      if (item.filling->filled.has(Part::down)) return slot_part(item.key, item.slot, Part::down);
      receive_all();
      watch_cancel(group);
      if (group.error) return *group.error;
      if (desk_.any_arrived())
        fill_one(lock, item.filling);
      else
        block(lock, group);
    }
  }

  std::optional<Error> error_of(const Group& group) const {
    const std::lock_guard lock(mutex_);
    return group.error;
  }

  void end(Group& group) {
    std::unique_lock lock(mutex_);
    detach(group);
    for (const typename Group::Item& item : group.items) {
      if (item.filling != nullptr) {
        changed_.wait(lock, [&] { return item.filling->writing.none(); });
        --item.filling->n_holders;
        recycle_if_done(*item.filling);
      }
      if (mapped_.empty()) core_.release(item.key.layer, item.slot);
    }
    groups_.give_back(group);
  }

  /// Others compute what was handed out: is there, or will there be, a part that one could put into its slot meanwhile?
  bool nothing_to_fill(const Group& group) const {
    return !desk_.any_arrived() && std::all_of(group.items.begin(), group.items.end(), [](const typename Group::Item& item) {
      return item.filling == nullptr || item.filling->arrived.all();
    });
  }

  std::optional<ReadyExpert> hand_out(Group& group, std::uint32_t index) {
    ++group.n_handed_out;
    const typename Group::Item& item = group.items[index];
    ReadyExpert ready{index, item.key, {}};
    if (!mapped_.empty()) {
      ready.part = mapped_[map_index(item.key)];
      return ready;
    }
    for (std::size_t p = 0; p < kParts; ++p) {
      const auto part = static_cast<Part>(p);
      if (item.filling == nullptr || item.filling->filled.has(part)) {
        ready.part[p] = slot_part(item.key, item.slot, part);
      }
    }
    return ready;
  }

  //--- groups ------------------------------------------------------------------------------------------------------

  Result<void> add(std::unique_lock<std::mutex>& lock, Group& group, LayerId layer, std::span<const ExpertId> experts) {
    COLI_CHECK(grant(lock, layer, experts));
    receive_all();
    const std::uint32_t size_class = core_.geometry().class_of(layer);
    for (std::size_t i = 0; i < experts.size(); ++i) {
      const ExpertKey key{layer, experts[i]};
      const SlotId slot = grants_[i].slot;
      Filling*& filling = in_slot_[size_class][slot.value];
      if (warm_.any_unused()) grants_[i].hit ? warm_.use(size_class, slot) : warm_.lose(size_class, slot);
      if (filling != nullptr && filling->unasked) {
        desk_.ask_for(*filling);
        unpin(*filling);
      }
      if (!grants_[i].hit && filling == nullptr) filling = &start(key, slot);
      const auto item = static_cast<std::uint32_t>(group.items.size());
      group.items.push_back({key, slot, filling});
      if (filling == nullptr) {
        group.resident.push_back(item);
      } else {
        ++filling->n_holders;
        if (filling->announced) group.ready.push_back(item);
        filling->watchers.push_back({&group, item});
      }
    }
    return {};
  }

  /// Slots that are being filled unasked are there for demand too: they are only pinned for as long as that harms nobody.
  Result<void> grant(std::unique_lock<std::mutex>& lock, LayerId layer, std::span<const ExpertId> experts) {
    for (;;) {
      grants_.resize(std::max(grants_.size(), experts.size()));
      auto granted = core_.acquire(layer, experts, grants_);
      if (granted || granted.error().code != Errc::usage || unasked_.empty()) return granted;
      for (std::size_t i = unasked_.size(); i-- > 0;) {
        if (!unasked_[i]->dead) give_up(*unasked_[i]);
      }
      if (!unasked_.empty()) changed_.wait(lock);
    }
  }

  Result<void> add_mapped(Group& group, LayerId layer, std::span<const ExpertId> experts) {
    for (const ExpertId expert : experts) {
      if (!geometry().has_experts(layer) || expert.value >= geometry().n_experts()) {
        return Error{Errc::internal,
                     "layer " + std::to_string(layer.value) + " has no expert " + std::to_string(expert.value)};
      }
      group.resident.push_back(static_cast<std::uint32_t>(group.items.size()));
      group.items.push_back({{layer, expert}, SlotId{}, nullptr});
    }
    core_.count_hits(layer, experts.size());
    return {};
  }

  /// Computes nothing with a lease but waits until all of it is in its slots.
  Result<void> fill(Lease& lease, unsigned n_threads) {
    const auto work = [&lease] {
      for (;;) {
        auto ready = lease.next();
        if (!ready || !*ready || !lease.down(**ready)) return;
      }
    };
    std::vector<std::thread> helpers;
    for (unsigned i = 1; i < n_threads; ++i) helpers.emplace_back(work);
    work();
    for (std::thread& helper : helpers) helper.join();
    if (auto error = lease.error()) return *std::move(error);
    return {};
  }

  Result<Lease> acquire_all(const std::atomic<bool>* cancel) {
    std::vector<ExpertId> all;
    for (std::uint32_t e = 0; e < geometry().n_experts(); ++e) all.push_back(ExpertId{e});
    std::unique_lock lock(mutex_);
    Group& group = groups_.take();
    group.clear();
    group.cancel = cancel;
    Lease lease(*this, group);
    for (std::uint32_t l = 0; l < geometry().n_layers(); ++l) {
      if (!geometry().has_experts(LayerId{l})) continue;
      if (auto added = add(lock, group, LayerId{l}, all); !added) {
        fail(group, std::move(added).error());
        break;
      }
    }
    core_.reset_stats();
    submit();
    return lease;
  }

  Filling& start(ExpertKey key, SlotId slot) {
    if (Filling* const guessed = find_speculative(key)) {
      guessed->slot = slot;
      const bool all_here = desk_.claim(*guessed, raw_bytes(key.layer));
      if (!warm_.claim(*guessed, all_here)) {
        std::erase(speculative_, guessed);
        ++(all_here ? prefetch_stats_.useful : prefetch_stats_.late);
      }
      return *guessed;
    }
    Filling& filling = fillings_.take();
    filling = Filling{.key = key, .slot = slot};
    desk_.order(filling, raw_bytes(key.layer));
    return filling;
  }

  void watch_cancel(Group& group) {
    if (group.cancel != nullptr && group.cancel->load(std::memory_order_relaxed) && !group.error) {
      fail(group, Error{Errc::interrupted, "cancelled while experts were read"});
    }
  }
  void fail(Group& group, Error error) {
    if (group.error) return;
    group.error = std::move(error);
    detach(group);
    changed_.notify_all();
  }
  /// The group no longer waits for anything; what nobody else waits for is given up.
  void detach(Group& group) {
    for (const typename Group::Item& item : group.items) {
      if (item.filling == nullptr) continue;
      std::erase_if(item.filling->watchers, [&](const Filling::Watcher& watcher) { return watcher.group == &group; });
      if (item.filling->watchers.empty() && !item.filling->dead && !item.filling->filled.all()) give_up(*item.filling);
    }
  }

  //--- fillings ----------------------------------------------------------------------------------------------------

  Filling* find_speculative(ExpertKey key) const noexcept {
    for (const std::span<Filling* const> list : {std::span<Filling* const>(speculative_), warm_.reading()}) {
      const auto at = std::find_if(list.begin(), list.end(), [&](const Filling* f) { return f->key == key; });
      if (at != list.end()) return *at;
    }
    return nullptr;
  }
  /// Guesses for a layer that was passed can't come true any more.
  void drop_stale(LayerId layer) {
    for (std::size_t i = speculative_.size(); i-- > 0;) {
      if (speculative_[i]->key.layer != layer && last_acquired_ == speculative_[i]->key.layer)
        give_up(*speculative_[i]);
    }
    last_acquired_ = layer;
  }
  void give_up(Filling& filling) {
    filling.dead = true;
    desk_.drop(filling);
    if (filling.speculative) {
      if (!warm_.give_up(filling)) {
        std::erase(speculative_, &filling);
        ++prefetch_stats_.wasted;
      }
    } else {
      const std::uint32_t size_class = geometry().class_of(filling.key.layer);
      warm_.lose(size_class, filling.slot);
      in_slot_[size_class][filling.slot.value] = nullptr;
      core_.abandon(filling.key.layer, filling.slot);
      if (filling.unasked && filling.writing.none()) unpin(filling);
    }
    recycle_if_done(filling);
  }
  /// An unasked filling's slot is its own no longer: it is filled, somebody else has it, or nobody writes to it any more.
  void unpin(Filling& filling) {
    filling.unasked = false;
    std::erase(unasked_, &filling);
    --filling.n_holders;
    core_.release(filling.key.layer, filling.slot);
  }
  void recycle_if_done(Filling& filling) {
    if (filling.n_under_way == 0 && filling.writing.none() && filling.n_holders == 0 &&
        (filling.dead || filling.filled.all())) {
      fillings_.give_back(filling);
    }
  }

  //--- reading -----------------------------------------------------------------------------------------------------

  void submit() {
    while (auto failed = desk_.submit()) deal_with(*failed);
    while (desk_.wants_speculative_buffers() && free_a_speculative_buffer()) {
      while (auto failed = desk_.submit()) deal_with(*failed);
    }
    if (!warm_.ended()) read_unasked();
  }
  /// The warm start's next reads, as long as the disk has nothing better to do and slots are free.
  void read_unasked() {
    for (std::size_t i = warm_.reading().size(); i-- > 0;) {
      if (!slot_to_spare(warm_.reading()[i]->key.layer, 0)) give_up(*warm_.reading()[i]);
    }
    while (desk_.at_leisure()) {
      const std::optional<ExpertKey> key = warm_.take_next();
      if (!key) return;
      if (!geometry().has_experts(key->layer) || key->expert.value >= geometry().n_experts() || core_.resident(*key) ||
          find_speculative(*key) != nullptr || !slot_to_spare(key->layer, 1)) {
        continue;
      }
      Filling& filling = fillings_.take();
      filling = Filling{.key = *key, .speculative = true};
      warm_.add(filling);
      desk_.order(filling, raw_bytes(key->layer));
      while (auto failed = desk_.submit()) deal_with(*failed);
    }
  }
  /// Is a slot free for all that the warm start reads of this size, and for n more?
  bool slot_to_spare(LayerId layer, std::size_t n) const {
    const std::uint32_t size_class = geometry().class_of(layer);
    for (const Filling* filling : warm_.reading()) n += geometry().class_of(filling->key.layer) == size_class ? 1 : 0;
    return n <= core_.free_slots(size_class);
  }
  bool free_a_speculative_buffer() {
    for (std::size_t i = speculative_.size(); i-- > 0;) {
      if (speculative_[i]->arrived.none()) continue;
      give_up(*speculative_[i]);
      return true;
    }
    return false;
  }
  void receive(Completion&& completion) {
    Filling* orphan = nullptr;
    if (auto received = desk_.receive(std::move(completion), orphan)) deal_with(*received);
    if (orphan != nullptr) recycle_if_done(*orphan);
  }
  /// Not while somebody waits in the store: what another takes from under him doesn't wake him, and all would then wait
  /// for him.
  void receive_all() {
    if (waiting_in_store_) return;
    bool any = false;
    while (auto completion = desk_.poll()) {
      receive(std::move(*completion));
      any = true;
    }
    if (any) submit();
  }
  void deal_with(typename ReadDesk<S>::Received& received) {
    if (!received.error) return;
    Filling& filling = *received.filling;
    if (filling.speculative) {
      give_up(filling);
      return;
    }
    const std::vector<Filling::Watcher> watchers = filling.watchers;
    for (const Filling::Watcher& watcher : watchers) fail(*watcher.group, *received.error);
  }

  /// A piece that nobody has asked for. The slot is taken only now, when all has arrived and somebody has the time:
  /// demand has had every chance to take it.
  std::optional<PieceToDo> take_unasked() {
    if (auto piece = desk_.take_unasked()) return piece;
    const auto reading = warm_.reading();
    const auto at = std::find_if(reading.begin(), reading.end(), [](const Filling* f) { return f->arrived.all(); });
    if (at == reading.end()) return std::nullopt;
    Filling& filling = **at;
    const std::optional<SlotId> slot = core_.place_free(filling.key);
    if (!slot) return std::nullopt;
    const std::uint32_t size_class = geometry().class_of(filling.key.layer);
    filling.slot = *slot;
    filling.unasked = true;
    ++filling.n_holders;
    unasked_.push_back(&filling);
    in_slot_[size_class][slot->value] = &filling;
    warm_.settle(filling, size_class);
    desk_.settle(filling, raw_bytes(filling.key.layer));
    return desk_.take_unasked();
  }

  void fill_one(std::unique_lock<std::mutex>& lock, const Filling* preferred) {
    put(lock, *desk_.take_arrived(preferred));
  }
  /// Puts one piece of an arrived part into its slot, with the lock released meanwhile.
  void put(std::unique_lock<std::mutex>& lock, const PieceToDo& todo) {
    Filling& filling = *todo.filling;
    const auto p = static_cast<std::size_t>(todo.part);
    const std::span<const std::byte> raw = filling.raw[p];
    std::byte* const to = slot_part(filling.key, filling.slot, todo.part);
    filling.writing.add(todo.part);
    ++filling.n_writers[p];
    ++n_writing_;
    lock.unlock();
    const auto start = Clock::now();
    if (filler_)
      filler_(filling.key, todo.part, todo.piece, raw, to);
    else
      copy_piece(todo.piece, raw, to);
    const auto took = Clock::now() - start;
    lock.lock();
    fill_time_ += took;
    --n_writing_;
    ++filling.n_written[p];
    if (--filling.n_writers[p] != 0) return;
    filling.writing.remove(todo.part);
    if (filling.dead) {
      desk_.written(filling, todo.part);
      if (filling.unasked && filling.writing.none()) unpin(filling);
    } else if (filling.n_written[p] == todo.piece.count) {
      desk_.written(filling, todo.part);
      filling.filled.add(todo.part);
      announce(filling);
    }
    changed_.notify_all();
    recycle_if_done(filling);
    submit();
  }
  static void copy_piece(FillPiece piece, std::span<const std::byte> raw, std::byte* to) {
    const std::size_t begin = raw.size() * piece.index / piece.count;
    std::memcpy(to + begin, raw.data() + begin, raw.size() * (piece.index + 1) / piece.count - begin);
  }
  void announce(Filling& filling) {
    if (!filling.announced && filling.filled.has(Part::gate) && filling.filled.has(Part::up)) {
      filling.announced = true;
      for (const Filling::Watcher& watcher : filling.watchers) watcher.group->ready.push_back(watcher.item);
    }
    if (filling.filled.all()) {
      in_slot_[geometry().class_of(filling.key.layer)][filling.slot.value] = nullptr;
      filling.watchers.clear();
      if (filling.unasked) unpin(filling);
    }
  }

  /// Nothing can be done for the group. Does what nobody has asked for, or waits for something to change.
  void block(std::unique_lock<std::mutex>& lock, Group& group) {
    if (n_blocked_++ == 0) blocked_since_ = Clock::now();
    if (const auto unasked = take_unasked())
      put(lock, *unasked);
    else
      wait_for_change(lock, group);
    if (--n_blocked_ == 0) wait_time_ += Clock::now() - blocked_since_;
  }
  /// In the store where nobody waits there yet, else for the one who does.
  void wait_for_change(std::unique_lock<std::mutex>& lock, Group& group) {
    if (desk_.idle() && n_writing_ == 0 && !waiting_in_store_) {
      fail(group, Error{Errc::internal, "experts are missing, and none is being read"});
    } else if (!waiting_in_store_ && desk_.any_under_way()) {
      waiting_in_store_ = true;
      lock.unlock();
      std::optional<Completion> completion = desk_.wait(kPatience);
      lock.lock();
      waiting_in_store_ = false;
      if (completion) receive(std::move(*completion));
      receive_all();
      submit();
      changed_.notify_all();
    } else {
      changed_.wait_for(lock, kPatience);
    }
  }

  //--- places ------------------------------------------------------------------------------------------------------

  std::byte* slot_part(ExpertKey key, SlotId slot, Part part) const noexcept {
    return pool_.at(geometry().class_of(key.layer), slot) + geometry().part_offset(key.layer, part);
  }
  std::array<std::uint64_t, kParts> raw_bytes(LayerId layer) const noexcept {
    return {geometry().raw_bytes(layer, Part::gate), geometry().raw_bytes(layer, Part::up),
            geometry().raw_bytes(layer, Part::down)};
  }
  std::size_t map_index(ExpertKey key) const noexcept {
    return std::size_t{key.layer.value} * geometry().n_experts() + key.expert.value;
  }

  /// Asks a store that doesn't copy where everything lies.
  Result<void> map_all() {
    mapped_.resize(std::size_t{geometry().n_layers()} * geometry().n_experts());
    for (std::uint32_t l = 0; l < geometry().n_layers(); ++l) {
      if (!geometry().has_experts(LayerId{l})) continue;
      for (std::uint32_t e = 0; e < geometry().n_experts(); ++e) {
        const ExpertKey key{LayerId{l}, ExpertId{e}};
        for (std::size_t p = 0; p < kParts; ++p) {
          COLI_TRY(ticket, store_->submit(key, static_cast<Part>(p), {}, Urgency::demand));
          std::optional<Completion> completion = store_->wait(kPatience);
          if (!completion || completion->ticket != ticket)
            return Error{Errc::internal, "a mapped read didn't complete at once"};
          COLI_TRY(data, std::move(completion->data));
          mapped_[map_index(key)][p] = data;
        }
      }
    }
    return {};
  }

  static double seconds(Clock::duration time) noexcept { return std::chrono::duration<double>(time).count(); }

  S* store_;
  CacheCore<E> core_;
  SlotPool pool_;
  ReadDesk<S> desk_;
  SlotFiller filler_;
  std::vector<std::array<const std::byte*, kParts>> mapped_;  // zero_copy only

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::vector<Filling*>> in_slot_;  // by class and slot: what is being read into it
  std::vector<Filling*> speculative_;
  WarmStart warm_;
  std::vector<Filling*> unasked_;  // the warm start's, being put into slots that they pin
  Recycled<Filling> fillings_;
  Recycled<Group> groups_;
  std::vector<SlotGrant> grants_;
  std::optional<LayerId> last_acquired_;
  PrefetchStats prefetch_stats_;
  std::uint32_t n_writing_ = 0;
  std::uint32_t n_blocked_ = 0;
  bool waiting_in_store_ = false;
  Clock::time_point blocked_since_{};
  Clock::duration wait_time_{};
  Clock::duration fill_time_{};
};

}  // namespace coli
