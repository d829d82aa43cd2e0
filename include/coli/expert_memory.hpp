// SPDX-License-Identifier: Apache-2.0
// Where do an engine's experts come from and live? Index, store and cache of one model, joined to the backend's layout.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "coli/cache/expert_cache.hpp"
#include "coli/core/accountant.hpp"
#include "coli/core/error.hpp"
#include "coli/gguf/model_file.hpp"
#include "coli/model/hyperparams.hpp"
#include "coli/model/tensors.hpp"
#include "coli/store/any_store.hpp"
#include "coli/store/expert_index.hpp"

namespace coli {

/// The index of a model's experts: files, stacks, sizes. Errors: bad_input.
inline Result<ExpertIndex> index_experts(const gguf::ModelFile& file, const ModelTensors& tensors, std::uint32_t n_experts) {
  std::vector<ExpertFile> files;
  for (const auto& shard : file.shards()) files.push_back({shard.path, shard.size, shard.memory});
  std::vector<std::optional<ExpertStacks>> layers;
  const auto stack = [](const TensorRef& t) { return Extent{t.info->file, t.info->offset, (t.bytes() * t.n_stacked).value}; };
  for (const LayerTensors& t : tensors.layers) {
    auto& layer = layers.emplace_back();
    if (t.is_moe()) layer = ExpertStacks{{stack(t.gate), stack(t.up), stack(t.down)}};
  }
  return ExpertIndex::make(std::move(files), n_experts, std::move(layers));
}

/// Owns index, store and cache. Slots hold weights in the kernels' layout: filling one is a read and a `prepare`.
template <EvictionPolicy E>
class ExpertMemory {
 public:
  using Cache = ExpertCache<E, AnyStore>;

  /// Errors: over_budget, io, bad_input. `kernels` and `tensors` must outlive it.
  template <class Kernels>
  static Result<std::unique_ptr<ExpertMemory>> open(Accountant& accountant, const gguf::ModelFile& file, const ModelTensors& tensors,
                                                    const Hyperparams& h, const Kernels& kernels, unsigned n_threads) {
    auto memory = std::make_unique<ExpertMemory>();
    COLI_TRY(index, index_experts(file, tensors, h.n_experts));
    memory->index_ = std::move(index);
    const bool has_experts = std::any_of(tensors.layers.begin(), tensors.layers.end(), [](const LayerTensors& t) { return t.is_moe(); });
    if (!has_experts) return memory;
    COLI_TRY(store, AnyStore::open(memory->index_));
    memory->store_ = std::move(store);
    COLI_TRY(geometry, geometry_of(memory->index_, h.top_k));

    // Weights that the kernels take as they lie, in memory already, need no slots at all.
    const bool zero_copy = Kernels::kPreparedLayout == Layout::plain && memory->index_.all_in_memory();
    SlotFiller filler;
    if (Kernels::kPreparedLayout != Layout::plain) {
      filler = [&kernels, &tensors](ExpertKey key, Part part, std::span<const std::byte> raw, std::byte* slot) {
        const LayerTensors& t = tensors.layers[key.layer.value];
        const TensorRef& ref = part == Part::gate ? t.gate : part == Part::up ? t.up : t.down;
        kernels.prepare(ref.format, raw.data(), ref.n_rows, ref.n_cols, slot);
      };
    }
    const SlotPlan plan = zero_copy ? least_slots(geometry) : resident_plan(geometry);
    COLI_TRY(cache, Cache::open(accountant, *memory->store_, geometry, plan, std::move(filler), CacheOptions{.staging_buffers = 0, .zero_copy = zero_copy}));
    memory->cache_ = std::move(cache);
    COLI_CHECK(memory->cache_->fill_all(n_threads));
    return memory;
  }

  /// Requires a model with experts.
  Cache& cache() noexcept { return *cache_; }
  const ExpertIndex& index() const noexcept { return index_; }

 private:
  static SlotPlan resident_plan(const CacheGeometry& geometry) {
    SlotPlan plan;
    plan.bytes = geometry.all_bytes();
    for (std::uint32_t c = 0; c < geometry.classes().size(); ++c) plan.slots.push_back(geometry.experts_in_class(c));
    return plan;
  }

  ExpertIndex index_;
  std::unique_ptr<AnyStore> store_;
  std::unique_ptr<Cache> cache_;
};

}  // namespace coli
