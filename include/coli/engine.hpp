// SPDX-License-Identifier: Apache-2.0
// The composition: one model, one profile, one sequence of tokens.
//
//   prompt - text/ -> tokens - model/ -> hidden - moe/ -> expert ids - cache/ -> slots - backend/ -> hidden - model/ ->
//   logits - sample/ -> token - text/ -> text
//
// `forward` below is that picture. An engine is used by one thread at a time (cancel() by any); two engines share
// nothing. After an error the engine is usable: positions that were not finished are as if never asked for.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coli/core/accountant.hpp"
#include "coli/core/error.hpp"
#include "coli/core/ids.hpp"
#include "coli/engine_options.hpp"
#include "coli/generation.hpp"
#include "coli/gguf/model_file.hpp"
#include "coli/loaded_model.hpp"
#include "coli/model/attention.hpp"
#include "coli/moe/moe_block.hpp"
#include "coli/profile.hpp"

namespace coli {

template <Profile P>
class engine {
 public:
  using profile_type = P;
  using Backend = typename P::Backend;
  using Kernels = typename Backend::KernelSet;

  /// Opens a GGUF file, or any shard of a split set. Errors: io, bad_input (file, tensor or key), unavailable (a format
  /// outside the profile), usage (an option), over_budget.
  static Result<engine> open(const std::string& path, const EngineOptions& options = {}, Kernels kernels = {}) {
    COLI_TRY(file, gguf::ModelFile::open(path));
    return open(std::move(file), options, std::move(kernels));
  }
  /// The same for a model in memory, which must outlive the engine.
  static Result<engine> open(std::span<const std::byte> model, const EngineOptions& options = {}, Kernels kernels = {}) {
    COLI_TRY(file, gguf::ModelFile::parse(model, "model in memory"));
    return open(std::move(file), options, std::move(kernels));
  }
  static Result<engine> open(gguf::ModelFile file, const EngineOptions& options, Kernels kernels) {
    COLI_TRY(model, LoadedModel<P>::load(std::move(file), options, std::move(kernels)));
    return engine(std::move(model));
  }

  const Hyperparams& hyperparams() const noexcept { return model_->hyperparams; }
  const gguf::ModelFile& file() const noexcept { return model_->file; }
  const Accountant& memory() const noexcept { return model_->accountant; }
  EngineStats stats(bool per_layer = false) const {
    EngineStats stats = model_->stats;
    stats.policy = "none";
    if (const auto* cache = model_->experts->cache_or_null()) {
      stats.cache = cache->stats(per_layer);
      stats.policy = cache->policy_name();
    }
    stats.slots = model_->experts->n_slots();
    stats.device = model_->tier.stats(model_->backend);
    stats.store = model_->experts->store_name();
    return stats;
  }
  const ModelTensors& tensors() const noexcept { return model_->tensors; }
  /// Where the weights lie: trunk and expert slots, as a bandwidth measurement may read them.
  std::vector<std::span<const std::byte>> weight_memory() const {
    std::vector<std::span<const std::byte>> spans;
    if (const auto* cache = model_->experts->cache_or_null()) spans = cache->slot_memory();
    spans.push_back(model_->trunk.memory());
    return spans;
  }
  const Kernels& kernels() const noexcept { return model_->backend.kernels(); }
  /// What a person should be told: where something slower than it could be is in use, and why.
  std::vector<std::string> notes() const {
    std::vector<std::string> all = model_->experts->notes();
    if constexpr (!Backend::kHostMemory)
      if (const Bytes unpinned{model_->backend.device().work().unpinned_bytes}; unpinned.value != 0)
        all.push_back(to_text(unpinned) + " of this machine's memory could not be pinned (ulimit -l, or a container's limit): what is uploaded from there comes slower, and nothing runs beside it");
    return all;
  }
  unsigned threads() const noexcept { return model_->backend.n_threads(); }
  KvFormat kv_format() const noexcept { return model_->kv.shape().format; }
  std::uint32_t context() const noexcept { return model_->kv.shape().capacity; }
  EngineObserver& observer() noexcept { return model_->observer; }
  /// What chooses the experts, and where their bytes come from: of use where the profile names its own.
  RoutesOf<P>& routes() noexcept { return model_->routes; }
  StoreOf<P>& store() noexcept { return model_->experts->store(); }

  /// The model's tokenizer. Errors: bad_input, where the file has none or one that is not supported: ids still work.
  Result<const Tokenizer*> tokenizer() const { return model_->tokenizer_or_error(); }

  /// The ids of `text`, without BOS. Errors: as tokenizer(), and the tokenizer's own.
  Result<std::vector<TokenId>> tokenize(std::string_view text) const {
    COLI_TRY(t, tokenizer());
    return t->encode(text);
  }

  /// Tokens whose keys and values the cache holds.
  std::span<const TokenId> tokens() const noexcept { return model_->tokens; }
  std::uint32_t position() const noexcept { return static_cast<std::uint32_t>(model_->tokens.size()); }

  /// Forgets every position from `position` on; what follows is bit-equal to a fresh prefill of what is left.
  Result<void> truncate(std::uint32_t position) {
    if (position > this->position())
      return Error{Errc::usage, "cannot truncate to position " + std::to_string(position) + ": there are " + std::to_string(this->position())};
    model_->tokens.resize(position);
    return {};
  }

  /// Has experts read into free slots before they are asked for, the first of `keys` first, while the disk has nothing
  /// else to do: a warm start. Returns at once, evicts nothing, changes no bit.
  void warm(std::vector<ExpertKey> keys) {
    if (model_->experts->has_experts()) model_->experts->cache().warm(std::move(keys));
  }

  /// Makes the running call return Errc::interrupted soon; where none runs, the next step(): nothing is lost between
  /// the steps of a generation. A prefill starts afresh. Any thread, also a signal handler.
  void cancel() noexcept { model_->cancelled.store(true, std::memory_order_relaxed); }

  /// Appends tokens and returns the logits [n_vocab] after the last one; -infinity marks ids that are only padding.
  /// Valid until the next call. Errors: usage (an id outside the vocabulary, more tokens than the context has room
  /// for: both before any compute), internal (a value is not finite), io, interrupted.
  Result<std::span<const float>> prefill(std::span<const TokenId> tokens) {
    model_->cancelled.store(false, std::memory_order_relaxed);
    return timed(tokens.size(), model_->stats.prefill_tokens, model_->stats.prefill_seconds, [&] { return append(tokens, RoutePhase::prefill, nullptr); });
  }
  /// The same for one generated token.
  Result<std::span<const float>> step(TokenId token) {
    return timed(1, model_->stats.decode_tokens, model_->stats.decode_seconds, [&] { return append({&token, 1}, RoutePhase::decode, nullptr); });
  }
  /// As prefill; `each(position, logits)` sees the logits after every token, in order.
  template <class Each>
  Result<std::span<const float>> prefill(std::span<const TokenId> tokens, Each&& each) {
    const EachLogits call{&each, [](void* context, std::uint32_t position, std::span<const float> logits) {
                            (*static_cast<std::remove_reference_t<Each>*>(context))(position, logits);
                          }};
    model_->cancelled.store(false, std::memory_order_relaxed);
    return timed(tokens.size(), model_->stats.prefill_tokens, model_->stats.prefill_seconds, [&] { return append(tokens, RoutePhase::prefill, &call); });
  }

  /// Generates after `prompt`; see coli::generate (generation.hpp) for what `on_token` sees and returns.
  template <class OnToken>
  Result<StopReason> generate(std::span<const TokenId> prompt, const GenerationOptions& options, std::string& tail, OnToken&& on_token) {
    const auto t = tokenizer();
    return coli::generate(*this, t ? *t : nullptr, prompt, options, tail, std::forward<OnToken>(on_token));
  }

 private:
  struct EachLogits {
    void* context;
    void (*call)(void*, std::uint32_t, std::span<const float>);
  };

  explicit engine(std::unique_ptr<LoadedModel<P>> model) : model_(std::move(model)) {}

  Result<std::span<const float>> append(std::span<const TokenId> tokens, RoutePhase phase, const EachLogits* each) {
    LoadedModel<P>& m = *model_;
    if (tokens.empty()) return Error{Errc::usage, "no tokens to process"};
    for (const TokenId token : tokens)
      if (token.value < 0 || static_cast<std::uint32_t>(token.value) >= m.tensors.n_vocab)
        return Error{Errc::usage, "token id " + std::to_string(token.value) + " is outside the vocabulary (0 to " + std::to_string(m.tensors.n_vocab - 1) + ")"};
    if (tokens.size() > context() - position())
      return Error{Errc::usage, std::to_string(tokens.size()) + " tokens do not fit: the context of " + std::to_string(context()) +
                                    " has room for " + std::to_string(context() - position())};
    for (std::size_t done = 0; done < tokens.size();) {
      const auto n = static_cast<std::uint32_t>(std::min<std::size_t>(m.chunk, tokens.size() - done));
      const bool last = done + n == tokens.size();
      if (auto passed = forward(tokens.subspan(done, n), phase, last, each); !passed) {
        if (passed.error().code == Errc::interrupted) m.cancelled.store(false, std::memory_order_relaxed);
        return std::move(passed).error();
      }
      done += n;
    }
    return m.logits;
  }

  /// One pass of n tokens through the whole model, appended to the sequence when it is done.
  Result<void> forward(std::span<const TokenId> tokens, RoutePhase phase, bool wants_logits, const EachLogits* each) {
    LoadedModel<P>& m = *model_;
    const Hyperparams& h = m.hyperparams;
    const Scratch& s = m.scratch;
    const auto n = static_cast<std::uint32_t>(tokens.size());
    const bool observed = m.observer.on_routing != nullptr || m.observer.on_hidden != nullptr;
    // Here too: a pass that a device plays from a recording asks at no layer.
    if (m.cancelled.load(std::memory_order_relaxed)) return Error{Errc::interrupted, "cancelled before a pass"};
    COLI_CHECK(m.backend.pass(tokens, position(), observed, [&] { return layers(tokens, position()); }));

    for (std::uint32_t t = each != nullptr ? 0 : n - 1; t < n && (wants_logits || each != nullptr); ++t) {
      m.backend.rmsnorm(s.hidden + std::size_t{t} * h.hidden, 1, h.hidden, m.trunk.output_norm.data(), h.norm_epsilon, s.normed);
      m.backend.matmul({{&m.trunk.output, s.logits}}, s.normed, 1);
      COLI_TRY(logits, m.backend.read(s.logits, m.tensors.n_vocab));
      for (const std::uint32_t id : m.padding) logits[id] = -std::numeric_limits<float>::infinity();
      m.logits = logits;
      if (each != nullptr) each->call(each->context, position() + t, m.logits);
    }
    m.tokens.insert(m.tokens.end(), tokens.begin(), tokens.end());
    if (m.observer.on_pass) m.observer.on_pass(position() - n, n, phase);
    return {};
  }

  /// The residual stream of n tokens, from embedding to last layer.
  Result<void> layers(std::span<const TokenId> tokens, std::uint32_t first) {
    LoadedModel<P>& m = *model_;
    const Hyperparams& h = m.hyperparams;
    const Scratch& s = m.scratch;
    const auto n = static_cast<std::uint32_t>(tokens.size());
    LeaseNotes* const notes = m.observer.on_routing ? &m.lease_notes : nullptr;
    m.backend.embed(m.trunk.embedding, tokens, s.hidden);
    m.backend.positions(m.rope, first, n, h.head_dim, s.rope);
    for (std::uint32_t l = 0; l < h.n_layers; ++l) {
      if (m.cancelled.load(std::memory_order_relaxed)) return Error{Errc::interrupted, "cancelled at layer " + std::to_string(l)};
      const TrunkLayer& layer = m.trunk.layers[l];
      attention_block(m.backend, h, layer, l, m.kv, first, n, s);
      if (layer.is_moe()) {
        COLI_CHECK(moe_block(m.backend, m.tier.source(*m.experts), m.routes, m.moe_layers[l], first, n,
                             {s.hidden, s.normed, s.router, s.expert_rows, s.foresight, &m.routing, &m.batches, &m.cancelled, notes}, m.foresight_after(l)));
        if (m.observer.on_routing) m.observer.on_routing(LayerId{l}, first, m.routing, m.lease_notes);
      } else {
        dense_ffn_block(m.backend, h, layer, n, s);
      }
      if (m.observer.on_hidden) {
        COLI_TRY(hidden, m.backend.read(s.hidden, std::size_t{n} * h.hidden));
        m.observer.on_hidden(LayerId{l}, first, hidden);
      }
    }
    return {};
  }

  template <class Call>
  auto timed(std::size_t n, std::uint64_t& tokens, double& seconds, Call&& call) {
    const auto start = std::chrono::steady_clock::now();
    auto result = call();
    if (result) {
      tokens += n;
      seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
    return result;
  }

  std::unique_ptr<LoadedModel<P>> model_;
};

}  // namespace coli
