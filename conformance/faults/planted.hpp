// SPDX-License-Identifier: Apache-2.0
// Which fault is planted? One at a time, by a switch at run time: the engine under test is compiled once.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>

namespace coli::faults {

enum class Fault : std::uint8_t {
  none,
  expert_plus_one,
  dropped_top_expert,
  uniform_weights,
  no_renormalisation,
  no_qk_norm,
  rope_base_100th,
  wrong_head_dim,
  format_as_another,
  stale_slot,
  lease_ignored,
  short_read,
  arrival_order,
  nan_in_expert,
  position_off_by_one,
  kv_of_another,
  tie_high,
};

inline constexpr std::array kFaults{
    std::pair{Fault::none, std::string_view("clean control")},
    std::pair{Fault::expert_plus_one, std::string_view("expert id + 1")},
    std::pair{Fault::dropped_top_expert, std::string_view("dropped top expert")},
    std::pair{Fault::uniform_weights, std::string_view("uniform weights")},
    std::pair{Fault::no_renormalisation, std::string_view("no renormalisation")},
    std::pair{Fault::no_qk_norm, std::string_view("no Q/K norm")},
    std::pair{Fault::rope_base_100th, std::string_view("rope base / 100")},
    std::pair{Fault::wrong_head_dim, std::string_view("head_dim = hidden / heads")},
    std::pair{Fault::format_as_another, std::string_view("F16 decoded as BF16")},
    std::pair{Fault::stale_slot, std::string_view("stale slot after eviction")},
    std::pair{Fault::lease_ignored, std::string_view("lease ignored")},
    std::pair{Fault::short_read, std::string_view("short read accepted")},
    std::pair{Fault::arrival_order, std::string_view("ranks summed in arrival order")},
    std::pair{Fault::nan_in_expert, std::string_view("NaN in one expert")},
    std::pair{Fault::position_off_by_one, std::string_view("off-by-one position")},
    std::pair{Fault::kv_of_another, std::string_view("KV of another sequence")},
    std::pair{Fault::tie_high, std::string_view("tie broken high")},
};

inline std::atomic<Fault> planted{Fault::none};
inline bool is(Fault fault) noexcept { return planted.load(std::memory_order_relaxed) == fault; }

/// What a fault remembers of the run so far: fresh for every engine.
struct Memory {
  std::mutex mutex;
  std::set<const void*> filled;  // stale_slot: places that were filled once
  bool seen_a_sequence = false;  // kv_of_another
};
inline Memory memory;
inline void forget() {
  memory.filled.clear();
  memory.seen_a_sequence = false;
}

}  // namespace coli::faults
