// SPDX-License-Identifier: Apache-2.0
// What was run, and what did its engine count? The two ends of a trace that an engine writes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "coli/core/error.hpp"
#include "coli/core/ids.hpp"
#include "coli/core/ids_hash.hpp"
#include "coli/engine_options.hpp"
#include "coli/gguf/fingerprint.hpp"
#include "coli/gguf/model_file.hpp"
#include "coli/model/hyperparams.hpp"
#include "coli/model/tensors.hpp"
#include "coli/moe/route_trace.hpp"

namespace coli {

/// Model, prompt and geometry; whoever runs adds sampler and settings. Errors: io; usage, where the model has no experts.
inline Result<RouteHeader> describe_model(const gguf::ModelFile& file, const Hyperparams& h, const ModelTensors& tensors, std::span<const TokenId> prompt) {
  if (h.n_experts == 0) return Error{Errc::usage, "the model has no experts: there are no routes to trace"};
  COLI_TRY(fingerprint, gguf::fingerprint(file));
  RouteHeader header;
  const std::string& path = file.shards().front().path;
  header.model = path.substr(path.find_last_of('/') + 1);
  header.architecture = rules_of(h.family).key_prefix;
  header.model_sha256 = std::move(fingerprint);
  header.prompt_sha256 = hash_of_ids(prompt);
  header.n_experts = h.n_experts, header.top_k = h.top_k;
  for (const LayerTensors& t : tensors.layers) {
    RouteLayer& layer = header.layers.emplace_back();
    for (const TensorRef* ref : {&t.q, &t.k, &t.v, &t.o}) layer.trunk_bytes += ref->bytes().value;
    if (t.is_moe()) {
      layer.expert_bytes = {t.gate.bytes().value, t.up.bytes().value, t.down.bytes().value};
      layer.trunk_bytes += t.router.bytes().value;
    } else {
      for (const TensorRef* ref : {&t.gate, &t.up, &t.down}) layer.trunk_bytes += ref->bytes().value;
    }
  }
  header.lossy = {{"expert_dropping", false}, {"cache_aware_routing", false}, {"top_k_override", false}};  // coli has none
  header.settings["head_bytes"] = (tensors.output ? tensors.output.bytes() : tensors.embedding.bytes()).value;
  header.source = {{"kind", "engine"}, {"program", "coli"}};
  return header;
}

/// The engine's counters, as a trace ends with them. They are since the engine was opened: one run, one trace.
inline RouteHeader::Json counted_json(const EngineStats& stats, std::string_view stop) {
  RouteHeader::Json layers = RouteHeader::Json::array();
  for (const LayerStats& layer : stats.cache.layers) layers.push_back({{"hits", layer.hits}, {"misses", layer.misses}});
  return {{"stop", std::string(stop)},
          {"hits", stats.cache.hits},
          {"misses", stats.cache.misses},
          {"bytes_read", stats.cache.bytes_read},
          {"read_seconds", stats.cache.read_seconds},
          {"wait_seconds", stats.cache.wait_seconds},
          {"prefill_tokens", stats.prefill_tokens},
          {"prefill_seconds", stats.prefill_seconds},
          {"decode_tokens", stats.decode_tokens},
          {"decode_seconds", stats.decode_seconds},
          {"layers", std::move(layers)}};
}

}  // namespace coli
