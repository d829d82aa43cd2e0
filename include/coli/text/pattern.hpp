// SPDX-License-Identifier: Apache-2.0
// Where does a regular expression match? PCRE2 over UTF-8, compiled once, JIT where the system allows it.
//
// The compiled pattern is read-only and shared by threads; each thread brings its own PatternScratch. Only the
// library's own patterns come here: all are linear for every text, so match limits are off.
#pragma once

#ifndef PCRE2_CODE_UNIT_WIDTH
#define PCRE2_CODE_UNIT_WIDTH 8
#endif
#include <pcre2.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "coli/core/error.hpp"

namespace coli {

class PatternScratch {
 public:
  PatternScratch() : data_(pcre2_match_data_create_8(1, nullptr)), context_(pcre2_match_context_create_8(nullptr)) {
    if (!context_) return;
    pcre2_set_match_limit_8(context_.get(), UINT32_MAX);
    pcre2_set_depth_limit_8(context_.get(), UINT32_MAX);
  }

 private:
  friend class Pattern;
  struct Free {
    void operator()(pcre2_match_data_8* data) const { pcre2_match_data_free_8(data); }
    void operator()(pcre2_match_context_8* context) const { pcre2_match_context_free_8(context); }
  };
  std::unique_ptr<pcre2_match_data_8, Free> data_;
  std::unique_ptr<pcre2_match_context_8, Free> context_;
};

class Pattern {
 public:
  struct Range {
    std::size_t begin, end;
  };

  /// Errors: internal, for an expression that PCRE2 doesn't take: they are all our own.
  static Result<Pattern> compile(std::string_view expression) {
    int code = 0;
    PCRE2_SIZE at = 0;
    Pattern pattern;
    pattern.code_.reset(pcre2_compile_8(reinterpret_cast<PCRE2_SPTR8>(expression.data()), expression.size(), PCRE2_UTF | PCRE2_UCP,
                                        &code, &at, nullptr));
    if (!pattern.code_)
      return Error{Errc::internal, "the pre-tokeniser's expression does not compile at " + std::to_string(at) + ": " + message(code)};
    // Refused on systems without executable memory; then the interpreter gives the same matches, slower.
    (void)pcre2_jit_compile_8(pattern.code_.get(), PCRE2_JIT_COMPLETE);
    return pattern;
  }

  /// The first match at or after `from`, if there is one. `text` must be valid UTF-8 and `from` a character's start.
  Result<std::optional<Range>> find(std::string_view text, std::size_t from, PatternScratch& scratch) const {
    if (!scratch.data_ || !scratch.context_) return Error{Errc::over_budget, "no memory for the pre-tokeniser's match data"};
    const auto match = [&](std::uint32_t options) {
      return pcre2_match_8(code_.get(), reinterpret_cast<PCRE2_SPTR8>(text.data()), text.size(), from,
                           PCRE2_NO_UTF_CHECK | options, scratch.data_.get(), scratch.context_.get());
    };
    int code = match(0);
    if (code == PCRE2_ERROR_JIT_STACKLIMIT) code = match(PCRE2_NO_JIT);
    if (code == PCRE2_ERROR_NOMATCH) return std::optional<Range>{};
    if (code < 0) return Error{Errc::internal, "the pre-tokeniser's expression failed at byte " + std::to_string(from) + ": " + message(code)};
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer_8(scratch.data_.get());
    return std::optional<Range>{Range{ends[0], ends[1]}};
  }

 private:
  struct Free {
    void operator()(pcre2_code_8* code) const { pcre2_code_free_8(code); }
  };
  static std::string message(int code) {
    unsigned char text[160] = "";
    (void)pcre2_get_error_message_8(code, text, sizeof text);
    return reinterpret_cast<const char*>(text);
  }
  std::unique_ptr<pcre2_code_8, Free> code_;
};

}  // namespace coli
