// SPDX-License-Identifier: Apache-2.0
// The book-keeping of experts on their way into a slot, and of groups that wait for them. Guarded by the cache's lock.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "coli/contracts/expert_store.hpp"
#include "coli/core/error.hpp"
#include "coli/core/ids.hpp"

namespace coli {

struct LeaseGroup;

/// A set of parts.
class PartSet {
 public:
  constexpr bool has(Part part) const noexcept { return (bits_ & bit(part)) != 0; }
  constexpr void add(Part part) noexcept { bits_ = static_cast<std::uint8_t>(bits_ | bit(part)); }
  constexpr bool all() const noexcept { return bits_ == 7; }
  constexpr void remove(Part part) noexcept { bits_ = static_cast<std::uint8_t>(bits_ & ~bit(part)); }
  constexpr bool none() const noexcept { return bits_ == 0; }
  constexpr std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(std::popcount(bits_)); }

 private:
  static constexpr std::uint8_t bit(Part part) noexcept {
    return static_cast<std::uint8_t>(1U << static_cast<unsigned>(part));
  }
  std::uint8_t bits_ = 0;
};

/// One share of putting a part into its slot, so that several threads can do it: `index` of `count`, equal shares.
struct FillPiece {
  std::uint32_t index = 0, count = 1;
};

/// One expert being read. Each part goes: to submit -> under way -> arrived (raw bytes at hand) -> filled.
/// A speculative one has no slot and stops at arrived, until it is demanded, dropped, or unasked gets a free slot.
struct Filling {
  static constexpr std::uint32_t kNoBuffer = 0xFFFFFFFF;
  struct Watcher {
    LeaseGroup* group;
    std::uint32_t item;
  };

  ExpertKey key{};
  SlotId slot{};
  bool speculative = false;
  bool unasked = false;  // being put into a slot that only itself pins: nobody has asked for it
  bool dead = false;  // failed or given up: what still comes in is thrown away
  bool announced = false;
  PartSet submitted{}, arrived{}, writing{}, filled{};
  std::array<std::uint32_t, kParts> n_writers{}, n_written{};  // threads at it (writing: any), pieces done
  std::uint32_t n_under_way = 0;  // reads that the store still has
  std::uint32_t n_holders = 0;    // groups whose items point here
  std::array<std::span<const std::byte>, kParts> raw{};
  std::array<std::uint32_t, kParts> buffer{kNoBuffer, kNoBuffer, kNoBuffer};
  std::vector<Watcher> watchers{};
};

/// A read that the store has.
struct ReadUnderWay {
  ReadTicket ticket;
  Filling* filling;
  Part part;
  std::uint32_t buffer;
  std::uint64_t bytes;
};

struct PartToDo {
  Filling* filling;
  Part part;
  std::uint64_t bytes;           // raw
  std::uint32_t next_piece = 0;  // to be put into the slot
};

struct PieceToDo {
  Filling* filling;
  Part part;
  FillPiece piece;
  std::uint64_t bytes;  // raw, of the whole part
};

/// What a lease stands on.
struct LeaseGroup {
  struct Item {
    ExpertKey key;
    SlotId slot;
    Filling* filling;  // null: was resident
  };
  LayerId layer{};
  std::vector<Item> items{};
  std::vector<std::uint32_t> resident{};  // items, in group order
  std::size_t next_resident = 0;
  std::deque<std::uint32_t> ready{};  // items that arrived, in that order
  std::size_t n_handed_out = 0;
  const std::atomic<bool>* cancel = nullptr;
  std::optional<Error> error{};
  bool error_told = false;

  void clear() {
    items.clear();
    resident.clear();
    ready.clear();
    next_resident = n_handed_out = 0;
    cancel = nullptr;
    error.reset();
    error_told = false;
  }
};

/// Objects with stable addresses, reused.
template <class T>
class Recycled {
 public:
  T& take() {
    if (free_.empty()) {
      all_.push_back(std::make_unique<T>());
      free_.push_back(all_.back().get());
    }
    T& object = *free_.back();
    free_.pop_back();
    return object;
  }
  void give_back(T& object) { free_.push_back(&object); }
  std::size_t n_in_use() const noexcept { return all_.size() - free_.size(); }

 private:
  std::vector<std::unique_ptr<T>> all_;
  std::vector<T*> free_;
};

}  // namespace coli
