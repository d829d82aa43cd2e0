// SPDX-License-Identifier: Apache-2.0
// What does an engine of this shape hold, class by class? The engine charges it, the planner plans with it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "coli/cache/expert_cache.hpp"
#include "coli/cache/geometry.hpp"
#include "coli/cache/slot_plan.hpp"
#include "coli/cache/staging.hpp"
#include "coli/contracts/backend.hpp"
#include "coli/contracts/cpu_kernels.hpp"
#include "coli/model/hyperparams.hpp"
#include "coli/model/kv_cache.hpp"
#include "coli/model/scratch.hpp"
#include "coli/model/tensors.hpp"
#include "coli/model/trunk.hpp"
#include "coli/plan/memory_bill.hpp"

namespace coli {

/// What an engine takes where nobody says otherwise and there is room.
inline constexpr std::uint32_t kDefaultContext = 4096, kDefaultChunk = 512;

/// What is chosen about an engine besides its slots.
struct EngineShape {
  std::uint32_t context;  // positions
  std::uint32_t chunk;    // tokens of one prefill pass
  KvFormat kv;
};

inline KvShape kv_shape(const Hyperparams& h, const EngineShape& shape) { return {h.n_layers, h.n_kv_heads, h.head_dim, shape.context, shape.kv}; }

inline BackendShape backend_shape(const Hyperparams& h, const EngineShape& shape) {
  return {shape.chunk, std::max({h.hidden, h.q_width(), h.dense_ffn}), h.expert_ffn, shape.context, h.n_layers, h.n_heads, h.head_dim, h.n_experts, h.top_k};
}

/// Expert slots of a model under one store: the least, all of them, and the buffers that reads land in.
struct ExpertSizes {
  Bytes least_slots{};
  Bytes all_slots{};
  Bytes staging{};
};

/// All zero where weights are used as they lie (`zero_copy`) or the model has no experts.
inline ExpertSizes expert_sizes(const CacheGeometry& geometry, bool zero_copy, StoreAlignment store) {
  if (zero_copy || geometry.classes().empty()) return {};
  return {least_slots(geometry).bytes, geometry.all_bytes(), Staging::bytes_for(default_staging_buffers(geometry.top_k()), geometry.largest_raw_part(), store)};
}

/// The sizes of a model's experts from its tensor table alone. Errors: bad_input.
inline Result<CacheGeometry> expert_geometry(const Hyperparams& h, const ModelTensors& tensors) {
  std::vector<std::optional<ExpertBytes>> layers;
  for (const LayerTensors& t : tensors.layers) {
    auto& layer = layers.emplace_back();
    if (!t.is_moe()) continue;
    const std::array bytes{t.gate.bytes().value, t.up.bytes().value, t.down.bytes().value};
    layer = ExpertBytes{bytes, bytes};
  }
  return CacheGeometry::make(h.n_experts, h.top_k, std::move(layers));
}

/// Page rounding, stacks, what the allocator keeps.
inline constexpr Bytes kEngineSlack{4 * kMiB};

/// Everything but `base`, which only the process itself knows.
inline MemoryBill engine_bill(const Hyperparams& h, std::uint32_t n_vocab, Bytes trunk, const EngineShape& shape, Bytes backend_scratch, const ExpertSizes& experts) {
  MemoryBill bill;
  bill.trunk = trunk;
  bill.kv = kv_shape(h, shape).bytes();
  bill.scratch = Scratch::bytes(h, n_vocab, shape.chunk) + backend_scratch;
  bill.io = std::max(experts.staging, Bytes{Trunk::kStagingBytes});  // loading the trunk has a buffer of its own
  bill.least_slots = experts.least_slots;
  bill.all_slots = experts.all_slots;
  return bill;
}

}  // namespace coli
