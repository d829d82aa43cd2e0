// SPDX-License-Identifier: Apache-2.0
// How many bytes does what take? The sizes that inspect prints and the planner reckons with; from the header alone.
#pragma once

#include <cstdint>
#include <vector>

#include "coli/core/bytes.hpp"
#include "coli/model/hyperparams.hpp"
#include "coli/model/tensors.hpp"
#include "coli/model/trunk.hpp"

namespace coli {

struct ModelGeometry {
  /// Bytes of one expert of a layer; all zero for a dense layer.
  struct Layer {
    Bytes gate{}, up{}, down{};
    Bytes expert() const { return gate + up + down; }
  };
  std::vector<Layer> layers;
  std::uint32_t n_experts = 0;
  std::uint32_t top_k = 0;
  Bytes trunk{};          // resident: everything but routed experts
  Bytes experts{};        // of all layers
  Bytes token_cycle{};    // sum over layers of top_k experts: what one token reads with no cache
  Bytes token_trunk{};    // trunk matrices that one token multiplies: attention, router, dense layers, output
  Bytes token_weights() const { return token_cycle + token_trunk; }

  static ModelGeometry of(const Hyperparams& h, const ModelTensors& tensors) {
    ModelGeometry g;
    g.n_experts = h.n_experts;
    g.top_k = h.top_k;
    g.trunk = Trunk::bytes(tensors);
    g.token_trunk = tensors.output ? tensors.output.bytes() : tensors.embedding.bytes();
    for (const LayerTensors& t : tensors.layers) {
      for (const TensorRef* matrix : {&t.q, &t.k, &t.v, &t.o}) g.token_trunk += matrix->bytes();
      if (t.is_moe()) g.token_trunk += t.router.bytes();
      else
        for (const TensorRef* matrix : {&t.gate, &t.up, &t.down}) g.token_trunk += matrix->bytes();
      Layer& layer = g.layers.emplace_back();
      if (!t.is_moe()) continue;
      layer = {t.gate.bytes(), t.up.bytes(), t.down.bytes()};
      g.experts += layer.expert() * h.n_experts;
      g.token_cycle += layer.expert() * h.top_k;
    }
    return g;
  }
};

}  // namespace coli
