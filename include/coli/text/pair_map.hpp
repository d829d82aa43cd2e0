// SPDX-License-Identifier: Apache-2.0
// What do these two symbols become? A flat hash map from a pair of ids to a merge; no allocation to look up.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace coli {

/// Two neighbouring symbols become `id`; the lowest rank goes first.
struct Merge {
  std::uint32_t rank;
  std::uint32_t id;
  static constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();
  constexpr explicit operator bool() const noexcept { return rank != kNever; }
};
inline constexpr Merge kNoMerge{Merge::kNever, 0};

/// What became of an insertion. `flooded`: so many keys collide that the file must have been made for that.
enum class Inserted : std::uint8_t { fresh, repeated, flooded };
inline constexpr std::size_t kMaxProbes = 1024;  // good keys stay below 100 at this load

/// Open addressing with linear probing, at most half full. Built once, then read by any number of threads.
class PairMap {
 public:
  PairMap() = default;
  explicit PairMap(std::size_t n_pairs) : slots_(std::bit_ceil(n_pairs * 2 + 2), Slot{kEmpty, kNoMerge}) {}

  /// Keeps the first value of a pair. At most n_pairs pairs may be added.
  Inserted insert(std::uint32_t left, std::uint32_t right, Merge value) noexcept {
    const std::uint64_t wanted = key(left, right);
    std::size_t at = home(wanted);
    for (std::size_t probe = 0; probe < kMaxProbes; ++probe, at = next(at)) {
      if (slots_[at].key == wanted) return Inserted::repeated;
      if (slots_[at].key != kEmpty) continue;
      slots_[at] = {wanted, value};
      return Inserted::fresh;
    }
    return Inserted::flooded;
  }

  Merge find(std::uint32_t left, std::uint32_t right) const noexcept {
    if (slots_.empty()) return kNoMerge;
    const std::uint64_t wanted = key(left, right);
    std::size_t at = home(wanted);
    while (slots_[at].key != wanted && slots_[at].key != kEmpty) at = next(at);
    return slots_[at].value;
  }

  std::size_t bytes() const noexcept { return slots_.size() * sizeof(Slot); }

 private:
  struct Slot {
    std::uint64_t key;
    Merge value;
  };
  static constexpr std::uint64_t kEmpty = std::numeric_limits<std::uint64_t>::max();
  static constexpr std::uint64_t key(std::uint32_t left, std::uint32_t right) { return std::uint64_t{left} << 32 | right; }
  std::size_t next(std::size_t at) const noexcept { return (at + 1) & (slots_.size() - 1); }
  std::size_t home(std::uint64_t k) const noexcept {
    std::uint64_t mixed = (k ^ k >> 32) * 0x9E3779B97F4A7C15u;
    mixed ^= k * 0xD6E8FEB86659FD93u;
    return static_cast<std::size_t>(mixed ^ mixed >> 29) & (slots_.size() - 1);
  }
  std::vector<Slot> slots_;
};

}  // namespace coli
