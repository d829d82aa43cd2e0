// SPDX-License-Identifier: Apache-2.0
// What may a host decide when it opens an engine, watch while it runs, and read afterwards?
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "coli/cache/cache_stats.hpp"
#include "coli/contracts/cpu_kernels.hpp"
#include "coli/contracts/device_work.hpp"
#include "coli/core/bytes.hpp"
#include "coli/core/ids.hpp"
#include "coli/moe/lease_notes.hpp"
#include "coli/moe/route_phase.hpp"
#include "coli/moe/routing.hpp"
#include "coli/parked_options.hpp"
#include "coli/plan/hybrid_split.hpp"
#include "coli/store/store_options.hpp"

namespace coli {

/// Values, not structure: what an engine is made of is its profile.
struct EngineOptions {
  std::optional<std::uint32_t> context{};  // positions of the KV cache; otherwise the model's own, at most 4096
  std::optional<KvFormat> kv{};            // otherwise the profile's
  unsigned threads = 0;                  // 0: the physical cores available to this process
  std::optional<std::uint32_t> chunk{};  // tokens of one prefill pass: speed and scratch, never bits; otherwise at most 512
  std::optional<Bytes> memory{};         // covers everything the process holds; otherwise every expert is resident
  std::optional<Bytes> vram{};           // the same for what a device holds, where the profile has one; otherwise what it has free
  std::uint32_t cpu_experts = 0;         // of each layer's experts, that the CPU computes beside a device; the same all the run: bits depend on it
  std::optional<SplitRates> split{};     // where measured: their number follows from these rates instead (plan/hybrid_split.hpp)
  std::uint32_t prefetch = 0;            // experts of the next layer to guess and read ahead while the disk is idle; 0: none
  std::optional<Bytes> expert_bytes{};   // at most so many bytes of expert slots (but the least); otherwise what memory leaves
  std::string evict{};                   // which of the profile's eviction policies; empty: its first
  StoreOptions store{};                  // how experts are read; StoreKind::memory: all resident, or over_budget
  ParkedOptions parked{};                // slower ways to the same bits
  bool time_bodies = false;              // a device says how long each kind of its bodies took: slower, the same bits
};

/// Called between layers; each may be empty. For goldens, traces and per-layer comparison; values are valid in the call.
struct EngineObserver {
  /// The residual stream [n_tokens, hidden] of positions first.. after a layer (layer 0 = first) ...
  std::function<void(LayerId, std::uint32_t first, std::span<const float> hidden)> on_hidden;
  /// ... the choice of an MoE layer for positions first.., and what the cache did for it ...
  std::function<void(LayerId, std::uint32_t first, const Routing&, const LeaseNotes&)> on_routing;
  /// ... and after the whole pass, when positions first.. are part of the sequence.
  std::function<void(std::uint32_t first, std::uint32_t n_tokens, RoutePhase)> on_pass;
};

/// Experts on a device, where the profile has one.
struct DeviceTierStats {
  std::uint64_t slots = 0, hits = 0, misses = 0, uploaded_bytes = 0;
  std::uint32_t cpu_experts = 0;  // of each layer, that the CPU computes
  std::uint64_t on_cpu = 0;       // experts that it was asked for
  Bytes held{};                   // of the device's memory, in all
  std::uint64_t experts = 0;      // of the model, over all layers: as many slots hold all
  Bytes slot_bytes{};             // of all slots
  DeviceWork work{};
  std::vector<BodyTime> bodies{};  // where EngineOptions::time_bodies
};

/// Counts since the engine was opened.
struct EngineStats {
  std::uint64_t prefill_tokens = 0;
  double prefill_seconds = 0;
  std::uint64_t decode_tokens = 0;
  double decode_seconds = 0;
  double load_seconds = 0;
  std::vector<std::string> kernels;  // ids of the matrix kernels that run, one a format in use
  CacheStats cache;
  std::uint64_t slots = 0;
  DeviceTierStats device;
  std::string_view policy, store;
};

}  // namespace coli
