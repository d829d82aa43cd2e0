// SPDX-License-Identifier: Apache-2.0
// How does text become token ids? Added tokens are cut out first; the model's own algorithm does the rest.
//
// The reference is Hugging Face's tokenizer of each model. Nothing is unescaped: a backslash and an n are two characters.
// Immutable after `from`; encode() is safe from many threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "coli/core/error.hpp"
#include "coli/core/ids.hpp"
#include "coli/gguf/metadata.hpp"
#include "coli/text/byte_level_bpe.hpp"
#include "coli/text/sentencepiece_bpe.hpp"
#include "coli/text/special_splitter.hpp"
#include "coli/text/vocabulary.hpp"

namespace coli {

class Tokenizer {
 public:
  static constexpr std::size_t kLongestText = std::size_t{1} << 30;  // bytes in one call

  /// Errors: bad_input naming the key.
  static Result<Tokenizer> from(const gguf::Metadata& metadata) {
    COLI_TRY(vocabulary, Vocabulary::from(metadata));
    return from(metadata, std::move(vocabulary));
  }
  static Result<Tokenizer> from(const gguf::Metadata& metadata, Vocabulary vocabulary);

  const Vocabulary& vocabulary() const noexcept { return vocabulary_; }

  struct EncodeOptions {
    bool bos = false;           // put the vocabulary's BOS in front
    bool parse_special = true;  // "<|im_start|>" in the text is that control token; otherwise it is ten characters
  };

  /// The ids of `text`. Any bytes are taken; see the algorithms for what invalid UTF-8 becomes.
  /// Errors: usage, for a text that is too long or a BOS that the vocabulary lacks; bad_input, for a byte without a token.
  Result<std::vector<TokenId>> encode(std::string_view text, EncodeOptions options) const;
  Result<std::vector<TokenId>> encode(std::string_view text) const { return encode(text, EncodeOptions{}); }

  /// The bytes that one token puts into text (half characters included; control tokens give their name).
  std::string piece(TokenId id) const { return vocabulary_.piece(id); }

  std::size_t held_bytes() const noexcept {
    return vocabulary_.held_bytes() + std::visit([](const auto& algorithm) { return algorithm.held_bytes(); }, algorithm_);
  }

 private:
  using Algorithm = std::variant<ByteLevelBpe, SentencePieceBpe>;
  Tokenizer(Vocabulary vocabulary, SpecialSplitter splitter, Algorithm algorithm)
      : vocabulary_(std::move(vocabulary)), splitter_(std::move(splitter)), algorithm_(std::move(algorithm)) {}

  Result<void> encode_with(const ByteLevelBpe& bpe, std::string_view text, bool parse_special, std::vector<TokenId>& ids) const;
  Result<void> encode_with(const SentencePieceBpe& bpe, std::string_view text, bool parse_special, std::vector<TokenId>& ids) const;

  Vocabulary vocabulary_;
  SpecialSplitter splitter_;
  Algorithm algorithm_;
};

inline Result<Tokenizer> Tokenizer::from(const gguf::Metadata& metadata, Vocabulary vocabulary) {
  COLI_TRY(splitter, SpecialSplitter::from(metadata, vocabulary));
  if (vocabulary.spelling() == Spelling::sentencepiece) {
    COLI_TRY(bpe, SentencePieceBpe::from(metadata, vocabulary));
    return Tokenizer(std::move(vocabulary), std::move(splitter), std::move(bpe));
  }
  COLI_TRY(bpe, ByteLevelBpe::from(metadata, vocabulary));
  return Tokenizer(std::move(vocabulary), std::move(splitter), std::move(bpe));
}

inline Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  if (text.size() > kLongestText)
    return Error{Errc::usage, "the text is " + std::to_string(text.size()) + " bytes long; at most " + std::to_string(kLongestText) +
                                  " are tokenised in one go"};
  std::vector<TokenId> ids;
  if (options.bos) {
    if (!vocabulary_.bos()) return Error{Errc::usage, "this vocabulary has no beginning-of-sequence token to put in front"};
    ids.push_back(*vocabulary_.bos());
  }
  COLI_CHECK(std::visit([&](const auto& algorithm) { return encode_with(algorithm, text, options.parse_special, ids); }, algorithm_));
  return ids;
}

inline Result<void> Tokenizer::encode_with(const ByteLevelBpe& bpe, std::string_view text, bool parse_special,
                                           std::vector<TokenId>& ids) const {
  ByteLevelBpe::Scratch scratch;
  return splitter_.split(
      text, parse_special,
      [&](std::string_view stretch, std::size_t) { return bpe.encode(stretch, vocabulary_, scratch, ids); },
      [&](TokenId id) { ids.push_back(id); });
}

inline Result<void> Tokenizer::encode_with(const SentencePieceBpe& bpe, std::string_view text, bool parse_special,
                                           std::vector<TokenId>& ids) const {
  SentencePieceBpe::Scratch scratch;
  return splitter_.split(
      text, parse_special,
      [&](std::string_view stretch, std::size_t offset) { return bpe.encode(stretch, offset == 0, vocabulary_, scratch, ids); },
      [&](TokenId id) { ids.push_back(id); });
}

}  // namespace coli
