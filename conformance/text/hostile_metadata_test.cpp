// SPDX-License-Identifier: Apache-2.0
// Is every broken tokenizer refused in one line that names file and key?
#include "coli/text/tokenizer.hpp"

#include <cmath>
#include <limits>

#include "text_support.hpp"

using namespace text_test;

namespace {

/// The refusal of what `maker` made.
std::string refusal(const MetadataMaker& maker) {
  const auto made = coli::Tokenizer::from(maker.make());
  BOOST_REQUIRE_MESSAGE(!made, "taken");
  BOOST_TEST((made.error().code == coli::Errc::bad_input));
  const std::string line = made.error().line();
  BOOST_TEST(line.starts_with("made.gguf: tokenizer.ggml."), line);
  BOOST_TEST(line.find('\n') == std::string::npos);
  BOOST_TEST(line.size() < 400u);
  return line.substr(std::string("made.gguf: tokenizer.ggml.").size());
}

MetadataMaker spm() {
  MetadataMaker maker;
  maker.text("tokenizer.ggml.model", "llama").strings("tokenizer.ggml.tokens", {"<unk>", "a", "b", "ab"}).types({2, 1, 1, 1});
  return maker.scores({0, -1, -2, -3});
}

}  // namespace

BOOST_AUTO_TEST_SUITE(hostile_metadata)

BOOST_AUTO_TEST_CASE(the_good_twins_are_taken) {
  BOOST_TEST(static_cast<bool>(coli::Tokenizer::from(small_bpe("qwen2").make())));
  BOOST_TEST(static_cast<bool>(coli::Tokenizer::from(spm().make())));
}

BOOST_AUTO_TEST_CASE(models_and_rules_that_are_not_known) {
  BOOST_TEST(refusal(small_bpe("qwen2").remove("tokenizer.ggml.model")).starts_with("model: required metadata key is missing"));
  BOOST_TEST(refusal(small_bpe("qwen2").text("tokenizer.ggml.model", "bert")) ==
             "model: tokenizer \"bert\" is not supported; \"gpt2\" (byte-level BPE) and \"llama\" (SentencePiece BPE) are");
  BOOST_TEST(refusal(small_bpe("qwen2").u32("tokenizer.ggml.model", 3)).starts_with("model: expected string, found u32 3"));
  BOOST_TEST(refusal(small_bpe("qwen35")) == "pre: splitting rule \"qwen35\" is not supported; supported are qwen2, llama-bpe, llama3, llama-v3, gpt-2, starcoder, smollm, refact, deepseek-llm");
  BOOST_TEST(refusal(small_bpe("default")).starts_with("pre: splitting rule \"default\" is not supported"));
  BOOST_TEST(refusal(small_bpe("x\ny\x1b[31m")).starts_with("pre: splitting rule \"x\\ny\\x1b[31m\" is not supported"));
  BOOST_TEST(refusal(small_bpe("qwen2").remove("tokenizer.ggml.pre")).starts_with("pre: is missing, so the splitting rule is unknown; supported are qwen2"));
}

BOOST_AUTO_TEST_CASE(tokens_that_are_none) {
  BOOST_TEST(refusal(small_bpe("qwen2").remove("tokenizer.ggml.tokens")).starts_with("tokens: required metadata key is missing"));
  BOOST_TEST(refusal(small_bpe("qwen2").strings("tokenizer.ggml.tokens", {})) == "tokens: holds no tokens");
  BOOST_TEST(refusal(small_bpe("qwen2").u32("tokenizer.ggml.tokens", 5)).starts_with("tokens: expected an array of strings"));
  BOOST_TEST(refusal(small_bpe("qwen2", {"h e"}, {std::string(5000, 'x')})) == "tokens: added token 257 is 5000 bytes long; at most 4096 are supported");
  auto long_piece = spm();
  long_piece.strings("tokenizer.ggml.tokens", {"<unk>", "a", "b", std::string(2000, 'a')});
  BOOST_TEST(refusal(long_piece) == "tokens: token 3 is 2000 bytes long; at most 1024 are supported");
}

BOOST_AUTO_TEST_CASE(types_that_do_not_fit) {
  BOOST_TEST(refusal(small_bpe("qwen2").types({1, 2, 3})) == "token_type: 3 types for 257 tokens");
  BOOST_TEST(refusal(small_bpe("qwen2").types({})) == "token_type: 0 types for 257 tokens");
  std::vector<std::int32_t> types(257, 1);
  types[7] = 9;
  BOOST_TEST(refusal(small_bpe("qwen2").types(types)) == "token_type: token 7 has type 9; types are 1 to 6");
  types[7] = -1;
  BOOST_TEST(refusal(small_bpe("qwen2").types(types)) == "token_type: token 7 has type -1; types are 1 to 6");
  BOOST_TEST(refusal(small_bpe("qwen2").scores({1}).text("tokenizer.ggml.token_type", "normal")).starts_with("token_type: expected an array of integers"));
  BOOST_TEST(refusal(small_bpe("qwen2").numbers("tokenizer.ggml.token_type", coli::gguf::ValueType::f32, std::vector<float>(257, 1.0f))).starts_with("token_type: expected an array of integers"));
  // Any integer width will do.
  for (const auto type : {coli::gguf::ValueType::u32, coli::gguf::ValueType::i32})
    BOOST_TEST(static_cast<bool>(coli::Tokenizer::from(small_bpe("qwen2").numbers("tokenizer.ggml.token_type", type, std::vector<std::uint32_t>(257, 1)).make())));
  BOOST_TEST(static_cast<bool>(coli::Tokenizer::from(small_bpe("qwen2").numbers("tokenizer.ggml.token_type", coli::gguf::ValueType::i64, std::vector<std::int64_t>(257, 1)).make())));
  BOOST_TEST(static_cast<bool>(coli::Tokenizer::from(small_bpe("qwen2").numbers("tokenizer.ggml.token_type", coli::gguf::ValueType::u8, std::vector<std::uint8_t>(257, 1)).make())));
}

BOOST_AUTO_TEST_CASE(scores_that_are_none) {
  BOOST_TEST(refusal(spm().remove("tokenizer.ggml.scores")).starts_with("scores: required metadata key is missing"));
  BOOST_TEST(refusal(spm().scores({0, 1})) == "scores: 2 scores for 4 tokens");
  BOOST_TEST(refusal(spm().scores({})) == "scores: 0 scores for 4 tokens");
  BOOST_TEST(refusal(spm().numbers("tokenizer.ggml.scores", coli::gguf::ValueType::u8, std::vector<std::uint8_t>(4, 0))).starts_with("scores: expected an array of floats"));
  BOOST_TEST(refusal(spm().scores({0, std::nanf(""), 0, 0})) == "scores: the score of token 1 is not a number");
  const float infinite = std::numeric_limits<float>::infinity();
  BOOST_TEST(static_cast<bool>(coli::Tokenizer::from(spm().scores({0, infinite, -infinite, -infinite}).make())));
}

BOOST_AUTO_TEST_CASE(merges_that_are_none) {
  BOOST_TEST(refusal(small_bpe("qwen2").remove("tokenizer.ggml.merges")).starts_with("merges: required metadata key is missing"));
  BOOST_TEST(refusal(small_bpe("qwen2").strings("tokenizer.ggml.merges", {})) == "merges: holds no merges");
  for (const std::string bad : {"", " ", "he", "h ", " e", "h  e", "h e e", "h e "})
    BOOST_TEST(refusal(small_bpe("qwen2").strings("tokenizer.ggml.merges", {"h e", bad})) == "merges: merge 1 \"" + bad + "\" is not two token texts with one space between them");
  BOOST_TEST(refusal(small_bpe("qwen2").strings("tokenizer.ggml.merges", {"qq e"})) == "merges: merge 0 \"qq e\" needs \"qq\", which is no token");
  BOOST_TEST(refusal(small_bpe("qwen2").strings("tokenizer.ggml.merges", {"h qq"})) == "merges: merge 0 \"h qq\" needs \"qq\", which is no token");
  BOOST_TEST(refusal(small_bpe("qwen2").strings("tokenizer.ggml.merges", {"e h"})) == "merges: merge 0 \"e h\" needs \"eh\", which is no token");
  BOOST_TEST(refusal(small_bpe("qwen2").u32("tokenizer.ggml.merges", 1)).starts_with("merges: expected an array of strings"));
}

BOOST_AUTO_TEST_CASE(ids_out_of_range) {
  for (const std::string name : {"bos", "eos", "eot", "eom", "unknown", "padding"}) {
    const std::string key = name + "_token_id";
    BOOST_TEST(refusal(small_bpe("qwen2").u32("tokenizer.ggml." + key, 257)) == key + ": token id 257 is out of range: the vocabulary has 257 tokens");
    BOOST_TEST(refusal(small_bpe("qwen2").u32("tokenizer.ggml." + key, 0xFFFFFFFFu)).starts_with(key + ": token id 4294967295 is out of range"));
    BOOST_TEST(refusal(small_bpe("qwen2").text("tokenizer.ggml." + key, "1")).starts_with(key + ": expected i64"));
    BOOST_TEST(static_cast<bool>(coli::Tokenizer::from(small_bpe("qwen2").u32("tokenizer.ggml." + key, 256).make())));
  }
}

BOOST_AUTO_TEST_CASE(flags_and_options_that_do_not_fit) {
  BOOST_TEST(refusal(small_bpe("qwen2").u32("tokenizer.ggml.add_bos_token", 1)).starts_with("add_bos_token: expected bool"));
  BOOST_TEST(refusal(small_bpe("qwen2").flag("tokenizer.ggml.add_bos_token", true)) == "add_bos_token: is true, but tokenizer.ggml.bos_token_id is missing");
  BOOST_TEST(refusal(spm().u32("tokenizer.ggml.add_space_prefix", 1)).starts_with("add_space_prefix: expected bool"));
  BOOST_TEST(refusal(spm().flag("tokenizer.ggml.remove_extra_whitespaces", true)).starts_with("remove_extra_whitespaces: is true"));
  BOOST_TEST(refusal(spm().text("tokenizer.ggml.precompiled_charsmap", "x")).starts_with("precompiled_charsmap: tokenizers with a character map"));
}

BOOST_AUTO_TEST_CASE(odd_but_harmless) {
  // Equal texts: the lowest id is used. Empty, unterminated and binary texts: never matched by accident.
  auto maker = small_bpe("qwen2", {"h e"}, {"", "<a>", "<a>"}, {"\xFF\xFE"});
  const auto tokenizer = tokenizer_of(maker.make());
  BOOST_TEST(to_text(*tokenizer.encode("<a>he\xFF\xFE")) == "258 256 260");
  const auto binary = spm().strings("tokenizer.ggml.tokens", {"\xFF", "", std::string("a\0b", 3), "\xE6\xAD"}).types({1, 1, 1, 1});
  BOOST_TEST(static_cast<bool>(coli::Tokenizer::from(binary.make())));
}

BOOST_AUTO_TEST_SUITE_END()
