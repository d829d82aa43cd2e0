// SPDX-License-Identifier: Apache-2.0
// How do tests get tokenizer metadata without a file? Built by hand, broken in any way they like.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coli/gguf/metadata.hpp"
#include "coli/text/byte_alphabet.hpp"

namespace text_test {

/// Builds metadata without a file. Setting a key again replaces it.
class MetadataMaker {
 public:
  MetadataMaker& text(const std::string& key, std::string value) { return put(key, std::move(value)); }
  MetadataMaker& flag(const std::string& key, bool value) { return put(key, scalar(coli::gguf::ValueType::bool_, value ? 1 : 0)); }
  MetadataMaker& u32(const std::string& key, std::uint32_t value) { return put(key, scalar(coli::gguf::ValueType::u32, value)); }
  MetadataMaker& strings(const std::string& key, const std::vector<std::string>& values) {
    coli::gguf::StringArray array;
    for (const auto& v : values) {
      array.blob() += v;
      array.end_string();
    }
    return put(key, std::move(array));
  }
  template <class T>
  MetadataMaker& numbers(const std::string& key, coli::gguf::ValueType type, const std::vector<T>& values) {
    coli::gguf::NumberArray array{type, std::vector<std::byte>(values.size() * sizeof(T))};
    if (!values.empty()) std::memcpy(array.raw.data(), values.data(), array.raw.size());
    return put(key, std::move(array));
  }
  MetadataMaker& types(const std::vector<std::int32_t>& values) {
    return numbers("tokenizer.ggml.token_type", coli::gguf::ValueType::i32, values);
  }
  MetadataMaker& scores(const std::vector<float>& values) {
    return numbers("tokenizer.ggml.scores", coli::gguf::ValueType::f32, values);
  }
  MetadataMaker& remove(const std::string& key) {
    std::erase_if(entries_, [&](const auto& e) { return e.key == key; });
    return *this;
  }
  coli::gguf::Metadata make() const {
    return *coli::gguf::Metadata::from_entries(entries_, "made.gguf");  // no key stands twice
  }

 private:
  static coli::gguf::Scalar scalar(coli::gguf::ValueType type, std::uint64_t bits) {
    coli::gguf::Scalar value;
    value.type = type;
    value.bits = bits;
    return value;
  }
  template <class V>
  MetadataMaker& put(const std::string& key, V value) {
    remove(key);
    coli::gguf::Metadata::Entry entry;
    entry.key = key;
    entry.value = std::move(value);
    entries_.push_back(std::move(entry));
    return *this;
  }
  std::vector<coli::gguf::Metadata::Entry> entries_;
};

/// A byte-level vocabulary of the 256 bytes (ids are the bytes), the given merges' products, then control tokens.
inline MetadataMaker small_bpe(const std::string& pre, const std::vector<std::string>& merges = {"h e"},
                               const std::vector<std::string>& control = {}, const std::vector<std::string>& user_defined = {}) {
  std::vector<std::string> tokens;
  std::vector<std::int32_t> types;
  const auto add = [&](std::string token, int type) {
    tokens.push_back(std::move(token));
    types.push_back(type);
  };
  for (unsigned b = 0; b < 256; ++b) add(coli::byte_alphabet::text_of(static_cast<unsigned char>(b)), 1);
  for (std::string merge : merges) {
    merge.erase(merge.find(' '), 1);
    add(merge, 1);
  }
  for (const auto& token : control) add(token, 3);
  for (const auto& token : user_defined) add(token, 4);
  MetadataMaker maker;
  maker.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", pre);
  maker.strings("tokenizer.ggml.tokens", tokens).types(types).strings("tokenizer.ggml.merges", merges);
  return maker;
}

/// A SentencePiece vocabulary: <unk> <s> </s>, 256 bytes, then the given pieces with falling scores.
inline MetadataMaker small_spm(const std::vector<std::string>& pieces, const std::vector<std::string>& user_defined = {}) {
  std::vector<std::string> tokens{"<unk>", "<s>", "</s>"};
  std::vector<std::int32_t> types{2, 3, 3};
  std::vector<float> scores{0, 0, 0};
  const auto add = [&](std::string token, std::int32_t type, float score) {
    tokens.push_back(std::move(token));
    types.push_back(type);
    scores.push_back(score);
  };
  for (unsigned byte = 0; byte < 256; ++byte) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    add({'<', '0', 'x', digits[byte >> 4], digits[byte & 15], '>'}, 6, 0);
  }
  float score = 0;
  for (const auto& piece : pieces) add(piece, 1, score -= 1);
  for (const auto& piece : user_defined) add(piece, 4, 0);
  MetadataMaker maker;
  maker.text("tokenizer.ggml.model", "llama").strings("tokenizer.ggml.tokens", tokens).types(types).scores(scores);
  return maker.u32("tokenizer.ggml.bos_token_id", 1).u32("tokenizer.ggml.eos_token_id", 2).u32("tokenizer.ggml.unknown_token_id", 0);
}
inline constexpr std::int32_t kFirstPiece = 259;

}  // namespace text_test
