// SPDX-License-Identifier: Apache-2.0
// Do real files from other writers open, with the contents that an independent reader finds in them?
#include "coli/gguf/model_file.hpp"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <filesystem>
#include <iostream>

#include "coli/gguf/writer.hpp"
#include "expect.hpp"
#include "temporary_folder.hpp"

namespace coli::gguf::test {
namespace {

BOOST_AUTO_TEST_SUITE(model_file)

BOOST_AUTO_TEST_CASE(vocabularies_of_another_writer) {
  const std::string folder = COLI_VOCAB_DIR;
  if (folder.empty()) {
    std::cout << "SKIP: COLI_VOCAB_DIR is not set\n";
    return;
  }
  struct Known {
    const char* name;
    const char* architecture;
    std::size_t n_keys, n_tokens, n_merges, n_scores;
  };
  // As the gguf Python package counts them.
  for (const Known& known :
       {Known{"deepseek-llm", "llama", 23, 102400, 99757, 0}, Known{"gpt-2", "gpt2", 16, 50257, 50000, 0},
        Known{"llama-bpe", "llama", 20, 128256, 280147, 0}, Known{"llama-spm", "llama", 22, 32000, 0, 32000},
        Known{"phi-3", "phi3", 26, 32064, 0, 32064}, Known{"qwen2", "qwen2", 20, 151936, 151387, 0},
        Known{"starcoder", "starcoder2", 19, 49152, 48872, 0}}) {
    BOOST_TEST_CONTEXT(known.name) {
      const std::string path = folder + "/ggml-vocab-" + known.name + ".gguf";
      const auto start = std::chrono::steady_clock::now();
      const auto model = ModelFile::open(path);
      const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
      BOOST_TEST_REQUIRE(model.has_value(), (model ? "" : model.error().line()));
      std::cout << "gguf: " << known.name << " opened in " << took.count() << " ms\n";
      const Metadata& m = model->metadata();
      BOOST_TEST(model->tensors().empty());
      BOOST_TEST(sound(*model));
      BOOST_TEST(m.size() == known.n_keys);
      BOOST_TEST(*m.get<std::string_view>("general.architecture") == known.architecture);
      const auto tokens = m.strings("tokenizer.ggml.tokens");
      BOOST_TEST_REQUIRE(tokens.has_value());
      BOOST_TEST((*tokens)->size() == known.n_tokens);
      BOOST_TEST(m.integers("tokenizer.ggml.token_type")->size() == known.n_tokens);
      const auto merges = m.find_strings("tokenizer.ggml.merges");
      BOOST_TEST((*merges == nullptr ? 0 : (*merges)->size()) == known.n_merges);
      const auto scores = m.find_floats("tokenizer.ggml.scores");
      BOOST_TEST((scores->has_value() ? (*scores)->size() : 0) == known.n_scores);
      BOOST_TEST(model->header_bytes_read() <= std::filesystem::file_size(path) + 32);
    }
  }
  const auto qwen2 = ModelFile::open(folder + "/ggml-vocab-qwen2.gguf");
  const auto tokens = qwen2->metadata().strings("tokenizer.ggml.tokens");
  BOOST_TEST((**tokens)[0] == "!");
  BOOST_TEST((**tokens)[151643] == "<|endoftext|>");
  BOOST_TEST((**tokens)[151935] == "[PAD151935]");
  BOOST_TEST(*qwen2->metadata().get<float>("qwen2.rope.freq_base") == 1e6f);
  BOOST_TEST((*qwen2->metadata().integers("tokenizer.ggml.token_type"))[151643] == 3);
}

BOOST_AUTO_TEST_CASE(fixtures_open) {
  std::size_t opened = 0;
  if (std::filesystem::is_directory(COLI_FIXTURES_DIR))
    for (const auto& entry : std::filesystem::directory_iterator(COLI_FIXTURES_DIR)) {
      const std::string name = entry.path().filename().string();
      if (entry.path().extension() != ".gguf" || contains(name, "bad")) continue;
      const auto model = ModelFile::open(entry.path().string());
      BOOST_TEST(model.has_value(), (model ? "" : model.error().line()));
      if (!model) continue;
      BOOST_TEST(sound(*model), name);
      BOOST_TEST(!model->tensors().empty());
      BOOST_TEST(*model->metadata().get<std::string_view>("general.architecture") == "qwen3moe");
      ++opened;
    }
  BOOST_TEST(opened > 0u);
}

BOOST_AUTO_TEST_CASE(large_vocabularies_open_fast) {
  const TemporaryFolder folder;
  std::vector<std::string> tokens;
  std::vector<std::string> merges;
  for (int i = 0; i < 150000; ++i) {
    tokens.push_back("token" + std::to_string(i));
    merges.push_back("to ken" + std::to_string(i));
  }
  const std::vector<std::int32_t> types(tokens.size(), 1);
  Writer w;
  w.set("general.architecture", "toy")
      .set_strings("tokenizer.ggml.tokens", tokens)
      .set_strings("tokenizer.ggml.merges", merges);
  w.set_array("tokenizer.ggml.token_type", std::span(types));
  w.declare("weights", "F32", {1024, 1024});
  const std::string path = folder / "large.gguf";
  BOOST_TEST_REQUIRE(w.create(path).has_value());
  const std::vector<std::byte> zeros(4 << 20);
  BOOST_TEST_REQUIRE(w.write("weights", zeros).has_value());
  BOOST_TEST_REQUIRE(w.finish().has_value());

  const auto start = std::chrono::steady_clock::now();
  const auto model = ModelFile::open(path);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  BOOST_TEST_REQUIRE(model.has_value(), (model ? "" : model.error().line()));
  std::cout << "gguf: 150000 tokens and 150000 merges in " << took.count() << " ms\n";
  const auto read = model->metadata().strings("tokenizer.ggml.tokens");
  BOOST_TEST((**read)[149999] == "token149999");
  // The data stays untouched: what was read is the header, the rest of its last window and two looks for magics.
  BOOST_TEST(model->header_bytes_read() <= model->shards()[0].data_offset + kWindowBytes + 32);
  BOOST_TEST(model->shards()[0].size - model->header_bytes_read() >= zeros.size() - kWindowBytes - 32);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace coli::gguf::test
