// SPDX-License-Identifier: Apache-2.0
// Where do a token's keys and values go? Each KV head keeps its positions together: keys, then values.
//
// The first position is read from memory, so that a recorded sequence of launches serves every position.
#pragma once

#include <cstdint>
#include <type_traits>

#include "coli/core/fixed_name.hpp"
#include "coli/kernels/grid/thread.hpp"

namespace coli::grid {

/// How one layer's cache lies: heads [n_kv_heads], each keys [capacity, head_dim], then values [capacity, head_dim].
/// Element is float or std::uint16_t (binary16).
template <class Element>
struct KvLayer {
  Element* heads;
  std::uint32_t n_kv_heads, capacity, head_dim;

  COLI_DEVICE Element* keys(std::uint32_t head) const { return heads + std::size_t{head} * 2 * capacity * head_dim; }
  COLI_DEVICE Element* values(std::uint32_t head) const { return keys(head) + std::size_t{capacity} * head_dim; }
};

template <class Element, Thread T>
COLI_DEVICE float widen(const T& t, Element element) {
  if constexpr (std::is_same_v<Element, float>) return element;
  else return t.f16_to_f32(element);
}

/// Token t's keys and values [n_tokens, n_kv_heads, head_dim] become position first + t. A block a token.
template <class Element>
struct KvWrite {
  static constexpr FixedName name{"kv_write"};
  using Shared = NoShared;

  const float* keys;
  const float* values;
  KvLayer<Element> layer;
  const std::uint32_t* first;

  static constexpr LaunchShape shape(std::uint32_t n_tokens) { return {n_tokens, 1, 128}; }

  template <Thread T>
  COLI_DEVICE void operator()(T& t, Shared&) const {
    const std::uint32_t width = layer.n_kv_heads * layer.head_dim;
    const std::size_t position = t.load(first) + t.block().x, from = std::size_t{t.block().x} * width;
    for (std::uint32_t i = t.thread(); i < width; i += t.n_threads()) {
      const std::uint32_t head = i / layer.head_dim;
      const std::size_t at = position * layer.head_dim + i % layer.head_dim;
      t.store(layer.keys(head) + at, narrow(t, t.load(keys + from + i)));
      t.store(layer.values(head) + at, narrow(t, t.load(values + from + i)));
    }
  }

 private:
  template <Thread T>
  static COLI_DEVICE Element narrow(const T& t, float value) {
    if constexpr (std::is_same_v<Element, float>) return value;
    else return t.f32_to_f16(value);
  }
};

}  // namespace coli::grid
