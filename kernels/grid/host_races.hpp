// SPDX-License-Identifier: Apache-2.0
// Did two threads of a grid meet in memory with nothing between them?
//
// A log of every load and store of one launch, judged at its end. Two accesses of which one is a store are ordered if
// their threads are of one block and passed a different number of its barriers, or of one warp and passed a different
// number of its sync_warp; else they race, on a device, whatever happened here. Threads of different blocks are never
// ordered.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "coli/kernels/grid/thread.hpp"

namespace coli::grid::host {

/// Who, when in terms of barriers, and where in the source.
struct Moment {
  std::uint32_t block, thread;
  std::uint32_t block_epoch, warp_epoch;  // barriers passed; warp barriers passed since the last of those
  std::uint32_t line;
};

class AccessLog {
 public:
  /// `space`: 0 for global memory, 1 + block for that block's shared memory.
  void add(std::uint32_t space, std::uintptr_t at, std::size_t bytes, bool is_store, const Moment& who) {
    accesses_.push_back({space, is_store, static_cast<std::uint32_t>(bytes), at, who});
  }

  /// The first conflict as a sentence, if there is one. Forgets the log.
  std::optional<std::string> judge() {
    std::unordered_map<Place, std::vector<const Access*>, PlaceHash> stores;
    for (const Access& a : accesses_)
      if (a.is_store)
        for (std::size_t i = 0; i < a.bytes; ++i) {
          auto& there = stores[{a.space, a.at + i}];
          if (there.empty() || !same_thread(there.back()->who, a.who)) there.push_back(&a);
          else there.back() = &a;  // the thread's own last store stands for those before it
        }
    std::optional<std::string> found;
    for (const Access& a : accesses_) {
      for (std::size_t i = 0; i < a.bytes && !found; ++i) {
        const auto there = stores.find({a.space, a.at + i});
        if (there == stores.end()) continue;
        for (const Access* store : there->second)
          if (!ordered(a.who, store->who)) {
            found = who(a.who) + (a.is_store ? " writes (line " : " reads (line ") + std::to_string(a.who.line) + ") what " + who(store->who) +
                    " writes (line " + std::to_string(store->who.line) + ") with no barrier between them, in " + (a.space == 0 ? "global" : "shared") + " memory";
            break;
          }
      }
      if (found) break;
    }
    accesses_.clear();
    return found;
  }

 private:
  struct Access {
    std::uint32_t space;
    bool is_store;
    std::uint32_t bytes;
    std::uintptr_t at;
    Moment who;
  };
  struct Place {
    std::uint32_t space;
    std::uintptr_t at;
    bool operator==(const Place&) const = default;
  };
  struct PlaceHash {
    std::size_t operator()(const Place& p) const noexcept { return std::hash<std::uintptr_t>{}(p.at * 0x9E37'79B9'7F4A'7C15u + p.space); }
  };

  static bool same_thread(const Moment& a, const Moment& b) { return a.block == b.block && a.thread == b.thread; }
  static bool ordered(const Moment& a, const Moment& b) {
    if (a.block != b.block) return false;
    if (a.thread == b.thread || a.block_epoch != b.block_epoch) return true;
    return a.thread / kWarp == b.thread / kWarp && a.warp_epoch != b.warp_epoch;
  }
  static std::string who(const Moment& m) { return "thread " + std::to_string(m.thread) + " of block " + std::to_string(m.block); }

  std::vector<Access> accesses_;
};

}  // namespace coli::grid::host
