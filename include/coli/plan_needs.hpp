// SPDX-License-Identifier: Apache-2.0
// What does this model ask for under that profile? All that a plan needs to know of both, from the header alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coli/cache/geometry.hpp"
#include "coli/core/bytes.hpp"
#include "coli/core/error.hpp"
#include "coli/engine_bill.hpp"
#include "coli/gguf/model_file.hpp"
#include "coli/model/hyperparams.hpp"
#include "coli/model/tensors.hpp"
#include "coli/model/trunk.hpp"
#include "coli/profile.hpp"
#include "coli/quant/format.hpp"

namespace coli {

/// A profile as a planner sees it: no types, so that plans can be made for profiles that a build does not hold.
struct PlannedProfile {
  std::string name;
  std::string why_not{};            // it can't run here; empty where it can
  Processor processor = Processor::host;
  double memory_share = 0.85;       // of the memory's read rate that its kernels keep up with
  double most_core_rate = 1e12;     // bytes of weights a second that a core computes at most
  KvFormat kv = KvFormat::f32;      // unless a wish says otherwise
  bool keeps_f16 = false;           // it knows F16 keys and values
  bool plain_layout = false;        // weights are used as they lie in the file
  /// Scratch of the backend for an engine of this shape.
  std::function<Bytes(const BackendShape&, unsigned threads)> scratch;
};

/// A profile for a graphics card that this build has no profile for: F16 keys and values, 64 MiB of scratch.
inline PlannedProfile supposed_card() {
  PlannedProfile card;
  card.name = "cuda";
  card.why_not = "the profile cuda is not in this build";
  card.processor = Processor::device;
  card.kv = KvFormat::f16;
  card.keeps_f16 = true;
  card.scratch = [](const BackendShape&, unsigned) { return Bytes{64 * kMiB}; };
  return card;
}

/// `kernels` are copied. Reads nothing of this machine: `why_not` is the caller's to know.
template <Profile P>
PlannedProfile planned_profile(typename P::Backend::KernelSet kernels, std::string why_not = {}) {
  PlannedProfile p;
  p.name = std::string(P::name.view());
  p.why_not = std::move(why_not);
  p.processor = about_of<P>().processor;
  p.memory_share = about_of<P>().memory_share;
  p.most_core_rate = about_of<P>().most_core_rate;
  p.kv = P::kKvFormat;
  if constexpr (requires { kernels.supports(KvFormat::f16); }) p.keeps_f16 = kernels.supports(KvFormat::f16);
  p.plain_layout = P::Backend::KernelSet::kPreparedLayout == Layout::plain;
  if constexpr (requires(BackendShape shape) { P::Backend::scratch_bytes(kernels, 1U, shape); })
    p.scratch = [kernels](const BackendShape& shape, unsigned threads) { return P::Backend::scratch_bytes(kernels, threads, shape); };
  else
    p.scratch = supposed_card().scratch;  // a backend that can only say it once it runs
  return p;
}

/// A model's sizes, as far as plans go.
struct ModelNeeds {
  std::string name;            // of its file
  std::string formats;         // of its experts: "Q4_K, Q6_K"
  Hyperparams h;
  std::uint32_t n_vocab = 0;
  Bytes file{};                // on disk
  Bytes trunk{};               // resident
  Bytes head{};                // the matrix after the last layer
  std::vector<Bytes> layers;   // trunk matrices of each layer that a token multiplies
  CacheGeometry experts;
  double bits_per_weight = 0;  // of its experts: what one quantisation of a model has more of than another
  bool in_memory = false;      // its file is in memory already

  Bytes token_weights() const {
    Bytes sum = head + experts.token_cycle();
    for (const Bytes layer : layers) sum += layer;
    return sum;
  }
};

/// The model as it would be with its matrices in another format: those of whole blocks, all but routers and F32 ones.
inline void requantise(ModelTensors& tensors, Format format) {
  const auto change = [&](TensorRef& ref) {
    if (ref && ref.format != Format::f32 && row_bytes(format, ref.n_cols) != 0) ref.format = format;
  };
  change(tensors.embedding), change(tensors.output);
  for (LayerTensors& t : tensors.layers)
    for (TensorRef* ref : {&t.q, &t.k, &t.v, &t.o, &t.gate, &t.up, &t.down}) change(*ref);
}

/// With `as`, what the model would need in that format instead of its own.
/// Errors: bad_input naming key or tensor; unavailable, naming the first tensor whose format is outside `allowed`.
inline Result<ModelNeeds> model_needs(const gguf::ModelFile& file, FormatSet allowed = FormatSet::all(), std::optional<Format> as = std::nullopt) {
  COLI_TRY(h, Hyperparams::read(file.metadata()));
  COLI_TRY(tensors, ModelTensors::bind(file, h, allowed));
  ModelNeeds needs;
  needs.h = h;
  needs.n_vocab = tensors.n_vocab;
  needs.name = file.shards().front().path;
  needs.file = Bytes{file.total_bytes()};
  needs.in_memory = std::all_of(file.shards().begin(), file.shards().end(), [](const auto& shard) { return !shard.memory.empty(); });
  if (as) {
    const auto data = [&] {
      Bytes sum = tensors.embedding.bytes() + (tensors.output ? tensors.output.bytes() : Bytes{});
      for (const LayerTensors& t : tensors.layers)
        for (const TensorRef* ref : {&t.q, &t.k, &t.v, &t.o, &t.gate, &t.up, &t.down}) sum += ref->bytes() * ref->n_stacked;
      return sum;
    };
    const Bytes before = data();
    requantise(tensors, *as);
    needs.file = needs.file - before + data();
  }
  needs.trunk = Trunk::bytes(tensors);
  needs.head = tensors.output ? tensors.output.bytes() : tensors.embedding.bytes();
  FormatSet used;
  double bits = 0, weights = 0;
  for (const LayerTensors& t : tensors.layers) {
    Bytes trunk{};
    for (const TensorRef* matrix : {&t.q, &t.k, &t.v, &t.o}) trunk += matrix->bytes();
    if (t.is_moe()) trunk += t.router.bytes();
    for (const TensorRef* matrix : {&t.gate, &t.up, &t.down}) {
      if (!t.is_moe()) {
        trunk += matrix->bytes();
        continue;
      }
      used.insert(matrix->format);
      bits += 8 * static_cast<double>(matrix->bytes().value);
      weights += static_cast<double>(matrix->n_rows) * matrix->n_cols;
    }
    needs.layers.push_back(trunk);
  }
  needs.formats = names_of(used);
  needs.bits_per_weight = weights > 0 ? bits / weights : 0;
  COLI_TRY(experts, expert_geometry(h, tensors));
  needs.experts = std::move(experts);
  return needs;
}

}  // namespace coli
