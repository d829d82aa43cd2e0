// SPDX-License-Identifier: Apache-2.0
// Where are the words that byte-pair merges may not cross? The published splitting rule of each supported tokenizer.
//
// A rule is a sequence of expressions. Each splits every piece that the one before left, alone: its anchors and
// look-aheads see the piece's ends as the ends of the text. Matches and the gaps between them are pieces alike.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coli/core/error.hpp"
#include "coli/text/pattern.hpp"
#include "coli/text/unicode_classes.hpp"

namespace coli {

/// A splitting rule with what else its tokenizers share, by their names in `tokenizer.ggml.pre`.
struct PretokenizerRule {
  std::span<const std::string_view> names;
  std::span<const std::string_view> stages;
  bool nfc = false;                      // text is normalised first
  bool whole_words_first = false;        // a word that is a token is that token, whatever the merges would make of it
};

namespace pretokenizer_rules {

// In the expressions, <L>, <N>, <S>, ... stand for letters, numbers, white space, ... (unicode_classes.hpp).
// \p{L} and friends are not used as such because their extent varies with the library's Unicode version.

#define COLI_SUFFIXES_GPT2 "'s|'t|'re|'ve|'m|'ll|'d"
#define COLI_TAIL_MODERN " ?[^<S><L><N>]+[\\r\\n]*|[<S>]*[\\r\\n]+|[<S>]+(?![^<S>])|[<S>]+"
#define COLI_GPT2 COLI_SUFFIXES_GPT2 "| ?[<L>]+| ?[<N>]+| ?[^<S><L><N>]+|[<S>]+(?![^<S>])|[<S>]+"

inline constexpr std::array<std::string_view, 1> kQwen2{
    "(?i:" COLI_SUFFIXES_GPT2 ")|[^\\r\\n<L><N>]?[<L>]+|[<N>]|" COLI_TAIL_MODERN};
inline constexpr std::array<std::string_view, 1> kLlamaBpe{
    "(?i:" COLI_SUFFIXES_GPT2 ")|[^\\r\\n<L><N>]?[<L>]+|[<N>]{1,3}|" COLI_TAIL_MODERN};
inline constexpr std::array<std::string_view, 1> kGpt2{COLI_GPT2};
inline constexpr std::array<std::string_view, 2> kStarcoder{"[<DIGIT>]", COLI_GPT2};
// <CASED> are letters with case, a list that its tokenizer.json spells out.
inline constexpr std::array<std::string_view, 6> kDeepseekLlm{
    "[\\r\\n]",
    "[<S>]?[<CASED>]+",
    "[<S>]?[!-\\/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}]+",
    "[<S>]+\\z",
    "[\\x{4E00}-\\x{9FA5}\\x{0800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+",
    "[<N>]"};

#undef COLI_SUFFIXES_GPT2
#undef COLI_TAIL_MODERN
#undef COLI_GPT2

inline constexpr std::array<std::string_view, 1> kQwen2Names{"qwen2"};
inline constexpr std::array<std::string_view, 3> kLlamaBpeNames{"llama-bpe", "llama3", "llama-v3"};
inline constexpr std::array<std::string_view, 1> kGpt2Names{"gpt-2"};
inline constexpr std::array<std::string_view, 3> kStarcoderNames{"starcoder", "smollm", "refact"};
inline constexpr std::array<std::string_view, 1> kDeepseekLlmNames{"deepseek-llm"};

inline constexpr std::array<PretokenizerRule, 5> kAll{{
    {kQwen2Names, kQwen2, true, false},
    {kLlamaBpeNames, kLlamaBpe, false, true},
    {kGpt2Names, kGpt2, false, false},
    {kStarcoderNames, kStarcoder, false, false},
    {kDeepseekLlmNames, kDeepseekLlm, false, false},
}};

}  // namespace pretokenizer_rules

/// A rule, compiled. Immutable.
class Pretokenizer {
 public:
  static Result<Pretokenizer> from(const PretokenizerRule& rule) {
    Pretokenizer made;
    for (const std::string_view stage : rule.stages) {
      COLI_TRY(pattern, Pattern::compile(unicode_classes::expand(stage)));
      made.stages_.push_back(std::move(pattern));
    }
    return made;
  }

  /// Calls `on_word(std::string_view)` for each word of `text` (valid UTF-8) in order; together they are the text.
  template <class OnWord>
  Result<void> split(std::string_view text, PatternScratch& scratch, const OnWord& on_word) const {
    return split_from(0, text, scratch, on_word);
  }

 private:
  template <class OnWord>
  Result<void> split_from(std::size_t stage, std::string_view piece, PatternScratch& scratch, const OnWord& on_word) const {
    if (stage == stages_.size()) {
      on_word(piece);
      return {};
    }
    for (std::size_t at = 0; at < piece.size();) {
      COLI_TRY(match, stages_[stage].find(piece, at, scratch));
      const Pattern::Range range = match.value_or(Pattern::Range{piece.size(), piece.size()});
      if (range.begin > at) COLI_CHECK(split_from(stage + 1, piece.substr(at, range.begin - at), scratch, on_word));
      if (range.end > range.begin)
        COLI_CHECK(split_from(stage + 1, piece.substr(range.begin, range.end - range.begin), scratch, on_word));
      at = range.end;
    }
    return {};
  }
  std::vector<Pattern> stages_;
};

}  // namespace coli
