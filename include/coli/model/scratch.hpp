// SPDX-License-Identifier: Apache-2.0
// The activations of one forward pass of up to max_tokens tokens; reused by every layer.
#pragma once

#include <cstddef>
#include <cstdint>

#include "coli/core/buffer.hpp"
#include "coli/core/error.hpp"
#include "coli/model/hyperparams.hpp"

namespace coli {

struct Scratch {
  float* hidden;       // [n, hidden]            the residual stream
  float* normed;       // [n, hidden]
  float* query;        // [n, n_heads, head_dim]
  float* key;          // [n, n_kv_heads, head_dim]
  float* value;        // [n, n_kv_heads, head_dim]
  float* attended;     // [n, n_heads, head_dim]
  float* projected;    // [n, hidden]            what a block adds to the residual stream
  float* rope;         // [n, head_dim]          cosines, then sines, of each token's position
  float* router;       // [n, n_experts]
  float* expert_rows;  // [n * top_k, hidden]    one row a (token, rank)
  float* foresight;    // [hidden]                for guessing the next layer's experts
  float* gate;         // [n, dense_ffn]
  float* up;           // [n, dense_ffn]
  float* logits;       // [n_vocab]              of one token

  /// Bytes that `allocate` will take: the planner asks the same question.
  static Bytes bytes(const Hyperparams& h, std::uint32_t n_vocab, std::uint32_t max_tokens) {
    Scratch none{};
    return Bytes{none.place(h, n_vocab, max_tokens, nullptr)};
  }

  /// `memory` says what kind of memory it takes (a backend). Errors: over_budget. The views live as long as `owner`.
  template <class Memory>
  static Result<Scratch> allocate(Memory& memory, Accountant& accountant, const Hyperparams& h, std::uint32_t n_vocab, std::uint32_t max_tokens,
                                  Buffer& owner) {
    COLI_TRY(buffer, memory.allocate(accountant, MemoryClass::scratch, bytes(h, n_vocab, max_tokens)));
    owner = std::move(buffer);
    Scratch scratch{};
    scratch.place(h, n_vocab, max_tokens, owner.data());
    return scratch;
  }

 private:
  /// Lays the arrays out from `base`, 64-byte aligned; returns the bytes used.
  std::uint64_t place(const Hyperparams& h, std::uint32_t n_vocab, std::uint64_t n, std::byte* base) {
    std::uint64_t used = 0;
    const auto take = [&](float*& array, std::uint64_t values) {
      array = base == nullptr ? nullptr : reinterpret_cast<float*>(base + used);
      used += (values * sizeof(float) + 63) & ~std::uint64_t{63};
    };
    take(hidden, n * h.hidden);
    take(normed, n * h.hidden);
    take(query, n * h.q_width());
    take(key, n * h.kv_width());
    take(value, n * h.kv_width());
    take(attended, n * h.q_width());
    take(projected, n * h.hidden);
    take(rope, n * h.head_dim);
    take(router, n * h.n_experts);
    take(expert_rows, n * h.top_k * h.hidden);
    take(foresight, h.hidden);
    take(gate, n * h.dense_ffn);
    take(up, n * h.dense_ffn);
    take(logits, n_vocab);
    return used;
  }
};

}  // namespace coli
