// SPDX-License-Identifier: Apache-2.0
// What does a token take from the positions before it? One attention block, in backend calls.
#pragma once

#include <cmath>
#include <cstdint>

#include "coli/model/hyperparams.hpp"
#include "coli/model/kv_cache.hpp"
#include "coli/model/scratch.hpp"
#include "coli/model/trunk.hpp"

namespace coli {

/// Grouped-query attention with a norm per query and key head before the rotary embedding (Qwen3).
/// Reads and adds to s.hidden for n tokens at positions first..; writes their keys and values to the cache.
template <class Backend>
void attention_block(Backend& backend, const Hyperparams& h, const TrunkLayer& w, std::uint32_t layer, const KvCache& cache, std::uint32_t first,
                     std::uint32_t n, const Scratch& s) {
  const auto head_of = [&](std::uint32_t kv_head) { return cache.head(layer, kv_head); };
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(h.head_dim)));

  backend.rmsnorm(s.hidden, n, h.hidden, w.attn_norm.data(), h.norm_epsilon, s.normed);
  backend.matmul({{&w.q, s.query}, {&w.k, s.key}, {&w.v, s.value}}, s.normed, n);
  backend.rmsnorm(s.query, n * h.n_heads, h.head_dim, w.q_norm.data(), h.norm_epsilon, s.query);
  backend.rmsnorm(s.key, n * h.n_kv_heads, h.head_dim, w.k_norm.data(), h.norm_epsilon, s.key);
  backend.rope(s.query, n, h.n_heads, h.head_dim, s.rope);
  backend.rope(s.key, n, h.n_kv_heads, h.head_dim, s.rope);
  backend.store_kv(head_of, s.key, s.value, first, n, h.n_kv_heads, h.head_dim);
  backend.attend(head_of, s.query, first, n, h.n_heads, h.n_kv_heads, h.head_dim, scale, s.attended);
  backend.matmul({{&w.o, s.projected}}, s.attended, n);
  backend.add(s.projected, n, h.hidden, s.hidden);
}

/// The feed-forward block of a dense layer: hidden += down(silu(gate x) * up x).
template <class Backend>
void dense_ffn_block(Backend& backend, const Hyperparams& h, const TrunkLayer& w, std::uint32_t n, const Scratch& s) {
  backend.rmsnorm(s.hidden, n, h.hidden, w.ffn_norm.data(), h.norm_epsilon, s.normed);
  backend.matmul({{&w.gate, s.gate}, {&w.up, s.up}}, s.normed, n);
  backend.swiglu(s.gate, s.up, n, h.dense_ffn, s.gate);
  backend.matmul({{&w.down, s.projected}}, s.gate, n);
  backend.add(s.projected, n, h.hidden, s.hidden);
}

}  // namespace coli
