// SPDX-License-Identifier: Apache-2.0
// Where does a template's text end and its code begin, and what are the code's words?
//
// As Hugging Face runs Jinja: trim_blocks and lstrip_blocks are on, one newline at the very end is dropped.
#pragma once

#include <cctype>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coli/core/error.hpp"
#include "coli/text/utf8.hpp"

namespace coli::jinja {

enum class TokenKind : std::uint8_t { text, output_begin, output_end, tag_begin, tag_end, name, string, integer, symbol, end };

struct Token {
  TokenKind kind;
  std::string value;
};

/// One line, whatever of the template's text is quoted in it.
inline Error template_error(std::string message) {
  constexpr std::size_t kLongest = 300;
  if (message.size() > kLongest) message.replace(kLongest, std::string::npos, "...");
  for (char& c : message) {
    if (c < 0x20 || c > 0x7E) c = '?';
  }
  return {Errc::bad_input, "the chat template " + std::move(message), "tokenizer.chat_template"};
}

class Lexer {
 public:
  /// Errors: bad_input, for code that is not Jinja or not of the part of it that is understood here.
  static Result<std::vector<Token>> tokens_of(std::string_view source) {
    Lexer lexer(normal_newlines(source));
    COLI_CHECK(lexer.run());
    return std::move(lexer.tokens_);
  }

 private:
  explicit Lexer(std::string source) : source_(std::move(source)), rest_(source_) {}
  Lexer(const Lexer&) = delete;  // rest_ looks into source_

  static std::string normal_newlines(std::string_view source) {
    std::string out;
    for (std::size_t i = 0; i < source.size(); ++i) {
      if (source[i] == '\r') {
        out.push_back('\n');
        if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
      } else {
        out.push_back(source[i]);
      }
    }
    if (out.ends_with('\n')) out.pop_back();
    return out;
  }
  // Python's \s and str.rstrip() go further than these, but only in Unicode, which no template uses for layout.
  static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

  Result<void> run() {
    bool at_line_start = true;  // the last thing taken ended a line
    while (true) {
      std::size_t open = 0;
      while ((open = rest_.find('{', open)) < rest_.size() && !(open + 1 < rest_.size() && std::string_view("{%#").find(rest_[open + 1]) != std::string_view::npos)) ++open;
      const bool last = open >= rest_.size();
      std::string_view text = rest_.substr(0, last ? rest_.size() : open);
      if (last) {
        add_text(text);
        tokens_.push_back({TokenKind::end, ""});
        return {};
      }
      const char type = rest_[open + 1];
      const char sign = open + 2 < rest_.size() ? rest_[open + 2] : '\0';
      if (sign == '-') {
        while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
      } else if (sign != '+' && type != '{') {
        const std::size_t newline = text.rfind('\n');
        const std::size_t line = newline == std::string_view::npos ? 0 : newline + 1;
        const bool blank = text.find_first_not_of(" \t\v\f", line) == std::string_view::npos;
        if (blank && (line > 0 || at_line_start)) text = text.substr(0, line);
      }
      add_text(text);
      rest_.remove_prefix(open + 2 + (sign == '-' || sign == '+' ? 1 : 0));
      if (type == '#') COLI_CHECK(skip_comment());
      else COLI_CHECK(code(type == '{'));
      at_line_start = ended_line_;
    }
  }

  void add_text(std::string_view text) {
    if (!text.empty()) tokens_.push_back({TokenKind::text, std::string(text)});
  }

  /// After "-": all white space goes. After a tag or a comment: one newline goes.
  void close(bool strip, bool trim) {
    ended_line_ = false;
    while (strip && !rest_.empty() && is_space(rest_.front())) {
      ended_line_ = rest_.front() == '\n';
      rest_.remove_prefix(1);
    }
    if (!strip && trim && rest_.starts_with('\n')) {
      ended_line_ = true;
      rest_.remove_prefix(1);
    }
  }

  Result<void> skip_comment() {
    const std::size_t end = rest_.find("#}");
    if (end == std::string_view::npos) return template_error("has a comment that does not end");
    const char sign = end > 0 ? rest_[end - 1] : '\0';
    rest_.remove_prefix(end + 2);
    close(sign == '-', sign != '+');
    return {};
  }

  Result<void> code(bool output) {
    tokens_.push_back({output ? TokenKind::output_begin : TokenKind::tag_begin, ""});
    const std::string_view closing = output ? "}}" : "%}";
    int depth = 0;  // of brackets: in them "}}" closes dictionaries
    while (true) {
      while (!rest_.empty() && is_space(rest_.front())) rest_.remove_prefix(1);
      if (rest_.empty()) return template_error("has code that does not end");
      const bool signed_end = (rest_.front() == '-' || (rest_.front() == '+' && !output)) && rest_.substr(1).starts_with(closing);
      if (depth == 0 && (signed_end || rest_.starts_with(closing))) {
        const char sign = signed_end ? rest_.front() : '\0';
        rest_.remove_prefix(closing.size() + (signed_end ? 1 : 0));
        tokens_.push_back({output ? TokenKind::output_end : TokenKind::tag_end, ""});
        close(sign == '-', !output && sign != '+');
        return {};
      }
      COLI_CHECK(word(depth));
    }
  }

  Result<void> word(int& depth) {
    const char c = rest_.front();
    if (c == '\'' || c == '"') return string(c);
    const auto take_while = [&](auto belongs) {
      std::size_t n = 0;
      while (n < rest_.size() && belongs(rest_[n])) ++n;
      std::string taken(rest_.substr(0, n));
      rest_.remove_prefix(n);
      return taken;
    };
    const auto is_digit = [](char d) { return d >= '0' && d <= '9'; };
    const auto in_name = [&](char d) { return is_digit(d) || d == '_' || (d >= 'a' && d <= 'z') || (d >= 'A' && d <= 'Z'); };
    if (is_digit(c)) {
      constexpr std::size_t kMostDigits = 15;
      std::string digits = take_while(in_name);
      if (digits.size() > kMostDigits || digits.find_first_not_of("0123456789") != std::string::npos ||
          (rest_.size() > 1 && rest_[0] == '.' && is_digit(rest_[1])))
        return template_error("has a number that is no plain integer");
      tokens_.push_back({TokenKind::integer, std::move(digits)});
      return {};
    }
    if (in_name(c)) {
      tokens_.push_back({TokenKind::name, take_while(in_name)});
      return {};
    }
    for (const std::string_view symbol : {"==", "!=", "<=", ">=", "//", "**"}) {
      if (!rest_.starts_with(symbol)) continue;
      tokens_.push_back({TokenKind::symbol, std::string(symbol)});
      rest_.remove_prefix(2);
      return {};
    }
    if (std::string_view("+-*/%~<>=()[]{}.,:|").find(c) == std::string_view::npos)
      return template_error("has the character '" + std::string(1, c) + "' in its code");
    if (c == '(' || c == '[' || c == '{') ++depth;
    if ((c == ')' || c == ']' || c == '}') && --depth < 0) return template_error("closes a bracket that is not open");
    tokens_.push_back({TokenKind::symbol, std::string(1, c)});
    rest_.remove_prefix(1);
    return {};
  }

  Result<void> string(char quote) {
    std::string value;
    std::size_t at = 1;
    for (; at < rest_.size() && rest_[at] != quote; ++at) {
      if (rest_[at] != '\\') {
        value.push_back(rest_[at]);
        continue;
      }
      if (++at >= rest_.size()) break;
      switch (rest_[at]) {
        case 'n': value.push_back('\n'); break;
        case 't': value.push_back('\t'); break;
        case 'r': value.push_back('\r'); break;
        case '\\': case '\'': case '"': value.push_back(rest_[at]); break;
        case 'u': {
          char32_t point = 0;
          for (int i = 0; i < 4; ++i) {
            const char digit = ++at < rest_.size() ? rest_[at] : ' ';
            if (!std::isxdigit(static_cast<unsigned char>(digit))) return template_error("has a malformed \\u in a string");
            point = point * 16 + static_cast<char32_t>(digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10);
          }
          if (point >= 0xD800 && point <= 0xDFFF) return template_error("has half a surrogate pair in a string");
          utf8::append(value, point);
          break;
        }
        default: return template_error(std::string("has the escape \\") + rest_[at] + " in a string, which is not supported");
      }
    }
    if (at >= rest_.size()) return template_error("has a string that does not end");
    rest_.remove_prefix(at + 1);
    tokens_.push_back({TokenKind::string, std::move(value)});
    return {};
  }

  std::string source_;
  std::string_view rest_;
  bool ended_line_ = true;
  std::vector<Token> tokens_;
};

}  // namespace coli::jinja
