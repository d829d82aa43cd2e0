// SPDX-License-Identifier: Apache-2.0
// How big is this model and which rules does its family follow? Read from metadata, checked once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "coli/core/error.hpp"
#include "coli/gguf/metadata.hpp"

namespace coli {

enum class Family : std::uint8_t { qwen3moe };

/// The one place that knows a family's spellings: GGUF's, Hugging Face's model type and class names.
inline Result<Family> family_named(std::string_view architecture) {
  if (architecture == "qwen3moe" || architecture == "qwen3_moe" || architecture == "Qwen3MoeForCausalLM") return Family::qwen3moe;
  return Error{Errc::bad_input, "architecture '" + std::string(architecture) + "' is not supported; supported: qwen3moe", "general.architecture"};
}

/// What a family does where the file is silent. Source: the model cards and reference implementations.
struct FamilyRules {
  std::string_view key_prefix;
  bool renormalise_top_k;  // Qwen3-MoE was trained with norm_topk_prob = true; GGUF files often omit the key
};
constexpr FamilyRules rules_of(Family family) {
  switch (family) {
    case Family::qwen3moe: return {"qwen3moe", true};
  }
  __builtin_unreachable();
}

/// Sizes of one model. All are checked to be non-zero, consistent and within what 32-bit row indices can say.
struct Hyperparams {
  Family family{};
  std::uint32_t n_layers = 0;
  std::uint32_t hidden = 0;
  std::uint32_t n_heads = 0;
  std::uint32_t n_kv_heads = 0;
  std::uint32_t head_dim = 0;
  std::uint32_t context = 0;      // positions that the model was trained for
  std::uint32_t dense_ffn = 0;    // width of a dense layer's FFN; 0: the file has none
  std::uint32_t n_experts = 0;    // per MoE layer
  std::uint32_t top_k = 0;
  std::uint32_t expert_ffn = 0;
  float norm_epsilon = 0;
  double rope_base = 0;
  bool renormalise_top_k = true;
  float expert_weight_scale = 1;

  std::uint32_t q_width() const { return n_heads * head_dim; }
  std::uint32_t kv_width() const { return n_kv_heads * head_dim; }

  /// Errors: bad_input naming the metadata key.
  static Result<Hyperparams> read(const gguf::Metadata& metadata);
};

namespace detail {

inline Error bad_key(std::string key, std::string message) { return {Errc::bad_input, std::move(message), std::move(key)}; }

/// Reads a size that must lie in [1, most].
inline Result<std::uint32_t> read_size(const gguf::Metadata& metadata, const std::string& key, std::uint32_t most) {
  COLI_TRY(value, metadata.get<std::uint64_t>(key));
  if (value == 0 || value > most) return bad_key(key, std::to_string(value) + " is out of range; expected 1 to " + std::to_string(most));
  return static_cast<std::uint32_t>(value);
}

/// Refuses a feature that this family does not have, rather than computing as if it were absent.
inline Result<void> refuse_if_set(const gguf::Metadata& metadata, const std::string& key, std::uint64_t neutral) {
  COLI_TRY(value, metadata.find<std::uint64_t>(key));
  if (value && *value != neutral) return bad_key(key, std::to_string(*value) + " is not supported; expected " + std::to_string(neutral));
  return {};
}

}  // namespace detail

inline Result<Hyperparams> Hyperparams::read(const gguf::Metadata& metadata) {
  using detail::bad_key;
  using detail::read_size;
  constexpr std::uint32_t kMostLayers = 4096, kMostExperts = 65536, kMostWidth = 1U << 24;

  COLI_TRY(architecture, metadata.get<std::string>("general.architecture"));
  COLI_TRY(family, family_named(architecture));
  const FamilyRules rules = rules_of(family);
  const auto key = [&](std::string_view name) { return std::string(rules.key_prefix) + "." + std::string(name); };

  Hyperparams h;
  h.family = family;
  COLI_TRY(n_layers, read_size(metadata, key("block_count"), kMostLayers));
  COLI_TRY(hidden, read_size(metadata, key("embedding_length"), kMostWidth));
  COLI_TRY(n_heads, read_size(metadata, key("attention.head_count"), kMostWidth));
  COLI_TRY(context, read_size(metadata, key("context_length"), 1U << 30));
  COLI_TRY(n_experts, read_size(metadata, key("expert_count"), kMostExperts));
  COLI_TRY(top_k, read_size(metadata, key("expert_used_count"), kMostExperts));
  COLI_TRY(expert_ffn, read_size(metadata, key("expert_feed_forward_length"), kMostWidth));
  h.n_layers = n_layers, h.hidden = hidden, h.n_heads = n_heads, h.context = context;
  h.n_experts = n_experts, h.top_k = top_k, h.expert_ffn = expert_ffn;

  // The format's definition gives these two their defaults: as many KV heads as heads, and hidden / heads.
  COLI_TRY(kv_heads, metadata.find<std::uint64_t>(key("attention.head_count_kv")));
  COLI_TRY(key_length, metadata.find<std::uint64_t>(key("attention.key_length")));
  if (kv_heads && (*kv_heads == 0 || *kv_heads > h.n_heads || h.n_heads % *kv_heads != 0))
    return bad_key(key("attention.head_count_kv"), std::to_string(*kv_heads) + " KV heads don't divide " + std::to_string(h.n_heads) + " heads");
  h.n_kv_heads = kv_heads ? static_cast<std::uint32_t>(*kv_heads) : h.n_heads;
  if (!key_length && h.hidden % h.n_heads != 0)
    return bad_key(key("attention.key_length"), "missing, and hidden " + std::to_string(h.hidden) + " is not a multiple of " + std::to_string(h.n_heads) + " heads");
  const std::uint64_t head_dim = key_length ? *key_length : h.hidden / h.n_heads;
  if (head_dim == 0 || head_dim > 4096 || head_dim % 2 != 0)
    return bad_key(key("attention.key_length"), std::to_string(head_dim) + " is out of range; expected an even size from 2 to 4096");
  h.head_dim = static_cast<std::uint32_t>(head_dim);
  if (std::uint64_t{h.n_heads} * h.head_dim > kMostWidth)
    return bad_key(key("attention.head_count"), std::to_string(h.n_heads) + " heads of " + std::to_string(h.head_dim) + " are wider than " + std::to_string(kMostWidth));
  COLI_CHECK(detail::refuse_if_set(metadata, key("attention.value_length"), h.head_dim));
  COLI_CHECK(detail::refuse_if_set(metadata, key("rope.dimension_count"), h.head_dim));

  if (h.top_k > h.n_experts)
    return bad_key(key("expert_used_count"), std::to_string(h.top_k) + " experts a token, but the model has " + std::to_string(h.n_experts));
  COLI_TRY(dense_ffn, metadata.find<std::uint64_t>(key("feed_forward_length")));
  if (dense_ffn && *dense_ffn > kMostWidth) return bad_key(key("feed_forward_length"), std::to_string(*dense_ffn) + " is out of range");
  h.dense_ffn = dense_ffn ? static_cast<std::uint32_t>(*dense_ffn) : 0;

  COLI_TRY(epsilon, metadata.get<float>(key("attention.layer_norm_rms_epsilon")));
  if (!(epsilon >= 0 && epsilon < 1)) return bad_key(key("attention.layer_norm_rms_epsilon"), std::to_string(epsilon) + " is out of range; expected 0 to 1");
  h.norm_epsilon = epsilon;
  // Published files of this family disagree on a default (1e6, 1e7), so there is none.
  COLI_TRY(rope_base, metadata.get<double>(key("rope.freq_base")));
  if (!(rope_base > 1 && rope_base < 1e12)) return bad_key(key("rope.freq_base"), std::to_string(rope_base) + " is out of range; expected more than 1");
  h.rope_base = rope_base;
  COLI_TRY(scaling, metadata.find<std::string>(key("rope.scaling.type")));
  if (scaling && *scaling != "none") return bad_key(key("rope.scaling.type"), "'" + *scaling + "' is not supported; expected none");

  h.renormalise_top_k = rules.renormalise_top_k;
  COLI_TRY(norm, metadata.find<bool>(key("expert_weights_norm")));
  if (norm) h.renormalise_top_k = *norm;
  COLI_TRY(scale, metadata.find<float>(key("expert_weights_scale")));
  if (scale && !(*scale >= 0 && *scale < 1e6F)) return bad_key(key("expert_weights_scale"), std::to_string(*scale) + " is out of range");
  if (scale && *scale != 0) h.expert_weight_scale = *scale;  // writers put 0 where they mean "none"

  constexpr std::uint64_t kSoftmaxGating = 1;
  COLI_CHECK(detail::refuse_if_set(metadata, key("expert_gating_func"), kSoftmaxGating));
  COLI_CHECK(detail::refuse_if_set(metadata, key("expert_shared_count"), 0));
  COLI_CHECK(detail::refuse_if_set(metadata, key("expert_shared_feed_forward_length"), 0));
  COLI_CHECK(detail::refuse_if_set(metadata, key("attention.sliding_window"), 0));
  return h;
}

}  // namespace coli
