// SPDX-License-Identifier: Apache-2.0
// What do the text tests share? Metadata made by hand, the goldens' file format, and the real vocabularies where they are.
#pragma once

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coli/gguf/metadata.hpp"
#include "coli/gguf/model_file.hpp"
#include "coli/text/tokenizer.hpp"
#include "metadata_maker.hpp"

namespace text_test {

using coli::TokenId;

inline coli::Tokenizer tokenizer_of(const coli::gguf::Metadata& metadata) {
  auto made = coli::Tokenizer::from(metadata);
  BOOST_REQUIRE_MESSAGE(made, (made ? "" : made.error().line()));
  return *std::move(made);
}

inline std::string to_text(const std::vector<TokenId>& ids) {
  std::string text;
  for (const TokenId id : ids) text += (text.empty() ? "" : " ") + std::to_string(id.value);
  return text;
}

inline std::vector<TokenId> ids_of(std::initializer_list<std::int32_t> values) {
  std::vector<TokenId> ids;
  for (const auto v : values) ids.emplace_back(v);
  return ids;
}

/// A small generator, the same everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint32_t below(std::size_t n) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::uint32_t>((state_ >> 33) % n);
  }
  template <class T>
  const T& of(const std::vector<T>& items) {
    return items[below(items.size())];
  }

 private:
  std::uint64_t state_;
};

/// One line of a .tokens file; fixtures/text/make_text_goldens.py describes the format.
struct Golden {
  std::string text;
  bool parse_special = true;
  std::vector<TokenId> ids;
};

inline std::string unescape(std::string_view escaped) {
  std::string raw;
  for (std::size_t i = 0; i < escaped.size(); ++i) {
    if (escaped[i] != '\\') {
      raw.push_back(escaped[i]);
      continue;
    }
    switch (escaped[++i]) {
      case 'n': raw.push_back('\n'); break;
      case 'r': raw.push_back('\r'); break;
      case 't': raw.push_back('\t'); break;
      case 'x': raw.push_back(static_cast<char>(std::stoi(std::string(escaped.substr(i + 1, 2)), nullptr, 16))), i += 2; break;
      default: raw.push_back(escaped[i]);
    }
  }
  return raw;
}

inline std::vector<Golden> read_goldens(const std::string& name) {
  const std::string path = std::string(COLI_FIXTURES_DIR) + "/text/" + name;
  std::ifstream file(path);
  BOOST_REQUIRE_MESSAGE(file, "missing fixture " + path);
  std::vector<Golden> goldens;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::size_t tab = line.find('\t');
    BOOST_REQUIRE(tab != std::string::npos && (line[0] == 'S' || line[0] == 'P'));
    Golden golden{unescape(std::string_view(line).substr(tab + 1)), line[0] == 'S', {}};
    std::istringstream ids(line.substr(1, tab - 1));
    for (std::int32_t id = 0; ids >> id;) golden.ids.emplace_back(id);
    goldens.push_back(std::move(golden));
  }
  return goldens;
}

inline void skip(const std::string& what) { std::cout << "SKIP: " << what << std::endl; }

/// The metadata of Qwen3's tokenizer as its GGUF files have it, padded to 151,936 tokens; made from tokenizer.json.
/// Nothing when COLI_QWEN3_TOKENIZER is empty.
inline std::optional<MetadataMaker> qwen3_metadata() {
  const std::string path = COLI_QWEN3_TOKENIZER;
  if (path.empty()) {
    skip("COLI_QWEN3_TOKENIZER is not set: no test against the real Qwen3 vocabulary");
    return std::nullopt;
  }
  std::ifstream file(path);
  BOOST_REQUIRE_MESSAGE(file, "cannot read COLI_QWEN3_TOKENIZER " + path);
  const auto json = nlohmann::json::parse(file);
  constexpr std::size_t kTokens = 151936;
  std::vector<std::string> tokens(kTokens);
  std::vector<std::int32_t> types(kTokens, 5);
  for (const auto& [text, id] : json["model"]["vocab"].items()) {
    tokens.at(id.get<std::size_t>()) = text;
    types.at(id.get<std::size_t>()) = 1;
  }
  for (const auto& added : json["added_tokens"]) {
    tokens.at(added["id"].get<std::size_t>()) = added["content"].get<std::string>();
    types.at(added["id"].get<std::size_t>()) = added["special"].get<bool>() ? 3 : 4;
  }
  for (std::size_t i = 0; i < kTokens; ++i) {
    if (types[i] == 5) tokens[i] = "[PAD" + std::to_string(i) + "]";
  }
  std::vector<std::string> merges;
  for (const auto& merge : json["model"]["merges"])
    merges.push_back(merge.is_string() ? merge.get<std::string>() : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  MetadataMaker maker;
  maker.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "qwen2").strings("tokenizer.ggml.tokens", tokens);
  maker.types(types).strings("tokenizer.ggml.merges", merges).u32("tokenizer.ggml.eos_token_id", 151645);
  maker.u32("tokenizer.ggml.padding_token_id", 151643).u32("tokenizer.ggml.bos_token_id", 151643).flag("tokenizer.ggml.add_bos_token", false);
  return maker;
}

/// The tokenizer over it, made once.
inline const coli::Tokenizer* qwen3() {
  static const std::unique_ptr<const coli::Tokenizer> made = [] {
    const auto maker = qwen3_metadata();
    return maker ? std::make_unique<const coli::Tokenizer>(tokenizer_of(maker->make())) : nullptr;
  }();
  return made.get();
}

}  // namespace text_test
