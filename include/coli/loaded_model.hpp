// SPDX-License-Identifier: Apache-2.0
// Everything an engine holds once a model is open, in the order in which it is acquired.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "coli/contracts/backend.hpp"
#include "coli/contracts/device.hpp"
#include "coli/core/accountant.hpp"
#include "coli/core/error.hpp"
#include "coli/engine_bill.hpp"
#include "coli/engine_options.hpp"
#include "coli/expert_memory.hpp"
#include "coli/expert_tier.hpp"
#include "coli/gguf/model_file.hpp"
#include "coli/model/hyperparams.hpp"
#include "coli/model/kv_cache.hpp"
#include "coli/model/rope_table.hpp"
#include "coli/model/scratch.hpp"
#include "coli/model/tensors.hpp"
#include "coli/model/trunk.hpp"
#include "coli/moe/moe_block.hpp"
#include "coli/plan/cpus.hpp"
#include "coli/plan/memory_bill.hpp"
#include "coli/profile.hpp"
#include "coli/text/tokenizer.hpp"

namespace coli {

/// Never moves: buffers point at the accountant, the cache at the store and the index.
template <Profile P>
struct LoadedModel {
  using Backend = typename P::Backend;
  using Kernels = typename Backend::KernelSet;

  /// Errors: see engine::open.
  static Result<std::unique_ptr<LoadedModel>> load(gguf::ModelFile file, const EngineOptions& options, Kernels kernels) {
    const auto start = std::chrono::steady_clock::now();
    const std::string path = file.shards().front().path;
    const auto named = [&](Error error) { return std::move(error).in_file(path); };
    auto model = std::make_unique<LoadedModel>(std::move(file), options, std::move(kernels));
    if (auto done = model->read_header(options); !done) return named(std::move(done).error());
    if (auto done = model->acquire_memory(options); !done) return named(std::move(done).error());
    if (auto done = model->load_weights(); !done) return named(std::move(done).error());
    model->stats.load_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return model;
  }

  LoadedModel(gguf::ModelFile f, const EngineOptions& options, Kernels kernels)
      : accountant(options.memory, !options.parked.small_pages), file(std::move(f)), backend(std::move(kernels), options.threads != 0 ? options.threads : available_cores()), prefetch(options.prefetch) {}
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;

  Result<const Tokenizer*> tokenizer_or_error() const {
    if (tokenizer) return &*tokenizer;
    return Error(tokenizer_error);
  }

  /// What layer `l` should guess about the MoE layer after it.
  MoeForesight foresight_after(std::uint32_t l) {
    if (prefetch == 0 || l + 1 >= moe_layers.size() || moe_layers[l + 1].rules.n_experts == 0) return {};
    return {&moe_layers[l + 1], prefetch, &guess};
  }

  Accountant accountant;  // first: every buffer gives its charge back to it
  gguf::ModelFile file;
  Hyperparams hyperparams;
  ModelTensors tensors;
  std::vector<std::uint32_t> padding;  // ids that must never be sampled
  std::optional<Tokenizer> tokenizer;
  Error tokenizer_error;

  Backend backend;
  RopeTable rope;
  KvCache kv;
  Buffer scratch_memory;
  Scratch scratch{};
  std::span<const float> logits;  // of the last token asked for, where the host can read them
  std::uint32_t chunk = 0;        // tokens of one pass
  Routing routing;
  ExpertBatches batches;
  std::uint32_t prefetch = 0;
  Routing guess;

  Trunk trunk;
  std::vector<MoeLayer> moe_layers;  // by layer; dense layers have an empty entry
  std::unique_ptr<ExpertMemory<typename P::Eviction, StoreOf<P>>> experts;
  ExpertTier<Backend, ExpertMemory<typename P::Eviction, StoreOf<P>>> tier;  // above them, on a device
  RoutesOf<P> routes;

  std::vector<TokenId> tokens;  // what the KV cache holds
  std::atomic<bool> cancelled{false};
  EngineObserver observer;
  LeaseNotes lease_notes;  // of the layer just done
  EngineStats stats;

 private:
  Result<void> read_header(const EngineOptions& options) {
    COLI_TRY(h, Hyperparams::read(file.metadata()));
    COLI_TRY(bound, ModelTensors::bind(file, h, FormatSet::of(typename P::Formats{})));
    hyperparams = h;
    tensors = std::move(bound);
    if (auto read = Tokenizer::from(file.metadata())) {
      tokenizer = std::move(*read);
    } else {
      tokenizer_error = std::move(read).error();
    }
    if (tokenizer) COLI_CHECK(mark_padding(tokenizer->vocabulary()));

    const std::uint32_t wanted = options.context.value_or(std::min(h.context, kDefaultContext));
    if (wanted == 0) return Error{Errc::usage, "the context needs at least one position", "--ctx"};
    if (wanted > h.context)
      return Error{Errc::usage, std::to_string(wanted) + " positions; the model was trained for " + std::to_string(h.context), "--ctx"};
    context_ = wanted;
    COLI_CHECK(check_eviction_choice<typename P::Eviction>(options.evict, P::name.view(), options.store.kind));
    COLI_CHECK(check_parked(options));
    COLI_CHECK(check_device_options(options));
    evict_ = options.evict;
    chunk = std::clamp(options.chunk.value_or(kDefaultChunk), 1U, wanted);
    constexpr std::uint32_t kMostOnDevice = 2048;
    if constexpr (!Backend::kHostMemory)  // uses of experts are rows of a launch
      chunk = std::min({chunk, kMostOnDevice, LaunchShape::kMostBlocksY / std::max(h.top_k, 1U)});
    return {};
  }

  Result<void> check_parked(const EngineOptions& options) {
    plain_slots_ = options.parked.plain_slots;
    if constexpr (requires { backend.split_experts(true); }) {
      backend.split_experts(options.parked.split_experts);
      return {};
    }
    if (!options.parked.plain_slots && !options.parked.split_experts) return {};
    return Error{Errc::usage, "the profile '" + std::string(P::name.view()) + "' computes experts in one way only", "--parked"};
  }

  Result<void> check_device_options(const EngineOptions& options) {
    if constexpr (!Backend::kHostMemory) {
      if (backend.kernels().device == nullptr)
        return Error{Errc::usage, "the profile '" + std::string(P::name.view()) + "' runs on a device, and its kernels name none: open it with kernels that hold one", "kernels"};
      backend.record_passes(!options.parked.plain_passes);
      backend.device().time_bodies(options.time_bodies);
    } else if (options.parked.plain_passes || options.time_bodies) {
      return Error{Errc::usage, "the profile '" + std::string(P::name.view()) + "' runs on the CPU: there are no passes of a device to " + (options.time_bodies ? "time" : "record"),
                   options.time_bodies ? "--bodies" : "--parked"};
    }
    return {};
  }

  Result<void> mark_padding(const Vocabulary& vocabulary) {
    if (vocabulary.size() > tensors.n_vocab)
      return Error{Errc::bad_input, "the embedding has " + std::to_string(tensors.n_vocab) + " rows for " + std::to_string(vocabulary.size()) + " tokens", "token_embd.weight"};
    for (std::uint32_t id = 0; id < tensors.n_vocab; ++id)
      if (!vocabulary.is_sampleable(TokenId{static_cast<std::int32_t>(id)})) padding.push_back(id);
    return {};
  }

  /// Everything but slots is taken at its full size; the limit is checked before any of it, so that a refusal comes
  /// with the whole bill and before minutes of loading.
  Result<void> acquire_memory(const EngineOptions& options) {
    const Hyperparams& h = hyperparams;
    const KvFormat format = options.kv.value_or(P::kKvFormat);
    if (!backend.kernels().supports(format))
      return Error{Errc::unavailable, "the profile '" + std::string(P::name.view()) + "' keeps no " + std::string(name_of(format)) + " keys and values", "--kv"};
    COLI_CHECK(connect_experts(options.store, false));
    EngineShape shape{context_, chunk, format};
    const auto scratch_bytes = [&] { return Scratch::bytes(h, tensors.n_vocab, shape.chunk) + backend.scratch_bytes(backend_shape(h, shape)); };
    const std::optional<Bytes> limit = Backend::kHostMemory ? options.memory : options.vram;  // of the memory that scratch lies in
    if (limit && !options.chunk)  // a pass as large as a twentieth of the limit allows
      while (shape.chunk > 16 && scratch_bytes() * 20 > *limit) shape.chunk /= 2;
    chunk = shape.chunk;

    MemoryBill bill = engine_bill(h, tensors.n_vocab, Trunk::bytes(tensors), shape, backend.scratch_bytes(backend_shape(h, shape)), experts->sizes());
    bill.base = resident_bytes_now() + kEngineSlack;
    COLI_CHECK(tier.budget(backend, *experts, options, bill));
    if (tier.holds_all()) bill.all_slots = bill.least_slots;  // what they come through
    if constexpr (!Backend::kHostMemory) {
      bill.trunk = bill.kv = Bytes{};
      bill.scratch = backend.host_scratch_bytes(backend_shape(h, shape));
    }
    slot_budget_ = bill.all_slots;
    if (options.memory) {
      if (options.store.kind == StoreKind::memory && bill.all() > *options.memory) bill.least_slots = bill.all_slots;
      COLI_TRY(budget, bill.slots_under(*options.memory));
      slot_budget_ = budget;
    }
    if (options.expert_bytes) slot_budget_ = std::clamp(*options.expert_bytes, bill.least_slots, slot_budget_);
    // A model that is read once, whole, may find parts of itself in the page cache.
    const bool reads_files = options.store.kind == StoreKind::best || options.store.kind == StoreKind::memory;
    if (reads_files && slot_budget_ == bill.all_slots) COLI_CHECK(connect_experts(options.store, true));
    COLI_CHECK(accountant.charge(MemoryClass::base, bill.base));

    rope = RopeTable(h.rope_base, h.head_dim);
    COLI_TRY(cache, KvCache::allocate(backend, accountant, kv_shape(h, shape)));
    kv = std::move(cache);
    COLI_TRY(allocated, Scratch::allocate(backend, accountant, h, tensors.n_vocab, chunk, scratch_memory));
    scratch = allocated;
    COLI_CHECK(backend.reserve(accountant, backend_shape(h, shape)));
    if constexpr (!Backend::kHostMemory) return backend.fill_positions(rope);
    return {};
  }

  Result<void> connect_experts(StoreOptions store, bool read_once) {
    const bool in_memory = std::all_of(file.shards().begin(), file.shards().end(), [](const auto& shard) { return !shard.memory.empty(); });
    if (store.kind == StoreKind::memory && !in_memory) store.kind = StoreKind::best;  // resident slots, filled from the file
    store.read_once = read_once;
    experts.reset();
    COLI_TRY(connected, ExpertMemory<typename P::Eviction, StoreOf<P>>::connect(file, tensors, hyperparams, backend.kernels(), store, plain_slots_));
    experts = std::move(connected);
    return {};
  }

  Result<void> load_weights() {
    std::vector<gguf::ByteSource> sources;
    for (const auto& shard : file.shards()) {
      if (!shard.memory.empty()) {
        sources.push_back(gguf::ByteSource::over(shard.memory));
        continue;
      }
      COLI_TRY(source, gguf::ByteSource::open(shard.path));
      if (source.size() != shard.size)
        return Error{Errc::io, "the file changed while it was opened: " + std::to_string(shard.size) + " bytes, now " + std::to_string(source.size()), "", shard.path};
      sources.push_back(std::move(source));
    }
    COLI_CHECK(experts->allocate(accountant, slot_budget_, evict_));  // first: slots are touched while the trunk is read
    COLI_TRY(loaded, Trunk::load(accountant, tensors, sources, backend, backend.n_threads(), experts->io_memory()));
    trunk = std::move(loaded);
    describe_experts();
    COLI_CHECK(experts->fill(backend.n_threads()));
    return tier.fill(backend, *experts);
  }

  void describe_experts() {
    const Hyperparams& h = hyperparams;
    FormatSet used;
    const auto shape = [&](const TensorRef& t) { return Matrix{t.format, experts->layout(), t.n_rows, t.n_cols, nullptr}; };
    for (std::uint32_t l = 0; l < h.n_layers; ++l) {
      const LayerTensors& t = tensors.layers[l];
      MoeLayer& layer = moe_layers.emplace_back();
      for (const TensorRef* ref : {&t.q, &t.k, &t.v, &t.o, &t.gate, &t.up, &t.down}) used.insert(ref->format);
      if (!t.is_moe()) continue;
      used.insert(t.router.format);
      layer = {LayerId{l}, h.hidden, h.norm_epsilon, trunk.layers[l].ffn_norm, trunk.layers[l].router, {shape(t.gate), shape(t.up), shape(t.down)},
               {h.n_experts, h.top_k, h.renormalise_top_k, h.expert_weight_scale}};
    }
    used.insert(trunk.output.format);
    for (std::size_t f = 0; f < kFormats; ++f)
      if (used.contains(static_cast<Format>(f))) stats.kernels.push_back(backend.kernels().matmul_id(static_cast<Format>(f)));
  }

  /// What the process holds before the model's own memory: measured, so that metadata, tokenizer, code and libraries
  /// are in it, whatever they are.
  static Bytes resident_bytes_now() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("VmHWM:")) return Bytes{std::strtoull(line.c_str() + 6, nullptr, 10)} * kKiB;
    return {};
  }

  std::uint32_t context_ = 0;
  std::string evict_;
  bool plain_slots_ = false;
  Bytes slot_budget_{};
};

}  // namespace coli
