// SPDX-License-Identifier: Apache-2.0
// What is this text in Unicode's normalization form C? Linear in the text, whatever marks are piled on a letter.
//
// utf8proc gives decompositions, combining classes and compositions. Its own sorting of combining marks is quadratic in
// a run of marks, so the sorting is done here. The reference for ids (Hugging Face tokenizers 0.23) normalises by
// Unicode 9: later characters that compose or combine stand there like letters that do neither, and so they do here.
#pragma once

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "coli/core/error.hpp"
#include "coli/text/utf8.hpp"

namespace coli {

namespace nfc_detail {
struct Range {
  char32_t first, last;
};
/// Characters since Unicode 10 (up to 18) that have a combining class or take part in a canonical composition.
inline constexpr std::array<Range, 71> kAfterUnicode9{{
    {0x5C8, 0x5C9}, {0x7FD, 0x7FD}, {0x897, 0x89F}, {0x8CA, 0x8D3}, {0x9FE, 0x9FE}, {0xC3C, 0xC3C}, {0xD3B, 0xD3C},
    {0xEBA, 0xEBA}, {0x1715, 0x1715}, {0x1ABF, 0x1AF0}, {0x1DF6, 0x1DFA}, {0xA82C, 0xA82C}, {0x105C9, 0x105C9},
    {0x105D2, 0x105D2}, {0x105DA, 0x105DA}, {0x105E4, 0x105E4}, {0x10D24, 0x10D27}, {0x10D69, 0x10D6D},
    {0x10EAB, 0x10EAC}, {0x10ECB, 0x10ECF}, {0x10EF0, 0x10EFB}, {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50},
    {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x11382, 0x11385}, {0x1138B, 0x1138B},
    {0x1138E, 0x1138E}, {0x11390, 0x11391}, {0x113B8, 0x113B8}, {0x113BB, 0x113BB}, {0x113C2, 0x113C2},
    {0x113C5, 0x113C5}, {0x113C7, 0x113C9}, {0x113CE, 0x113D0}, {0x1145E, 0x1145E}, {0x11839, 0x1183A},
    {0x11930, 0x11930}, {0x11935, 0x11935}, {0x11938, 0x11938}, {0x1193D, 0x1193E}, {0x11943, 0x11943},
    {0x119E0, 0x119E0}, {0x11A34, 0x11A34}, {0x11A47, 0x11A47}, {0x11A99, 0x11A99}, {0x11D42, 0x11D42},
    {0x11D44, 0x11D45}, {0x11D97, 0x11D97}, {0x11F41, 0x11F42}, {0x1611E, 0x16129}, {0x1612F, 0x1612F},
    {0x16D63, 0x16D63}, {0x16D67, 0x16D6A}, {0x16FF0, 0x16FF1}, {0x1D127, 0x1D128}, {0x1D250, 0x1D252},
    {0x1D25B, 0x1D25C}, {0x1D25F, 0x1D25F}, {0x1D280, 0x1D281}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136},
    {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF}, {0x1E5EE, 0x1E5EF}, {0x1E6E3, 0x1E6E3},
    {0x1E6E6, 0x1E6E6}, {0x1E6EE, 0x1E6EF}, {0x1E6F5, 0x1E6F5}}};

constexpr bool is_after_unicode_9(char32_t c) {
  if (c < kAfterUnicode9.front().first) return false;
  const auto at = std::ranges::lower_bound(kAfterUnicode9, c, {}, &Range::last);
  return at != kAfterUnicode9.end() && c >= at->first;
}

/// utf8proc takes this code point, which is before the first trailing consonant, for one (2.8: U+AC00 U+11A7).
inline constexpr char32_t kHangulTrailingBase = 0x11A7;
}  // namespace nfc_detail

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
    while (!stretch.empty()) {
      const utf8::Step next = utf8::step(stretch);
      if (nfc_detail::is_after_unicode_9(next.code_point) || next.code_point == nfc_detail::kHangulTrailingBase) {
        COLI_CHECK(append_composed());
        normal_.append(stretch, 0, next.n_bytes);
        stretch.remove_prefix(next.n_bytes);
        continue;
      }
      constexpr std::size_t kLongest = 8;  // canonical decompositions have at most 4 code points
      utf8proc_int32_t parts[kLongest];
      int last_boundary = 0;
      const utf8proc_ssize_t n = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(next.code_point), parts, kLongest,
                                                         static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE),
                                                         &last_boundary);
      if (n < 0 || n > static_cast<utf8proc_ssize_t>(kLongest)) return Error{Errc::internal, "Unicode decomposition failed"};
      points_.insert(points_.end(), parts, parts + n);
      stretch.remove_prefix(next.n_bytes);
    }
    return append_composed();
  }

  /// What points_ hold, decomposed, becomes text.
  Result<void> append_composed() {
    sort_marks();
    const utf8proc_ssize_t n =
        utf8proc_normalize_utf32(points_.data(), static_cast<utf8proc_ssize_t>(points_.size()),
                                 static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    if (n < 0) return Error{Errc::internal, "Unicode composition failed"};
    for (utf8proc_ssize_t i = 0; i < n; ++i) utf8::append(normal_, static_cast<char32_t>(points_[static_cast<std::size_t>(i)]));
    points_.clear();
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
