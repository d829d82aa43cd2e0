// SPDX-License-Identifier: Apache-2.0
// On the vocabulary files of another engine: are our ids the ones it printed, and those of each model's reference?
//
// The .out files come from llama.cpp. Where it differs from the reference, the reference (Hugging Face tokenizers;
// SentencePiece itself for "llama") is right: such strings are listed here with the reason.
#include <algorithm>

#include "coli/text/detokenizer.hpp"
#include "text_support.hpp"

using namespace text_test;

namespace {

const std::vector<std::string> kByteLevel{"gpt-2", "llama-bpe", "qwen2", "starcoder", "deepseek-llm"};
const std::vector<std::string> kSentencePiece{"llama-spm", "phi-3"};

std::vector<std::string> all_names() {
  std::vector<std::string> names = kByteLevel;
  names.insert(names.end(), kSentencePiece.begin(), kSentencePiece.end());
  return names;
}

bool have_vocabularies() {
  if (!std::string_view(COLI_VOCAB_DIR).empty()) return true;
  skip("COLI_VOCAB_DIR is not set: no test against other vocabularies");
  return false;
}

std::string path_of(const std::string& name) { return std::string(COLI_VOCAB_DIR) + "/ggml-vocab-" + name + ".gguf"; }

coli::Tokenizer open(const std::string& name) {
  auto file = coli::gguf::ModelFile::open(path_of(name));
  BOOST_REQUIRE_MESSAGE(file, (file ? "" : file.error().line()));
  return tokenizer_of(file->metadata());
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  BOOST_REQUIRE_MESSAGE(file, "cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The strings of an .inp file.
std::vector<std::string> inputs_of(const std::string& name) {
  const std::string text = read_file(path_of(name) + ".inp");
  const std::string separator = "\n__ggml_vocab_test__\n";
  std::vector<std::string> strings;
  std::size_t at = 0;
  for (std::size_t next; (next = text.find(separator, at)) != std::string::npos; at = next + separator.size())
    strings.push_back(text.substr(at, next - at));
  if (at < text.size()) strings.push_back(text.substr(at));
  return strings;
}

std::vector<std::vector<TokenId>> outputs_of(const std::string& name) {
  std::istringstream lines(read_file(path_of(name) + ".out"));
  std::vector<std::vector<TokenId>> outputs;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream numbers(line);
    outputs.emplace_back();
    for (std::int32_t id = 0; numbers >> id;) outputs.back().emplace_back(id);
  }
  return outputs;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(vocabulary_files)

BOOST_AUTO_TEST_CASE(ids_equal_the_other_engines) {
  if (!have_vocabularies()) return;
  for (const std::string& name : all_names()) {
    BOOST_TEST_CONTEXT(name) {
      const coli::Tokenizer tokenizer = open(name);
      const auto inputs = inputs_of(name);
      const auto outputs = outputs_of(name);
      BOOST_REQUIRE(inputs.size() == outputs.size());
      BOOST_TEST(inputs.size() >= 40u);
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const auto ids = tokenizer.encode(inputs[i], {.bos = false, .parse_special = false});
        BOOST_REQUIRE(ids);
        BOOST_TEST(to_text(*ids) == to_text(outputs[i]), coli::gguf::quoted(inputs[i], 400) << "\n ours  " << to_text(*ids) << "\n their " << to_text(outputs[i]));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(ids_equal_each_models_reference) {
  if (!have_vocabularies()) return;
  for (const std::string name : {"gpt-2", "llama-bpe", "starcoder", "deepseek-llm", "llama-spm"}) {
    BOOST_TEST_CONTEXT(name) {
      const coli::Tokenizer tokenizer = open(name);
      const auto goldens = read_goldens(name + ".tokens");
      BOOST_TEST(goldens.size() >= 400u);
      for (const Golden& golden : goldens) {
        const auto ids = tokenizer.encode(golden.text, {.bos = false, .parse_special = golden.parse_special});
        BOOST_REQUIRE(ids);
        BOOST_TEST(to_text(*ids) == to_text(golden.ids), coli::gguf::quoted(golden.text, 400) << "\n ours      " << to_text(*ids) << "\n reference " << to_text(golden.ids));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(text_comes_back) {
  if (!have_vocabularies()) return;
  for (const std::string& name : all_names()) {
    if (name == "qwen2") continue;  // normalises: qwen3_test.cpp
    BOOST_TEST_CONTEXT(name) {
      const coli::Tokenizer tokenizer = open(name);
      for (const Golden& golden : read_goldens("gpt-2.tokens")) {
        const auto ids = tokenizer.encode(golden.text);
        BOOST_REQUIRE(ids);
        // SentencePiece can't tell a space from U+2581.
        if (tokenizer.vocabulary().spelling() == coli::Spelling::sentencepiece && golden.text.find("\u2581") != std::string::npos) continue;
        BOOST_TEST(coli::decode(tokenizer.vocabulary(), *ids, {.render_special = true}) == golden.text);
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
