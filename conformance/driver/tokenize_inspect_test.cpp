// SPDX-License-Identifier: Apache-2.0
// Text to ids and back, and what is in a file, also where it is no model at all.
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "conformance/gguf/temporary_folder.hpp"
#include "process.hpp"

namespace colidrv::test {
namespace {

using Json = nlohmann::ordered_json;
using coli::gguf::test::TemporaryFolder;
const std::string kModel = fixture("tiny_min.gguf");

Json json_of(std::vector<std::string> arguments, std::string_view input = {}) {
  arguments.insert(arguments.end(), {"--json", "-"});
  const Outcome outcome = expect_success(arguments, input);
  BOOST_TEST(outcome.err == "");
  return Json::parse(outcome.out);
}

std::string join(const Json& ids) {
  std::string text;
  for (const Json& id : ids) text += (text.empty() ? "" : ",") + std::to_string(id.get<int>());
  return text;
}

std::string vocabulary(std::string_view name) {
  const std::string path = std::string(COLI_VOCAB_DIR) + "/ggml-vocab-" + std::string(name) + ".gguf";
  return std::filesystem::exists(path) ? path : "";
}

BOOST_AUTO_TEST_SUITE(tokenize)

BOOST_AUTO_TEST_CASE(there_and_back) {
  for (const std::string text : {"if the token", "", " two  spaces \n", "Gr\xC3\xBC\xC3\x9F" "e, \xF0\x9F\xA6\x89!", "back\\nslash", "12345"}) {
    const Json json = json_of({"tokenize", kModel, "-p", text});
    BOOST_TEST(json.at("ids").size() == json.at("pieces").size());
    BOOST_TEST(json.at("text") == text);
    BOOST_TEST(expect_success({"tokenize", kModel, "-p", text}).out == join(json.at("ids")) + "\n");
    BOOST_TEST(expect_success({"tokenize", kModel, "--decode", join(json.at("ids"))}).out == text + "\n");
    BOOST_TEST(json_of({"tokenize", kModel, "--decode", join(json.at("ids"))}).at("pieces") == json.at("pieces"));
    BOOST_TEST(json_of({"tokenize", kModel, "-f", "-"}, text) == json);
    const TemporaryFolder folder;
    BOOST_TEST(json_of({"tokenize", kModel, "-f", folder.write("text", text)}) == json);
  }
  const Json json = json_of({"tokenize", kModel, "-p", "if the token"});
  std::string pieces;
  for (const Json& piece : json.at("pieces")) pieces += piece.get<std::string>();
  BOOST_TEST(pieces == "if the token");
}

BOOST_AUTO_TEST_CASE(text_that_is_not_utf8_still_gives_json) {
  const Json json = json_of({"tokenize", kModel, "-p", "a\xFF\xE6\xAD"});
  BOOST_TEST(json.at("ids").size() == 4U);
  BOOST_TEST(json.at("text") == "a\xEF\xBF\xBD\xEF\xBF\xBD");
}

BOOST_AUTO_TEST_CASE(zero_bytes_are_text) {
  const Json json = json_of({"tokenize", kModel, "-f", "-"}, std::string_view("a\0b", 3));
  BOOST_TEST(json.at("ids").size() == 3U);
  BOOST_TEST(json.at("text") == std::string("a\0b", 3));
}

BOOST_AUTO_TEST_CASE(control_tokens) {
  const std::string qwen = vocabulary("qwen2"), llama = vocabulary("llama-spm");
  if (qwen.empty() || llama.empty()) {
    std::puts("SKIP: COLI_VOCAB_DIR has no ggml-vocab-qwen2.gguf and ggml-vocab-llama-spm.gguf");
    return;
  }
  const Json special = json_of({"tokenize", qwen, "-p", "<|im_start|>hi"});
  BOOST_TEST((special.at("ids")[0] == 151644));
  BOOST_TEST(special.at("ids").size() == 2U);
  const Json plain = json_of({"tokenize", qwen, "-p", "<|im_start|>hi", "--no-special"});
  BOOST_TEST(plain.at("ids").size() > 4U);
  BOOST_TEST(plain.at("text") == special.at("text"));
  const Json without = json_of({"tokenize", llama, "-p", "hi"}), with = json_of({"tokenize", llama, "-p", "hi", "--bos"});
  BOOST_TEST(with.at("ids")[0] == 1);
  Json rest = with.at("ids");
  rest.erase(0);
  BOOST_TEST(rest == without.at("ids"));  // none unless asked for
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(inspect)

BOOST_AUTO_TEST_CASE(a_model) {
  const Json json = json_of({"inspect", kModel});
  BOOST_TEST(json.at("architecture") == "qwen3moe");
  BOOST_TEST(json.at("metadata").at("general.architecture") == "qwen3moe");
  BOOST_TEST(json.at("metadata").at("qwen3moe.block_count") == 2);
  BOOST_TEST(json.at("metadata").at("qwen3moe.rope.freq_base") == 1e6);
  BOOST_TEST(json.at("metadata").at("qwen3moe.attention.layer_norm_rms_epsilon").dump() == "1e-06");
  BOOST_TEST(json.at("metadata").at("tokenizer.ggml.tokens").at("count") == 272);
  BOOST_TEST(json.at("metadata").at("tokenizer.ggml.tokens").at("type") == "string");
  bool found = false;
  for (const Json& tensor : json.at("tensors")) {
    for (const char* key : {"name", "format", "shape", "bytes", "file", "offset"}) BOOST_TEST(tensor.contains(key), key);
    if (tensor.at("name") != "blk.1.ffn_down_exps.weight") continue;
    found = true;
    BOOST_TEST((tensor.at("shape") == Json{32, 32, 4}));
  }
  BOOST_TEST(found);
  const Json& geometry = json.at("geometry");
  BOOST_TEST(geometry.at("experts") == 4);
  BOOST_TEST(geometry.at("top_k") == 2);
  BOOST_TEST(geometry.at("layers") == 2);
  // The token cycle: k experts of every layer.
  std::uint64_t cycle = 0, all = 0;
  for (const Json& layer : geometry.at("per_layer")) {
    BOOST_TEST(layer.at("expert_bytes") == layer.at("gate_bytes").get<std::uint64_t>() + layer.at("up_bytes").get<std::uint64_t>() + layer.at("down_bytes").get<std::uint64_t>());
    BOOST_TEST(layer.at("layer_bytes") == 4 * layer.at("expert_bytes").get<std::uint64_t>());
    cycle += 2 * layer.at("expert_bytes").get<std::uint64_t>();
    all += layer.at("layer_bytes").get<std::uint64_t>();
  }
  BOOST_TEST(geometry.at("token_cycle_bytes") == cycle);
  BOOST_TEST(geometry.at("expert_bytes_total") == all);
  BOOST_TEST(cycle > 0U);
  const std::string text = expect_success({"inspect", kModel}).out;
  for (const char* part : {"architecture: qwen3moe", "qwen3moe.block_count", "blk.1.ffn_down_exps.weight", "token cycle", "4 experts a layer, 2 a token"}) BOOST_TEST(contains(text, part), part);
}

BOOST_AUTO_TEST_CASE(a_split_set_from_any_shard) {
  const Json first = json_of({"inspect", fixture("tiny_split-00001-of-00003.gguf")}), last = json_of({"inspect", fixture("tiny_split-00003-of-00003.gguf")});
  BOOST_TEST(first.at("tensors") == last.at("tensors"));
  BOOST_TEST(first.at("geometry") == last.at("geometry"));
  int largest = 0;
  for (const Json& tensor : first.at("tensors")) largest = std::max(largest, tensor.at("file").get<int>());
  BOOST_TEST(largest == 2);
}

BOOST_AUTO_TEST_CASE(a_vocabulary_without_a_model) {
  const std::string qwen = vocabulary("qwen2");
  if (qwen.empty()) {
    std::puts("SKIP: COLI_VOCAB_DIR has no ggml-vocab-qwen2.gguf");
    return;
  }
  const Json json = json_of({"inspect", qwen});
  BOOST_TEST(json.at("architecture") == "qwen2");
  BOOST_TEST(json.at("tensors").empty());
  BOOST_TEST(json.at("geometry").is_null());
  BOOST_TEST(contains(json.at("geometry_error").get<std::string>(), "qwen2"));
  expect_error({"run", qwen, "-p", "hi"}, 5, {"qwen2", "qwen3moe"});
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_CASE(profiles_list_what_runs) {
  const Json json = json_of({"profiles"});
  const std::string text = expect_success({"profiles"}).out;
  bool scalar = false;
  for (const Json& profile : json.at("profiles")) {
    for (const char* key : {"name", "summary", "activation_precision", "available", "why_not"}) BOOST_TEST(profile.contains(key), key);
    BOOST_TEST((profile.at("available") == profile.at("why_not").get<std::string>().empty()));
    BOOST_TEST(contains(text, profile.at("name").get<std::string>()));
    if (profile.at("available") == true) expect_success({"run", kModel, "-p", "hi", "-n", "1", "--profile", profile.at("name")});
    else expect_error({"run", kModel, "-p", "hi", "-n", "1", "--profile", profile.at("name")}, 3, {profile.at("why_not")});
    scalar = scalar || profile.at("name") == "scalar";
  }
  BOOST_TEST(scalar);
  // auto takes the first that runs, and says which.
  const std::string first = json.at("profiles")[0].at("name");
  const Outcome outcome = expect_success({"run", kModel, "-p", "hi", "-n", "1"});
  if (json.at("profiles")[0].at("available") == true) BOOST_TEST(contains(outcome.err, "profile " + first + " (auto)"));
}

}  // namespace
}  // namespace colidrv::test
