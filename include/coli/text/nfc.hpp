// SPDX-License-Identifier: Apache-2.0
// What is this text in Unicode's normalization form C? Linear in the text, whatever marks are piled on a letter.
//
// utf8proc gives decompositions, combining classes and compositions. Its own sorting of combining marks is quadratic in
// a run of marks, so the sorting is done here.
#pragma once

#include <utf8proc.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "coli/core/error.hpp"
#include "coli/text/utf8.hpp"

namespace coli {

/// Normalises one text after another; one per thread. Holds 8 bytes a character of the longest non-ASCII stretch.
class NfcNormalizer {
 public:
  /// `text` (valid UTF-8) in form C: a view of `text` itself, or of this object until the next call.
  /// Errors: internal, from the Unicode library.
  Result<std::string_view> normalize(std::string_view text) {
    if (is_surely_normal(text)) return text;
    normal_.clear();
    normal_.reserve(text.size());
    // An ASCII character composes with nothing before it, so text may be cut in front of any.
    for (std::size_t at = 0; at < text.size();) {
      std::size_t plain = at;
      while (plain < text.size() && is_ascii(text[plain])) ++plain;
      std::size_t end = plain;
      while (end < text.size() && !is_ascii(text[end])) ++end;
      if (end == plain) plain = end;
      else if (plain > at) --plain;  // its last ASCII character may take the marks that follow
      normal_.append(text, at, plain - at);
      if (end > plain) COLI_CHECK(append_normal(text.substr(plain, end - plain)));
      at = end;
    }
    return std::string_view(normal_);
  }

 private:
  static bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

  /// Below U+0300 every text is in form C.
  static bool is_surely_normal(std::string_view text) {
    return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0xCC; });
  }

  Result<void> append_normal(std::string_view stretch) {
    if (is_surely_normal(stretch)) {
      normal_.append(stretch);
      return {};
    }
    points_.clear();
    while (!stretch.empty()) {
      const utf8::Step next = utf8::step(stretch);
      constexpr std::size_t kLongest = 8;  // canonical decompositions have at most 4 code points
      utf8proc_int32_t parts[kLongest];
      int last_boundary = 0;
      const utf8proc_ssize_t n = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(next.code_point), parts, kLongest,
                                                         static_cast<utf8proc_option_t>(UTF8PROC_STABLE), &last_boundary);
      if (n < 0 || n > static_cast<utf8proc_ssize_t>(kLongest)) return Error{Errc::internal, "Unicode decomposition failed"};
      points_.insert(points_.end(), parts, parts + n);
      stretch.remove_prefix(next.n_bytes);
    }
    sort_marks();
    const utf8proc_ssize_t n =
        utf8proc_normalize_utf32(points_.data(), static_cast<utf8proc_ssize_t>(points_.size()),
                                 static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    if (n < 0) return Error{Errc::internal, "Unicode composition failed"};
    for (utf8proc_ssize_t i = 0; i < n; ++i) utf8::append(normal_, static_cast<char32_t>(points_[static_cast<std::size_t>(i)]));
    return {};
  }

  /// Canonical order: within each run of marks, by combining class, equal classes as they stood.
  void sort_marks() {
    const auto combining_class = [](utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; };
    for (auto at = points_.begin(); at != points_.end();) {
      const auto is_mark = [&](utf8proc_int32_t c) { return combining_class(c) != 0; };
      const auto begin = std::find_if(at, points_.end(), is_mark);
      const auto end = std::find_if_not(begin, points_.end(), is_mark);
      if (end - begin > 1) std::stable_sort(begin, end, [&](auto a, auto b) { return combining_class(a) < combining_class(b); });
      at = end;
    }
  }

  std::string normal_;
  std::vector<utf8proc_int32_t> points_;
};

}  // namespace coli
