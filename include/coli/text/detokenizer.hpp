// SPDX-License-Identifier: Apache-2.0
// How do token ids become text again, while they arrive? Whole characters only, each as soon as its last byte is there.
//
// A character may be spread over several tokens, so bytes that could still become one are held back (three at most).
// Bytes that can't are replaced by U+FFFD at once, one for each maximal part, as Python's errors="replace" does.
// Whatever is pushed, the chunks together equal decode() of the ids. One Detokenizer serves one stream.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "coli/core/ids.hpp"
#include "coli/text/utf8.hpp"
#include "coli/text/vocabulary.hpp"

namespace coli {

struct DecodeOptions {
  bool render_special = false;       // control and unknown tokens appear by name
  /// sentencepiece: the space that the tokenizer put in front is taken off again. Off for text that continues other text.
  bool strip_space_prefix = true;
};

class Detokenizer {
 public:
  /// `vocabulary` must outlive it.
  explicit Detokenizer(const Vocabulary& vocabulary, DecodeOptions options = {})
      : vocabulary_(&vocabulary),
        options_(options),
        at_start_(vocabulary.add_space_prefix() && options.strip_space_prefix) {}

  /// The text that became certain with this token: valid UTF-8, often empty. Ids without a token add nothing.
  std::string push(TokenId id) {
    const bool special = vocabulary_->is_special(id), hidden = special && !options_.render_special;
    const bool was_at_start = std::exchange(at_start_, at_start_ && hidden && id == vocabulary_->bos());
    if (hidden) return {};
    std::string piece = vocabulary_->piece(id);
    if (was_at_start && !special && piece.starts_with(' ')) piece.erase(0, 1);
    held_ += piece;
    return take_certain();
  }

  /// The text of what is still held: a character that was never finished. The stream may go on afterwards.
  std::string flush() {
    std::string rest(held_.empty() ? std::string_view{} : utf8::kReplacement);
    held_.clear();
    return rest;
  }

  /// Bytes held back at the moment.
  std::string_view held() const noexcept { return held_; }

 private:
  std::string take_certain() {
    std::string text;
    std::string_view rest = held_;
    while (!rest.empty()) {
      const utf8::Step next = utf8::step(rest);
      if (next.kind == utf8::Kind::incomplete) break;
      text += next.kind == utf8::Kind::character ? rest.substr(0, next.n_bytes) : utf8::kReplacement;
      rest.remove_prefix(next.n_bytes);
    }
    held_.erase(0, held_.size() - rest.size());
    return text;
  }

  const Vocabulary* vocabulary_;
  DecodeOptions options_;
  bool at_start_;  // nothing came yet but a BOS that was not shown
  std::string held_;
};

/// The whole text of `ids`, valid UTF-8.
inline std::string decode(const Vocabulary& vocabulary, std::span<const TokenId> ids, DecodeOptions options = {}) {
  Detokenizer stream(vocabulary, options);
  std::string text;
  for (const TokenId id : ids) text += stream.push(id);
  return text + stream.flush();
}

}  // namespace coli
