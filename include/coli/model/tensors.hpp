// SPDX-License-Identifier: Apache-2.0
// Which tensor of the file is which matrix of the model? Every tensor is claimed once, with its shape and format checked.
//
// Header only: no tensor data is touched. Refuses what it does not understand: a tensor that nothing claims would
// otherwise be a part of the model that is silently left out.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <unordered_set>
#include <vector>

#include "coli/core/bytes.hpp"
#include "coli/core/error.hpp"
#include "coli/gguf/model_file.hpp"
#include "coli/model/hyperparams.hpp"
#include "coli/quant/format.hpp"

namespace coli {

/// A matrix of the file; for stacked experts there are n_stacked of them, one after the other.
struct TensorRef {
  const gguf::TensorInfo* info = nullptr;
  Format format = Format::f32;
  std::uint32_t n_rows = 0;
  std::uint32_t n_cols = 0;
  std::uint32_t n_stacked = 1;

  explicit operator bool() const { return info != nullptr; }
  /// Of one matrix of the stack.
  Bytes bytes() const { return Bytes{row_bytes(format, n_cols)} * n_rows; }
};

struct LayerTensors {
  TensorRef attn_norm, q_norm, k_norm, ffn_norm;
  TensorRef q, k, v, o;
  TensorRef router;                     // [n_experts, hidden]; empty in a dense layer
  TensorRef gate, up, down;             // stacked in an MoE layer, single in a dense one
  bool is_moe() const { return bool(router); }
};

struct ModelTensors {
  TensorRef embedding, output_norm;
  TensorRef output;  // empty where it is tied to the embedding
  std::vector<LayerTensors> layers;
  std::uint32_t n_vocab = 0;

  /// Sets h.dense_ffn to 0 where no layer is dense: files state a width that nothing in them has, and nothing is then kept for it.
  /// Errors: bad_input naming the tensor; unavailable where the format is known but not in `allowed`.
  static Result<ModelTensors> bind(const gguf::ModelFile& file, Hyperparams& h, FormatSet allowed);
};

namespace detail {

/// Finds, checks and claims tensors of one file.
class TensorBinder {
 public:
  TensorBinder(const gguf::ModelFile& file, FormatSet allowed) : file_(file), allowed_(allowed) {}

  bool has(const std::string& name) const { return file_.find(name) != nullptr; }

  /// A matrix [n_rows, n_cols], or a stack of them where n_stacked is not 0. GGUF lists the row length first.
  Result<void> claim(const std::string& name, std::uint64_t n_rows, std::uint64_t n_cols, std::uint64_t n_stacked, TensorRef& ref) {
    const gguf::TensorInfo* info = file_.find(name);
    if (info == nullptr) return Error{Errc::bad_input, "the tensor is missing; expected shape " + shape_text(n_cols, n_rows, n_stacked), name, path()};
    const std::uint64_t rows = info->dims[1], stacked = info->dims[2];
    const bool fits = info->dims[0] == n_cols && rows == n_rows && stacked == (n_stacked == 0 ? 1 : n_stacked) && info->dims[3] == 1;
    if (!fits)
      return Error{Errc::bad_input, "the shape is " + shape_text(info->dims[0], rows, info->n_dims > 2 ? stacked : 0) + ", but the metadata says " + shape_text(n_cols, n_rows, n_stacked), name, path()};
    const std::optional<Format> format = format_named(info->type->name);
    if (!format)
      return Error{Errc::bad_input, "format " + std::string(info->type->name) + " is not supported; supported: " + names_of(FormatSet::all()), name, path()};
    if (!allowed_.contains(*format))
      return Error{Errc::unavailable, "format " + std::string(info->type->name) + " is not in this profile (" + names_of(allowed_) + "); the profile 'scalar' covers it", name, path()};
    claimed_.insert(info);
    ref = {info, *format, static_cast<std::uint32_t>(n_rows), static_cast<std::uint32_t>(n_cols), static_cast<std::uint32_t>(n_stacked == 0 ? 1 : n_stacked)};
    return {};
  }
  /// Vectors (norms) are matrices of one row.
  Result<void> claim_vector(const std::string& name, std::uint64_t n, TensorRef& ref) { return claim(name, 1, n, 0, ref); }

  Result<void> all_claimed(std::uint32_t n_layers) const {
    for (const gguf::TensorInfo& info : file_.tensors())
      if (!claimed_.contains(&info))
        return Error{Errc::bad_input, "this tensor has no place in a model of " + std::to_string(n_layers) + " layers (block_count) of this family", info.name, path()};
    return {};
  }

 private:
  std::string path() const { return file_.shards().empty() ? std::string() : file_.shards().front().path; }
  static std::string shape_text(std::uint64_t cols, std::uint64_t rows, std::uint64_t stacked) {
    std::string text = "[" + std::to_string(cols) + ", " + std::to_string(rows);
    if (stacked != 0) text += ", " + std::to_string(stacked);
    return text + "]";
  }

  const gguf::ModelFile& file_;
  FormatSet allowed_;
  std::unordered_set<const gguf::TensorInfo*> claimed_;
};

}  // namespace detail

inline Result<ModelTensors> ModelTensors::bind(const gguf::ModelFile& file, Hyperparams& h, FormatSet allowed) {
  detail::TensorBinder binder(file, allowed);
  ModelTensors model;

  // The embedding says how many token ids there are; it may be padded past the vocabulary.
  const gguf::TensorInfo* embedding = file.find("token_embd.weight");
  const std::uint64_t n_vocab = embedding != nullptr ? embedding->dims[1] : 0;
  if (embedding != nullptr && n_vocab > (1U << 30)) return Error{Errc::bad_input, std::to_string(n_vocab) + " token ids are too many", "token_embd.weight"};
  COLI_CHECK(binder.claim("token_embd.weight", n_vocab, h.hidden, 0, model.embedding));
  model.n_vocab = static_cast<std::uint32_t>(n_vocab);
  COLI_CHECK(binder.claim_vector("output_norm.weight", h.hidden, model.output_norm));
  if (binder.has("output.weight")) COLI_CHECK(binder.claim("output.weight", n_vocab, h.hidden, 0, model.output));

  model.layers.resize(h.n_layers);
  bool any_dense = false;
  for (std::uint32_t l = 0; l < h.n_layers; ++l) {
    LayerTensors& layer = model.layers[l];
    const auto name = [&](const char* part) { return "blk." + std::to_string(l) + "." + part + ".weight"; };
    COLI_CHECK(binder.claim_vector(name("attn_norm"), h.hidden, layer.attn_norm));
    COLI_CHECK(binder.claim(name("attn_q"), h.q_width(), h.hidden, 0, layer.q));
    COLI_CHECK(binder.claim(name("attn_k"), h.kv_width(), h.hidden, 0, layer.k));
    COLI_CHECK(binder.claim(name("attn_v"), h.kv_width(), h.hidden, 0, layer.v));
    COLI_CHECK(binder.claim(name("attn_output"), h.hidden, h.q_width(), 0, layer.o));
    COLI_CHECK(binder.claim_vector(name("attn_q_norm"), h.head_dim, layer.q_norm));
    COLI_CHECK(binder.claim_vector(name("attn_k_norm"), h.head_dim, layer.k_norm));
    COLI_CHECK(binder.claim_vector(name("ffn_norm"), h.hidden, layer.ffn_norm));
    const bool dense = !binder.has(name("ffn_gate_inp")) && !binder.has(name("ffn_gate_exps")) && binder.has(name("ffn_gate"));
    any_dense = any_dense || dense;
    if (dense) {
      if (h.dense_ffn == 0) return Error{Errc::bad_input, "missing, but layer " + std::to_string(l) + " is dense", "qwen3moe.feed_forward_length"};
      COLI_CHECK(binder.claim(name("ffn_gate"), h.dense_ffn, h.hidden, 0, layer.gate));
      COLI_CHECK(binder.claim(name("ffn_up"), h.dense_ffn, h.hidden, 0, layer.up));
      COLI_CHECK(binder.claim(name("ffn_down"), h.hidden, h.dense_ffn, 0, layer.down));
    } else {
      COLI_CHECK(binder.claim(name("ffn_gate_inp"), h.n_experts, h.hidden, 0, layer.router));
      COLI_CHECK(binder.claim(name("ffn_gate_exps"), h.expert_ffn, h.hidden, h.n_experts, layer.gate));
      COLI_CHECK(binder.claim(name("ffn_up_exps"), h.expert_ffn, h.hidden, h.n_experts, layer.up));
      COLI_CHECK(binder.claim(name("ffn_down_exps"), h.hidden, h.expert_ffn, h.n_experts, layer.down));
    }
  }
  if (!any_dense) h.dense_ffn = 0;
  COLI_CHECK(binder.all_claimed(h.n_layers));
  return model;
}

}  // namespace coli
