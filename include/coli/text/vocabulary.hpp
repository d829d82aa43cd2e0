// SPDX-License-Identifier: Apache-2.0
// Which tokens are there, what does each stand for, and which mean something to the engine?
//
// Owns its texts (one blob) and an index over them: about 30 bytes a token. Immutable after `from`; share it freely
// between threads. Ids that are out of range have no text, no type but `unknown`, and are never sampled.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coli/core/error.hpp"
#include "coli/core/ids.hpp"
#include "coli/gguf/metadata.hpp"
#include "coli/gguf/string_array.hpp"
#include "coli/text/byte_alphabet.hpp"
#include "coli/text/text_index.hpp"

namespace coli {

/// What a token is for; the numbers are GGUF's.
enum class TokenType : std::uint8_t { normal = 1, unknown, control, user_defined, unused, byte };

/// How token texts are written. `tokenizer.ggml.model` says "gpt2" for the first and "llama" for the second.
enum class Spelling : std::uint8_t {
  byte_level,     // each byte a character of GPT-2's alphabet
  sentencepiece,  // UTF-8, U+2581 for a space, "<0x0A>" for a byte
};

class Vocabulary {
 public:
  static constexpr std::string_view kModelKey = "tokenizer.ggml.model";
  static constexpr std::string_view kTokensKey = "tokenizer.ggml.tokens";
  static constexpr std::string_view kTypesKey = "tokenizer.ggml.token_type";
  static constexpr std::string_view kScoresKey = "tokenizer.ggml.scores";

  /// Whether the file has a tokenizer at all: models without one still run on ids.
  static bool present_in(const gguf::Metadata& metadata) { return metadata.contains(kModelKey); }

  /// Errors: bad_input naming the key, for a tokenizer that is missing, of an unknown kind, or inconsistent.
  static Result<Vocabulary> from(const gguf::Metadata& metadata);

  std::size_t size() const noexcept { return types_.size(); }
  bool contains(TokenId id) const noexcept { return id.value >= 0 && static_cast<std::size_t>(id.value) < size(); }
  Spelling spelling() const noexcept { return spelling_; }

  /// The token as the file spells it.
  std::string_view text(TokenId id) const { return contains(id) ? texts_[index(id)] : std::string_view{}; }
  TokenType type(TokenId id) const { return contains(id) ? types_[index(id)] : TokenType::unknown; }
  /// Only sentencepiece vocabularies have scores; empty otherwise.
  std::span<const float> scores() const noexcept { return scores_; }

  /// The lowest id with this spelling.
  std::optional<TokenId> find(std::string_view spelled) const {
    const auto number = index_.find(texts_, spelled);
    if (!number) return std::nullopt;
    return TokenId{static_cast<std::int32_t>(*number)};
  }

  /// The bytes that the token puts into text: any bytes, half characters included. Control tokens give their name.
  std::string piece(TokenId id) const;

  /// Has no place in text: control and unknown tokens, padding.
  bool is_special(TokenId id) const {
    const TokenType t = type(id);
    return t == TokenType::control || t == TokenType::unknown || is_padding(id);
  }
  /// Fills the embedding table up to a round number; means nothing. Ids past the end count as padding.
  bool is_padding(TokenId id) const { return !contains(id) || padding_[index(id)]; }
  /// The model may emit it: all but padding.
  bool is_sampleable(TokenId id) const { return !is_padding(id); }

  std::optional<TokenId> bos() const noexcept { return bos_; }
  std::optional<TokenId> eos() const noexcept { return eos_; }
  std::optional<TokenId> unknown() const noexcept { return unknown_; }
  /// Every token that ends generation, in ascending order.
  std::span<const TokenId> end_ids() const noexcept { return end_ids_; }
  bool ends_generation(TokenId id) const { return std::ranges::binary_search(end_ids_, id); }

  /// What the model was trained to see in front of a prompt.
  bool add_bos() const noexcept { return add_bos_; }
  bool add_eos() const noexcept { return add_eos_; }
  /// sentencepiece: text starts with a space that nobody typed.
  bool add_space_prefix() const noexcept { return add_space_prefix_; }

  std::size_t held_bytes() const noexcept {
    return text_bytes_ + size() * (sizeof(std::uint32_t) + sizeof(TokenType) + 1) + scores_.size() * sizeof(float) + index_.bytes();
  }

 private:
  static constexpr std::size_t kMaxTokens = std::size_t{1} << 24;  // the largest known vocabularies are below 2^19

  // Tokens that end a turn or a text in the published families, whatever the file's eos id says. Only when control or user-defined.
  static constexpr std::array<std::string_view, 13> kEndNames{
      "<|endoftext|>", "<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|end|>", "<|return|>", "<|call|>",
      "<end_of_turn>", "<|end_of_turn|>", "<EOT>", "<\uFF5Cend\u2581of\u2581sentence\uFF5C>", "<|END_OF_TURN_TOKEN|>"};

  static std::size_t index(TokenId id) noexcept { return static_cast<std::size_t>(id.value); }
  static bool names_padding(std::string_view text, std::size_t id) { return text == "[PAD" + std::to_string(id) + "]"; }

  Result<void> read_tokens(const gguf::Metadata& metadata);
  Result<void> read_types(const gguf::Metadata& metadata);
  Result<void> read_scores(const gguf::Metadata& metadata);
  Result<void> read_special_ids(const gguf::Metadata& metadata);
  Result<void> read_flags(const gguf::Metadata& metadata);
  Result<std::optional<TokenId>> special_id(const gguf::Metadata& metadata, std::string_view key) const;

  Spelling spelling_ = Spelling::byte_level;
  gguf::StringArray texts_;
  std::size_t text_bytes_ = 0;
  TextIndex index_;
  std::vector<TokenType> types_;
  std::vector<bool> padding_;
  std::vector<float> scores_;
  std::optional<TokenId> bos_, eos_, unknown_;
  std::vector<TokenId> end_ids_;
  bool add_bos_ = false, add_eos_ = false, add_space_prefix_ = false;
};

inline Result<Vocabulary> Vocabulary::from(const gguf::Metadata& metadata) {
  Vocabulary vocabulary;
  COLI_TRY(model, metadata.get<std::string_view>(kModelKey));
  if (model == "llama") vocabulary.spelling_ = Spelling::sentencepiece;
  else if (model != "gpt2")
    return metadata.error_at(kModelKey, "tokenizer \"" + gguf::printable(model) +
                                            "\" is not supported; \"gpt2\" (byte-level BPE) and \"llama\" (SentencePiece BPE) are");
  COLI_CHECK(vocabulary.read_tokens(metadata));
  COLI_CHECK(vocabulary.read_types(metadata));
  COLI_CHECK(vocabulary.read_scores(metadata));
  COLI_CHECK(vocabulary.read_special_ids(metadata));
  COLI_CHECK(vocabulary.read_flags(metadata));
  return vocabulary;
}

inline Result<void> Vocabulary::read_tokens(const gguf::Metadata& metadata) {
  COLI_TRY(tokens, metadata.strings(kTokensKey));
  if (tokens->empty()) return metadata.error_at(kTokensKey, "holds no tokens");
  if (tokens->size() > kMaxTokens)
    return metadata.error_at(kTokensKey, std::to_string(tokens->size()) + " tokens; at most " + std::to_string(kMaxTokens) + " are supported");
  texts_ = *tokens;
  index_ = TextIndex(texts_.size());
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    text_bytes_ += texts_[i].size();
    if (index_.insert(texts_, static_cast<std::uint32_t>(i)) == Inserted::flooded)
      return metadata.error_at(kTokensKey, "token texts collide in the index (token " + std::to_string(i) + "): no real vocabulary does");
  }
  return {};
}

inline Result<void> Vocabulary::read_types(const gguf::Metadata& metadata) {
  types_.assign(texts_.size(), TokenType::normal);
  COLI_TRY(types, metadata.find_integers(kTypesKey));
  if (types) {
    if (types->size() != size())
      return metadata.error_at(kTypesKey, std::to_string(types->size()) + " types for " + std::to_string(size()) + " tokens");
    for (std::size_t i = 0; i < size(); ++i) {
      const std::int64_t t = (*types)[i];
      if (t < 1 || t > 6)
        return metadata.error_at(kTypesKey, "token " + std::to_string(i) + " has type " + std::to_string(t) + "; types are 1 to 6");
      types_[i] = static_cast<TokenType>(t);
    }
  }
  padding_.resize(size());
  for (std::size_t i = 0; i < size(); ++i) padding_[i] = types_[i] == TokenType::unused || names_padding(texts_[i], i);
  return {};
}

inline Result<void> Vocabulary::read_scores(const gguf::Metadata& metadata) {
  if (spelling_ != Spelling::sentencepiece) return {};
  COLI_TRY(scores, metadata.floats(kScoresKey));
  if (scores.size() != size())
    return metadata.error_at(kScoresKey, std::to_string(scores.size()) + " scores for " + std::to_string(size()) + " tokens");
  for (std::size_t i = 0; i < size(); ++i) {
    if (scores[i] != scores[i]) return metadata.error_at(kScoresKey, "the score of token " + std::to_string(i) + " is not a number");
  }
  scores_ = std::move(scores);
  return {};
}

inline Result<std::optional<TokenId>> Vocabulary::special_id(const gguf::Metadata& metadata, std::string_view key) const {
  COLI_TRY(id, metadata.find<std::int64_t>(key));
  if (!id) return std::optional<TokenId>{};
  if (*id < 0 || static_cast<std::uint64_t>(*id) >= size())
    return metadata.error_at(key, "token id " + std::to_string(*id) + " is out of range: the vocabulary has " + std::to_string(size()) + " tokens");
  return std::optional<TokenId>{TokenId{static_cast<std::int32_t>(*id)}};
}

inline Result<void> Vocabulary::read_special_ids(const gguf::Metadata& metadata) {
  COLI_TRY(bos, special_id(metadata, "tokenizer.ggml.bos_token_id"));
  COLI_TRY(eos, special_id(metadata, "tokenizer.ggml.eos_token_id"));
  COLI_TRY(eot, special_id(metadata, "tokenizer.ggml.eot_token_id"));
  COLI_TRY(eom, special_id(metadata, "tokenizer.ggml.eom_token_id"));
  COLI_TRY(unknown, special_id(metadata, "tokenizer.ggml.unknown_token_id"));
  COLI_CHECK(special_id(metadata, "tokenizer.ggml.padding_token_id"));
  bos_ = bos;
  eos_ = eos;
  unknown_ = unknown;
  for (const auto& id : {eos, eot, eom}) {
    if (id) end_ids_.push_back(*id);
  }
  for (const std::string_view name : kEndNames) {
    const auto id = find(name);
    if (id && (type(*id) == TokenType::control || type(*id) == TokenType::user_defined)) end_ids_.push_back(*id);
  }
  std::ranges::sort(end_ids_);
  end_ids_.erase(std::unique(end_ids_.begin(), end_ids_.end()), end_ids_.end());
  return {};
}

inline Result<void> Vocabulary::read_flags(const gguf::Metadata& metadata) {
  const bool sentencepiece = spelling_ == Spelling::sentencepiece;
  COLI_TRY(pre, metadata.find<std::string_view>("tokenizer.ggml.pre"));
  const bool llama3 = !sentencepiece && pre && (*pre == "llama-bpe" || *pre == "llama3" || *pre == "llama-v3");
  COLI_TRY(add_bos, metadata.get_or<bool>("tokenizer.ggml.add_bos_token", (sentencepiece || llama3) && bos_.has_value()));
  COLI_TRY(add_eos, metadata.get_or<bool>("tokenizer.ggml.add_eos_token", false));
  COLI_TRY(add_space_prefix, metadata.get_or<bool>("tokenizer.ggml.add_space_prefix", sentencepiece));
  if (add_bos && !bos_)
    return metadata.error_at("tokenizer.ggml.add_bos_token", "is true, but tokenizer.ggml.bos_token_id is missing");
  add_bos_ = add_bos;
  add_eos_ = add_eos;
  add_space_prefix_ = add_space_prefix;
  return {};
}

inline std::string Vocabulary::piece(TokenId id) const {
  const std::string spelled(text(id));
  const TokenType t = type(id);
  if (t == TokenType::control || t == TokenType::unknown) return spelled;
  if (spelling_ == Spelling::byte_level) {
    // Added tokens are written as they are, not in the alphabet.
    if (t == TokenType::user_defined) return spelled;
    return byte_alphabet::bytes_of(spelled).value_or(spelled);
  }
  if (t == TokenType::byte) {
    unsigned value = 0;
    const bool hex = spelled.size() == 6 && spelled.starts_with("<0x") && spelled.back() == '>' &&
                     std::from_chars(spelled.data() + 3, spelled.data() + 5, value, 16).ptr == spelled.data() + 5;
    return hex ? std::string(1, static_cast<char>(static_cast<unsigned char>(value))) : spelled;
  }
  std::string bytes;
  constexpr std::string_view kSpace = "\u2581";
  for (std::size_t at = 0; at < spelled.size();) {
    const std::size_t next = std::min(spelled.find(kSpace, at), spelled.size());
    bytes.append(spelled, at, next - at);
    if (next < spelled.size()) bytes.push_back(' ');
    at = std::min(next + kSpace.size(), spelled.size());
  }
  return bytes;
}

}  // namespace coli
