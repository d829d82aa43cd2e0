// SPDX-License-Identifier: Apache-2.0
// Which tokens does a text become in a byte-level BPE vocabulary (GPT-2, Llama 3, Qwen, StarCoder, DeepSeek)?
//
// Valid UTF-8 is normalised (where the model's tokenizer asks for it), split into words and merged, as Hugging Face does.
// Bytes that are no UTF-8 never fail and are never altered: each maximal stretch of them is one word of bytes.
// Immutable after `from`; encode() is safe from many threads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coli/core/error.hpp"
#include "coli/core/ids.hpp"
#include "coli/gguf/metadata.hpp"
#include "coli/text/byte_alphabet.hpp"
#include "coli/text/merge_loop.hpp"
#include "coli/text/nfc.hpp"
#include "coli/text/pair_map.hpp"
#include "coli/text/pretokenizer.hpp"
#include "coli/text/utf8.hpp"
#include "coli/text/vocabulary.hpp"

namespace coli {

class ByteLevelBpe {
 public:
  static constexpr std::string_view kPreKey = "tokenizer.ggml.pre";
  static constexpr std::string_view kMergesKey = "tokenizer.ggml.merges";
  static constexpr std::size_t kLongestWord = std::size_t{64} << 20;  // bytes; bounds the scratch of one merge

  /// Errors: bad_input naming the key, for an unsupported splitting rule or malformed merges.
  static Result<ByteLevelBpe> from(const gguf::Metadata& metadata, const Vocabulary& vocabulary);

  /// What one call of encode needs; reusable by the same thread.
  struct Scratch {
    PatternScratch pattern;
    NfcNormalizer nfc;
    MergeLoop loop;
    std::vector<std::uint32_t> symbols;
  };

  /// Appends the tokens of `text`, which holds no added tokens. Errors: usage, for a word of more than kLongestWord
  /// bytes; bad_input, for a byte that the vocabulary has no token for.
  Result<void> encode(std::string_view text, const Vocabulary& vocabulary, Scratch& scratch, std::vector<TokenId>& ids) const;

  std::size_t held_bytes() const noexcept { return merges_.bytes() + sizeof byte_tokens_; }

 private:
  static constexpr std::uint32_t kNoToken = Merge::kNever;

  static Result<const PretokenizerRule*> rule_for(const gguf::Metadata& metadata);
  Result<void> read_merges(const gguf::Metadata& metadata, const Vocabulary& vocabulary);
  Result<void> encode_valid(std::string_view text, const Vocabulary& vocabulary, Scratch& scratch, std::vector<TokenId>& ids) const;
  Result<void> encode_word(std::string_view word, const Vocabulary& vocabulary, Scratch& scratch, std::vector<TokenId>& ids) const;

  const PretokenizerRule* rule_ = nullptr;  // static
  Pretokenizer pretokenizer_;
  std::array<std::uint32_t, 256> byte_tokens_{};
  PairMap merges_;
};

inline Result<const PretokenizerRule*> ByteLevelBpe::rule_for(const gguf::Metadata& metadata) {
  std::string supported;
  COLI_TRY(name, metadata.find<std::string_view>(kPreKey));
  for (const PretokenizerRule& rule : pretokenizer_rules::kAll) {
    for (const std::string_view known : rule.names) {
      if (name == known) return &rule;
      supported += (supported.empty() ? "" : ", ") + std::string(known);
    }
  }
  // A near miss tokenises almost everything right and quietly makes the model worse, so nothing stands in for a rule.
  return metadata.error_at(kPreKey, (name ? "splitting rule " + gguf::quoted(*name) + " is not supported" : std::string("is missing, so the splitting rule is unknown")) +
                                        "; supported are " + supported);
}

inline Result<ByteLevelBpe> ByteLevelBpe::from(const gguf::Metadata& metadata, const Vocabulary& vocabulary) {
  ByteLevelBpe bpe;
  COLI_TRY(rule, rule_for(metadata));
  COLI_TRY(pretokenizer, Pretokenizer::from(*rule));
  bpe.rule_ = rule;
  bpe.pretokenizer_ = std::move(pretokenizer);
  for (unsigned byte = 0; byte < 256; ++byte) {
    const auto id = vocabulary.find(byte_alphabet::text_of(static_cast<unsigned char>(byte)));
    bpe.byte_tokens_[byte] = id ? static_cast<std::uint32_t>(id->value) : kNoToken;
  }
  COLI_CHECK(bpe.read_merges(metadata, vocabulary));
  return bpe;
}

inline Result<void> ByteLevelBpe::read_merges(const gguf::Metadata& metadata, const Vocabulary& vocabulary) {
  COLI_TRY(merges, metadata.strings(kMergesKey));
  if (merges->empty()) return metadata.error_at(kMergesKey, "holds no merges");
  merges_ = PairMap(merges->size());
  std::string whole;
  for (std::size_t i = 0; i < merges->size(); ++i) {
    const std::string_view merge = (*merges)[i];
    const auto bad = [&](const std::string& why) {
      return metadata.error_at(kMergesKey, "merge " + std::to_string(i) + " " + gguf::quoted(merge) + " " + why);
    };
    const std::size_t space = merge.find(' ');
    if (space == 0 || space >= merge.size() - 1 || merge.find(' ', space + 1) != std::string_view::npos)
      return bad("is not two token texts with one space between them");
    const std::string_view left = merge.substr(0, space), right = merge.substr(space + 1);
    whole.assign(left).append(right);
    const auto left_id = vocabulary.find(left), right_id = vocabulary.find(right), whole_id = vocabulary.find(whole);
    if (!left_id || !right_id || !whole_id)
      return bad("needs " + gguf::quoted(!left_id ? left : !right_id ? right : whole) + ", which is no token");
    const auto number = [](TokenId id) { return static_cast<std::uint32_t>(id.value); };
    if (merges_.insert(number(*left_id), number(*right_id), {static_cast<std::uint32_t>(i), number(*whole_id)}) == Inserted::flooded)
      return bad("collides with too many others in the index: no real vocabulary does that");
  }
  return {};
}

inline Result<void> ByteLevelBpe::encode(std::string_view text, const Vocabulary& vocabulary, Scratch& scratch,
                                         std::vector<TokenId>& ids) const {
  while (!text.empty()) {
    const std::size_t valid = utf8::valid_prefix(text);
    if (valid > 0) COLI_CHECK(encode_valid(text.substr(0, valid), vocabulary, scratch, ids));
    text.remove_prefix(valid);
    std::size_t invalid = 0;
    while (invalid < text.size()) {
      const utf8::Step next = utf8::step(text.substr(invalid));
      if (next.kind == utf8::Kind::character) break;
      invalid += next.n_bytes;
    }
    if (invalid > 0) COLI_CHECK(encode_word(text.substr(0, invalid), vocabulary, scratch, ids));
    text.remove_prefix(invalid);
  }
  return {};
}

inline Result<void> ByteLevelBpe::encode_valid(std::string_view text, const Vocabulary& vocabulary, Scratch& scratch,
                                               std::vector<TokenId>& ids) const {
  if (rule_->nfc) {
    COLI_TRY(normal, scratch.nfc.normalize(text));
    text = normal;
  }
  Result<void> words;
  COLI_CHECK(pretokenizer_.split(text, scratch.pattern, [&](std::string_view word) {
    if (words) words = encode_word(word, vocabulary, scratch, ids);
  }));
  return words;
}

inline Result<void> ByteLevelBpe::encode_word(std::string_view word, const Vocabulary& vocabulary, Scratch& scratch,
                                              std::vector<TokenId>& ids) const {
  if (word.size() > kLongestWord)
    return Error{Errc::usage, "one word of the text is " + std::to_string(word.size()) + " bytes long; at most " +
                                  std::to_string(kLongestWord) + " can be tokenised"};
  if (rule_->whole_words_first && word.size() > 1) {
    std::string spelled;
    for (const char c : word) utf8::append(spelled, byte_alphabet::kCharacterOf[static_cast<unsigned char>(c)]);
    if (const auto id = vocabulary.find(spelled)) {
      ids.push_back(*id);
      return {};
    }
  }
  scratch.symbols.clear();
  for (const char c : word) {
    const auto byte = static_cast<unsigned char>(c);
    const std::uint32_t token = byte_tokens_[byte] != kNoToken || !vocabulary.unknown()
                                    ? byte_tokens_[byte]
                                    : static_cast<std::uint32_t>(vocabulary.unknown()->value);
    if (token == kNoToken)
      return Error{Errc::bad_input, "the vocabulary has no token for byte " + std::to_string(byte) + " and no unknown token",
                   std::string(Vocabulary::kTokensKey)};
    scratch.symbols.push_back(token);
  }
  scratch.loop.merge(scratch.symbols, merges_);
  for (const std::uint32_t symbol : scratch.symbols) ids.push_back(TokenId{static_cast<std::int32_t>(symbol)});
  return {};
}

}  // namespace coli
