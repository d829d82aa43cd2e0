// SPDX-License-Identifier: Apache-2.0
// Are a model's sizes and rules read as its family means them, and is everything else refused by its key?
#include <boost/test/unit_test.hpp>
#include <functional>
#include <map>
#include <variant>

#include "coli/gguf/model_file.hpp"
#include "coli/gguf/writer.hpp"
#include "coli/model/hyperparams.hpp"
#include "coli/model/tensors.hpp"

namespace coli::conformance {
namespace {

using Value = std::variant<std::uint32_t, float, bool, std::string>;
using Keys = std::map<std::string, Value>;

Keys good() {
  return {{"general.architecture", std::string("qwen3moe")},
          {"qwen3moe.block_count", 2U},
          {"qwen3moe.context_length", 512U},
          {"qwen3moe.embedding_length", 64U},
          {"qwen3moe.feed_forward_length", 96U},
          {"qwen3moe.attention.head_count", 7U},
          {"qwen3moe.attention.head_count_kv", 1U},
          {"qwen3moe.attention.key_length", 24U},
          {"qwen3moe.attention.value_length", 24U},
          {"qwen3moe.attention.layer_norm_rms_epsilon", 1e-6F},
          {"qwen3moe.rope.freq_base", 1e7F},
          {"qwen3moe.expert_count", 8U},
          {"qwen3moe.expert_used_count", 3U},
          {"qwen3moe.expert_feed_forward_length", 32U}};
}

Result<Hyperparams> read(const Keys& keys) {
  gguf::Writer writer;
  for (const auto& [key, value] : keys) std::visit([&](const auto& v) { writer.set(key, v); }, value);
  const std::string header = writer.header();
  auto file = gguf::ModelFile::parse(std::as_bytes(std::span(header)), "test.gguf");
  BOOST_REQUIRE_MESSAGE(file, (file ? "" : file.error().line()));
  return Hyperparams::read(file->metadata());
}

Result<Hyperparams> read_with(const std::string& key, const Value& value) {
  Keys keys = good();
  keys[key] = value;
  return read(keys);
}
Result<Hyperparams> read_without(const std::string& key) {
  Keys keys = good();
  keys.erase(key);
  return read(keys);
}

void refused(const Result<Hyperparams>& result, const std::string& key) {
  BOOST_REQUIRE_MESSAGE(!result, key << " was accepted");
  BOOST_CHECK(result.error().code == Errc::bad_input);
  BOOST_CHECK_MESSAGE(result.error().line().find(key) != std::string::npos, result.error().line());
}

BOOST_AUTO_TEST_CASE(a_good_header_is_read_as_it_stands) {
  const auto h = read(good());
  BOOST_REQUIRE_MESSAGE(h, (h ? "" : h.error().line()));
  BOOST_CHECK_EQUAL(h->n_layers, 2);
  BOOST_CHECK_EQUAL(h->hidden, 64);
  BOOST_CHECK_EQUAL(h->n_heads, 7);
  BOOST_CHECK_EQUAL(h->n_kv_heads, 1);
  BOOST_CHECK_EQUAL(h->head_dim, 24);  // not hidden / heads
  BOOST_CHECK_EQUAL(h->q_width(), 168);
  BOOST_CHECK_EQUAL(h->n_experts, 8);
  BOOST_CHECK_EQUAL(h->top_k, 3);
  BOOST_CHECK_EQUAL(h->expert_ffn, 32);
  BOOST_CHECK_EQUAL(h->dense_ffn, 96);
  BOOST_CHECK_EQUAL(h->context, 512);
  BOOST_CHECK_EQUAL(h->norm_epsilon, 1e-6F);
  BOOST_CHECK_EQUAL(h->rope_base, 1e7);
  BOOST_CHECK_EQUAL(h->expert_weight_scale, 1);
  BOOST_CHECK(h->renormalise_top_k);  // the family's default where the file is silent
}

BOOST_AUTO_TEST_CASE(required_keys_are_missed_by_name) {
  for (const char* key : {"general.architecture", "qwen3moe.block_count", "qwen3moe.context_length", "qwen3moe.embedding_length", "qwen3moe.attention.head_count",
                          "qwen3moe.attention.layer_norm_rms_epsilon", "qwen3moe.rope.freq_base", "qwen3moe.expert_count", "qwen3moe.expert_used_count",
                          "qwen3moe.expert_feed_forward_length"})
    refused(read_without(key), key);
  refused(read_without("qwen3moe.attention.key_length"), "qwen3moe.attention.key_length");  // 64 / 7 is no head size
}

BOOST_AUTO_TEST_CASE(optional_keys_have_the_formats_defaults) {
  BOOST_CHECK_EQUAL(read_without("qwen3moe.attention.head_count_kv")->n_kv_heads, 7);
  Keys keys = good();
  keys.erase("qwen3moe.attention.key_length");
  keys.erase("qwen3moe.attention.value_length");
  keys["qwen3moe.attention.head_count"] = 4U;
  BOOST_CHECK_EQUAL(read(keys)->head_dim, 16);  // hidden / heads
  BOOST_CHECK_EQUAL(read_without("qwen3moe.feed_forward_length")->dense_ffn, 0);
  BOOST_CHECK(!read_with("qwen3moe.expert_weights_norm", false)->renormalise_top_k);
  BOOST_CHECK_EQUAL(read_with("qwen3moe.expert_weights_scale", 2.5F)->expert_weight_scale, 2.5F);
  BOOST_CHECK_EQUAL(read_with("qwen3moe.expert_weights_scale", 0.0F)->expert_weight_scale, 1);  // writers put 0 for "none"
  BOOST_CHECK(read_with("qwen3moe.rope.scaling.type", std::string("none")));
  BOOST_CHECK(read_with("qwen3moe.rope.dimension_count", 24U));
  BOOST_CHECK(read_with("qwen3moe.expert_gating_func", 1U));
  BOOST_CHECK(read_with("qwen3moe.expert_shared_count", 0U));
}

BOOST_AUTO_TEST_CASE(impossible_and_unsupported_values_are_refused_by_key) {
  const std::vector<std::pair<std::string, Value>> bad{
      {"general.architecture", std::string("llama")},
      {"general.architecture", 5U},
      {"qwen3moe.block_count", 0U},
      {"qwen3moe.block_count", 1U << 30},
      {"qwen3moe.block_count", std::string("2")},
      {"qwen3moe.embedding_length", 0U},
      {"qwen3moe.embedding_length", 0xFFFFFFFFU},
      {"qwen3moe.attention.head_count", 0U},
      {"qwen3moe.attention.head_count_kv", 0U},
      {"qwen3moe.attention.head_count_kv", 3U},
      {"qwen3moe.attention.head_count_kv", 14U},
      {"qwen3moe.attention.key_length", 0U},
      {"qwen3moe.attention.key_length", 25U},  // rotary pairs need an even size
      {"qwen3moe.attention.key_length", 1U << 20},
      {"qwen3moe.attention.value_length", 16U},
      {"qwen3moe.rope.dimension_count", 12U},
      {"qwen3moe.attention.layer_norm_rms_epsilon", -1.0F},
      {"qwen3moe.attention.layer_norm_rms_epsilon", std::numeric_limits<float>::quiet_NaN()},
      {"qwen3moe.rope.freq_base", 0.0F},
      {"qwen3moe.rope.freq_base", std::numeric_limits<float>::infinity()},
      {"qwen3moe.rope.freq_base", std::numeric_limits<float>::quiet_NaN()},
      {"qwen3moe.rope.scaling.type", std::string("yarn")},
      {"qwen3moe.expert_count", 0U},
      {"qwen3moe.expert_count", 1U << 20},
      {"qwen3moe.expert_used_count", 0U},
      {"qwen3moe.expert_used_count", 9U},
      {"qwen3moe.expert_feed_forward_length", 0U},
      {"qwen3moe.expert_gating_func", 2U},
      {"qwen3moe.expert_shared_count", 1U},
      {"qwen3moe.attention.sliding_window", 128U},
      {"qwen3moe.expert_weights_norm", 1U},
      {"qwen3moe.context_length", 0U}};
  for (const auto& [key, value] : bad) refused(read_with(key, value), key);
}

BOOST_AUTO_TEST_CASE(a_familys_spellings_meet_in_one_place) {
  for (const char* name : {"qwen3moe", "qwen3_moe", "Qwen3MoeForCausalLM"}) BOOST_CHECK(family_named(name) && *family_named(name) == Family::qwen3moe);
  for (const char* name : {"", "qwen3", "qwen2moe", "QWEN3MOE"}) BOOST_CHECK(!family_named(name));
}

// Files state the width of a dense FFN that none of their layers has: nothing may be kept for it.
BOOST_AUTO_TEST_CASE(a_dense_width_counts_where_a_layer_is_dense) {
  const auto bound = [](const std::string& name) {
    const auto file = gguf::ModelFile::open(std::string(COLI_FIXTURES_DIR) + "/" + name);
    BOOST_REQUIRE(file);
    auto h = Hyperparams::read(file->metadata());
    BOOST_REQUIRE(h);
    BOOST_CHECK_GT(h->dense_ffn, 0U);
    BOOST_REQUIRE(ModelTensors::bind(*file, *h, FormatSet::all()));
    return h->dense_ffn;
  };
  BOOST_CHECK_EQUAL(bound("tiny_min.gguf"), 0U);
  BOOST_CHECK_GT(bound("tiny_dense1.gguf"), 0U);
}

}  // namespace
}  // namespace coli::conformance
