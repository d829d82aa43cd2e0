// SPDX-License-Identifier: Apache-2.0
// Where do an engine's experts come from and live? Index, store and cache of one model, joined to the backend's layout.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coli/cache/expert_cache.hpp"
#include "coli/core/accountant.hpp"
#include "coli/core/error.hpp"
#include "coli/engine_bill.hpp"
#include "coli/gguf/model_file.hpp"
#include "coli/model/hyperparams.hpp"
#include "coli/model/tensors.hpp"
#include "coli/quant/matrix.hpp"
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

/// May this profile's experts be evicted by the policy called `evict`, from a store of this kind? Errors: usage, with
/// what there is; also where nothing would ever be evicted.
template <EvictionPolicy E>
Result<void> check_eviction_choice(std::string_view evict, std::string_view profile, StoreKind store) {
  if (evict.empty()) return {};
  const std::string wanted = "'" + std::string(evict) + "'";
  if constexpr (ChosenByName<E>) {
    if (std::find(E::names().begin(), E::names().end(), evict) == E::names().end()) {
      std::string message = "there is no eviction policy " + wanted + " in the profile '" + std::string(profile) + "'; it holds";
      for (const std::string_view name : E::names()) (message += name == E::names().front() ? " " : ", ") += name;
      return Error{Errc::usage, message, "--evict"};
    }
  } else {
    return Error{Errc::usage, wanted + " can't be chosen: the profile '" + std::string(profile) + "' has one eviction policy, " + std::string(E::name.view()), "--evict"};
  }
  if (store == StoreKind::memory || store == StoreKind::mmap)
    return Error{Errc::usage, wanted + " would never act: nothing is evicted with --store " + std::string(name_of(store)), "--evict"};
  return {};
}

/// Owns index, store and cache. Slots hold weights in the kernels' layout: filling one is a read and a `prepare`.
/// A resident run is the same cache with a slot for every expert, filled at the start.
template <EvictionPolicy E, ExpertStore S = AnyStore>
class ExpertMemory {
 public:
  using Cache = ExpertCache<E, S>;

  /// Opens the store: from here on the sizes below are known. Errors: io, bad_input, unavailable (the store asked for).
  /// `kernels` and `tensors` must outlive it. `plain_slots`: weights stay as the file has them.
  template <class Kernels>
  static Result<std::unique_ptr<ExpertMemory>> connect(const gguf::ModelFile& file, const ModelTensors& tensors, const Hyperparams& h,
                                                       const Kernels& kernels, const StoreOptions& options, bool plain_slots = false) {
    auto memory = std::make_unique<ExpertMemory>();
    COLI_TRY(index, index_experts(file, tensors, h.n_experts));
    memory->index_ = std::move(index);
    if (std::none_of(tensors.layers.begin(), tensors.layers.end(), [](const LayerTensors& t) { return t.is_moe(); })) return memory;
    COLI_TRY(store, S::open(memory->index_, options));
    memory->store_ = std::move(store);
    COLI_TRY(geometry, geometry_of(memory->index_, h.top_k));
    memory->geometry_ = std::move(geometry);

    // Weights that are used as they lie need no slots: plain kernels over memory, any kernels over a mapping (whose
    // pages come and go as the system likes: the control that a bounded cache is compared with).
    memory->zero_copy_ = !memory->store_->alignment().copies() && (Kernels::kPreparedLayout == Layout::plain || options.kind == StoreKind::mmap);
    memory->layout_ = memory->zero_copy_ || plain_slots ? Layout::plain : Kernels::kPreparedLayout;
    if (memory->layout_ != Layout::plain) {
      memory->filler_ = [&kernels, &tensors](ExpertKey key, Part part, FillPiece piece, std::span<const std::byte> raw, std::byte* slot) {
        const LayerTensors& t = tensors.layers[key.layer.value];
        const TensorRef& ref = part == Part::gate ? t.gate : part == Part::up ? t.up : t.down;
        const std::uint32_t begin = first_row<Kernels>(ref.n_rows, piece.index, piece.count), end = first_row<Kernels>(ref.n_rows, piece.index + 1, piece.count);
        const std::size_t offset = begin * row_bytes(ref.format, ref.n_cols);
        // Kernels of two processors have two layouts: which it is depends on who computes the expert.
        if constexpr (requires { kernels.prepare_expert(key.expert, ref.format, raw.data(), end - begin, ref.n_cols, slot); })
          kernels.prepare_expert(key.expert, ref.format, raw.data() + offset, end - begin, ref.n_cols, slot + offset);
        else
          kernels.prepare(ref.format, raw.data() + offset, end - begin, ref.n_cols, slot + offset);
      };
    }
    return memory;
  }

  /// Where a piece of a matrix begins that is prepared by itself.
  template <class Kernels>
  static constexpr std::uint32_t first_row(std::uint32_t n_rows, std::uint32_t piece, std::uint32_t n_pieces) {
    return piece == n_pieces ? n_rows : n_rows / Kernels::kRowTile * piece / n_pieces * Kernels::kRowTile;
  }

  /// How the weights lie in a slot.
  Layout layout() const noexcept { return layout_; }
  std::vector<std::string> notes() const { return has_experts() ? store_->notes() : std::vector<std::string>{}; }
  bool has_experts() const noexcept { return store_ != nullptr; }
  ExpertSizes sizes() const { return has_experts() ? expert_sizes(geometry_, zero_copy_, store_->alignment()) : ExpertSizes{}; }

  /// Takes slots worth `budget` (at least the least of sizes()). `evict`: see check_eviction_choice. Errors: over_budget.
  Result<void> allocate(Accountant& accountant, Bytes budget, std::string_view evict = {}) {
    if (!has_experts()) return {};
    COLI_TRY(plan, plan_slots(geometry_, zero_copy_ ? least_slots(geometry_).bytes : budget));
    const auto make_policy = [&](EvictionShape shape, std::uint32_t) {
      if constexpr (ChosenByName<E>) return evict.empty() ? E(shape) : E(shape, evict);
      else return E(shape);
    };
    COLI_TRY(cache, Cache::open(accountant, *store_, geometry_, plan, filler_, CacheOptions{.fill_pieces = kFillPieces, .zero_copy = zero_copy_}, make_policy));
    cache_ = std::move(cache);
    n_slots_ = zero_copy_ ? 0 : plan.total();  // mapped weights need none
    holds_all_ = plan.all_resident(geometry_);
    if (!holds_all_ && !zero_copy_) cache_->touch_slots();
    return {};
  }

  /// Memory for reading other things, until the first expert is read; empty where experts need none.
  std::span<std::byte> io_memory() const noexcept { return cache_ ? cache_->io_memory() : std::span<std::byte>{}; }

  /// Where there is a slot for every expert, fills them all with `n_threads` threads. Errors: io.
  Result<void> fill(unsigned n_threads) { return holds_all_ ? cache_->fill_all(n_threads) : Result<void>{}; }

  /// Requires a model with experts, after allocate().
  Cache& cache() noexcept { return *cache_; }
  const Cache* cache_or_null() const noexcept { return cache_.get(); }
  std::uint64_t n_slots() const noexcept { return n_slots_; }
  /// Requires a model with experts.
  S& store() noexcept { return *store_; }
  /// Requires has_experts().
  const CacheGeometry& geometry() const noexcept { return geometry_; }
  std::string_view store_name() const { return has_experts() ? store_->rung() : std::string_view("none"); }
  const ExpertIndex& index() const noexcept { return index_; }

 private:
  /// What arrives last is prepared by all threads together: nothing else is left to do.
  static constexpr std::uint32_t kFillPieces = 4;

  ExpertIndex index_;
  CacheGeometry geometry_;
  std::unique_ptr<S> store_;
  bool zero_copy_ = false, holds_all_ = false;
  Layout layout_ = Layout::plain;
  SlotFiller filler_;
  std::unique_ptr<Cache> cache_;
  std::uint64_t n_slots_ = 0;
};

}  // namespace coli
