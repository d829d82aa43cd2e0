// SPDX-License-Identifier: Apache-2.0
// Which tokens does a text become in a SentencePiece BPE vocabulary (Llama 2, Mistral, Phi-3)?
//
// A space is U+2581, and the text gets one in front where the model was trained so. Neighbouring pieces merge into the
// token of the best score, among equals the leftmost; what is no token in the end is spelled in bytes. Bytes that are no
// UTF-8 are spelled in bytes, too. The scores become ranks of pairs, so that the merging is the same as byte-level BPE's.
// Immutable after `from`; encode() is safe from many threads.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coli/core/error.hpp"
#include "coli/core/ids.hpp"
#include "coli/gguf/metadata.hpp"
#include "coli/text/merge_loop.hpp"
#include "coli/text/pair_map.hpp"
#include "coli/text/utf8.hpp"
#include "coli/text/vocabulary.hpp"

namespace coli {

class SentencePieceBpe {
 public:
  static constexpr std::size_t kLongestToken = 1024;                  // bytes; bounds the work of finding a token's parts
  static constexpr std::size_t kLongestWord = std::size_t{64} << 20;  // bytes; bounds the scratch of one merge

  /// Errors: bad_input naming the key, for options that change the text in ways not supported here, or absurd tokens.
  static Result<SentencePieceBpe> from(const gguf::Metadata& metadata, const Vocabulary& vocabulary);

  struct Scratch {
    MergeLoop loop;
    std::vector<std::uint32_t> symbols;
    std::string spelled;
  };

  /// Appends the tokens of `text`, which holds no added tokens; `at_start` says that nothing stands before it.
  /// Errors: usage, for a word of more than kLongestWord bytes; bad_input, for a character that can't be spelled.
  Result<void> encode(std::string_view text, bool at_start, const Vocabulary& vocabulary, Scratch& scratch,
                      std::vector<TokenId>& ids) const;

  std::size_t held_bytes() const noexcept { return merges_.bytes() + characters_.bytes() + sizeof byte_tokens_; }

 private:
  static constexpr std::string_view kSpace = "\u2581";
  static constexpr std::uint32_t kNoToken = Merge::kNever;
  static constexpr std::uint32_t kStranger = Merge::kNever - 1;  // a character that no token holds, or a bad byte

  struct Split {
    std::uint32_t left, right;
    Merge into;
  };

  static bool is_piece(const Vocabulary& vocabulary, TokenId id) { return vocabulary.type(id) == TokenType::normal; }
  static Result<void> refuse_other_normalisers(const gguf::Metadata& metadata);
  static std::vector<std::uint32_t> rank_by_score(const Vocabulary& vocabulary);
  Result<void> name_characters(const gguf::Metadata& metadata, const Vocabulary& vocabulary);
  Result<void> find_splits(const gguf::Metadata& metadata, const Vocabulary& vocabulary);
  std::uint32_t symbol_of(std::string_view piece, const Vocabulary& vocabulary) const;
  Result<void> encode_word(std::string_view word, const Vocabulary& vocabulary, Scratch& scratch, std::vector<TokenId>& ids) const;
  Result<void> spell(std::string_view bytes, const Vocabulary& vocabulary, bool after_unknown, std::vector<TokenId>& ids) const;

  std::array<std::uint32_t, 256> byte_tokens_{};
  bool has_bytes_ = false;
  bool words_end_at_spaces_ = true;  // no token has a space after another character, so no merge crosses one
  std::uint32_t n_tokens_ = 0;
  PairMap characters_;  // (code point, 0) -> symbols past the tokens: characters that are only parts of tokens
  PairMap merges_;
};

inline Result<void> SentencePieceBpe::refuse_other_normalisers(const gguf::Metadata& metadata) {
  constexpr std::string_view kWhitespaceKey = "tokenizer.ggml.remove_extra_whitespaces";
  COLI_TRY(removes, metadata.get_or<bool>(kWhitespaceKey, false));
  if (removes) return metadata.error_at(kWhitespaceKey, "is true; only tokenizers that keep white space are supported");
  constexpr std::string_view kCharsmapKey = "tokenizer.ggml.precompiled_charsmap";
  if (metadata.contains(kCharsmapKey))
    return metadata.error_at(kCharsmapKey, "tokenizers with a character map are not supported; those that take text as it is are");
  return {};
}

inline Result<SentencePieceBpe> SentencePieceBpe::from(const gguf::Metadata& metadata, const Vocabulary& vocabulary) {
  COLI_CHECK(refuse_other_normalisers(metadata));
  SentencePieceBpe bpe;
  bpe.n_tokens_ = static_cast<std::uint32_t>(vocabulary.size());
  bpe.has_bytes_ = true;
  for (unsigned byte = 0; byte < 256; ++byte) {
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    const std::string text{'<', '0', 'x', kDigits[byte >> 4], kDigits[byte & 15], '>'};
    const auto id = vocabulary.find(text);
    bpe.byte_tokens_[byte] = id ? static_cast<std::uint32_t>(id->value) : kNoToken;
    bpe.has_bytes_ = bpe.has_bytes_ && id.has_value();
  }
  COLI_CHECK(bpe.name_characters(metadata, vocabulary));
  COLI_CHECK(bpe.find_splits(metadata, vocabulary));
  return bpe;
}

/// [token]: how many distinct scores are better than its own.
inline std::vector<std::uint32_t> SentencePieceBpe::rank_by_score(const Vocabulary& vocabulary) {
  const auto scores = vocabulary.scores();
  std::vector<std::uint32_t> order(scores.size()), ranks(scores.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::sort(order, [&](std::uint32_t a, std::uint32_t b) { return scores[a] > scores[b]; });
  std::uint32_t rank = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && scores[order[i]] != scores[order[i - 1]]) ++rank;
    ranks[order[i]] = rank;
  }
  return ranks;
}

/// Gives a symbol to each character that stands in a token without being one: it can still merge.
inline Result<void> SentencePieceBpe::name_characters(const gguf::Metadata& metadata, const Vocabulary& vocabulary) {
  std::vector<std::uint32_t> found;
  for (std::uint32_t i = 0; i < n_tokens_; ++i) {
    const TokenId id{static_cast<std::int32_t>(i)};
    if (!is_piece(vocabulary, id)) continue;
    for (std::string_view rest = vocabulary.text(id); !rest.empty();) {
      const utf8::Step next = utf8::step(rest);
      const std::string_view character = rest.substr(0, next.n_bytes);
      if (next.kind == utf8::Kind::character && symbol_of(character, vocabulary) == kStranger) found.push_back(next.code_point);
      rest.remove_prefix(next.n_bytes);
    }
  }
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  characters_ = PairMap(found.size());
  for (std::uint32_t i = 0; i < found.size(); ++i) {
    if (characters_.insert(found[i], 0, {0, n_tokens_ + i}) == Inserted::flooded)
      return metadata.error_at(Vocabulary::kTokensKey, "its characters collide in their index: no real vocabulary's do");
  }
  return {};
}

/// The symbol of a token's text or of a character; kStranger if it has none.
inline std::uint32_t SentencePieceBpe::symbol_of(std::string_view piece, const Vocabulary& vocabulary) const {
  const auto id = vocabulary.find(piece);
  if (id && is_piece(vocabulary, *id)) return static_cast<std::uint32_t>(id->value);
  const utf8::Step first = utf8::step(piece);
  if (first.kind != utf8::Kind::character || first.n_bytes != piece.size()) return kStranger;
  const Merge known = characters_.find(first.code_point, 0);
  return known ? known.id : kStranger;
}

inline Result<void> SentencePieceBpe::find_splits(const gguf::Metadata& metadata, const Vocabulary& vocabulary) {
  const std::vector<std::uint32_t> ranks = rank_by_score(vocabulary);
  std::vector<Split> splits;
  for (std::uint32_t i = 0; i < n_tokens_; ++i) {
    const TokenId id{static_cast<std::int32_t>(i)};
    const std::string_view text = vocabulary.text(id);
    if (!is_piece(vocabulary, id) || vocabulary.find(text) != id || utf8::valid_prefix(text) != text.size()) continue;
    if (text.size() > kLongestToken)
      return metadata.error_at(Vocabulary::kTokensKey, "token " + std::to_string(i) + " is " + std::to_string(text.size()) +
                                                           " bytes long; at most " + std::to_string(kLongestToken) + " are supported");
    const std::size_t first_other = text.starts_with(kSpace) ? text.find_first_not_of(kSpace) : 0;
    if (first_other != std::string_view::npos && text.find(kSpace, first_other) != std::string_view::npos) words_end_at_spaces_ = false;
    for (std::size_t at = text.empty() ? 0 : utf8::step(text).n_bytes; at < text.size(); at += utf8::step(text.substr(at)).n_bytes) {
      const std::uint32_t left = symbol_of(text.substr(0, at), vocabulary);
      const std::uint32_t right = left == kStranger ? kStranger : symbol_of(text.substr(at), vocabulary);
      if (right != kStranger) splits.push_back({left, right, {ranks[i], i}});
    }
  }
  merges_ = PairMap(splits.size());
  for (const Split& split : splits) {
    if (merges_.insert(split.left, split.right, split.into) == Inserted::flooded)
      return metadata.error_at(Vocabulary::kTokensKey, "tokens collide in the index of merges: no real vocabulary's do");
  }
  return {};
}

inline Result<void> SentencePieceBpe::encode(std::string_view text, bool at_start, const Vocabulary& vocabulary, Scratch& scratch,
                                             std::vector<TokenId>& ids) const {
  std::string& spelled = scratch.spelled;
  spelled.clear();
  if (at_start && vocabulary.add_space_prefix() && !text.empty()) spelled += kSpace;
  for (const char c : text) {
    if (c == ' ') spelled += kSpace;
    else spelled.push_back(c);
  }
  for (std::string_view rest = spelled; !rest.empty();) {
    std::size_t end = rest.size();
    if (words_end_at_spaces_) {
      std::size_t begin = 0;
      while (rest.substr(begin).starts_with(kSpace)) begin += kSpace.size();
      end = std::min(rest.find(kSpace, begin), rest.size());
    }
    COLI_CHECK(encode_word(rest.substr(0, end), vocabulary, scratch, ids));
    rest.remove_prefix(end);
  }
  return {};
}

inline Result<void> SentencePieceBpe::encode_word(std::string_view word, const Vocabulary& vocabulary, Scratch& scratch,
                                                  std::vector<TokenId>& ids) const {
  if (word.size() > kLongestWord)
    return Error{Errc::usage, "one word of the text is " + std::to_string(word.size()) + " bytes long; at most " +
                                  std::to_string(kLongestWord) + " can be tokenised"};
  scratch.symbols.clear();
  for (std::string_view rest = word; !rest.empty();) {
    const utf8::Step next = utf8::step(rest);
    const bool good = next.kind == utf8::Kind::character;
    scratch.symbols.push_back(good ? symbol_of(rest.substr(0, next.n_bytes), vocabulary) : kStranger);
    rest.remove_prefix(good ? next.n_bytes : 1u);
  }
  scratch.loop.merge(scratch.symbols, merges_);
  bool after_unknown = false;
  for (const std::uint32_t symbol : scratch.symbols) {
    if (symbol < n_tokens_) {
      const TokenId id{static_cast<std::int32_t>(symbol)};
      ids.push_back(id);
      word.remove_prefix(vocabulary.text(id).size());
      after_unknown = false;
      continue;
    }
    const utf8::Step next = utf8::step(word);
    const std::size_t n_bytes = next.kind == utf8::Kind::character ? next.n_bytes : 1;
    COLI_CHECK(spell(word.substr(0, n_bytes), vocabulary, after_unknown, ids));
    word.remove_prefix(n_bytes);
    after_unknown = true;
  }
  return {};
}

/// In byte tokens; where the vocabulary has none, as one unknown token for all that is unknown in a row.
inline Result<void> SentencePieceBpe::spell(std::string_view bytes, const Vocabulary& vocabulary, bool after_unknown,
                                            std::vector<TokenId>& ids) const {
  if (has_bytes_) {
    for (const char c : bytes) ids.push_back(TokenId{static_cast<std::int32_t>(byte_tokens_[static_cast<unsigned char>(c)])});
    return {};
  }
  if (!vocabulary.unknown())
    return Error{Errc::bad_input, "the vocabulary has neither a token for " + gguf::quoted(bytes) + " nor byte tokens nor an unknown token",
                 std::string(Vocabulary::kTokensKey)};
  if (!after_unknown) ids.push_back(*vocabulary.unknown());
  return {};
}

}  // namespace coli
