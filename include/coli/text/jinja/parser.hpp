// SPDX-License-Identifier: Apache-2.0
// What does a template's code say? Its words become a tree, by Jinja's precedences.
//
// What chat templates use is understood; anything else is refused by name, never skipped. Depth is bounded.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coli/core/error.hpp"
#include "coli/gguf/printable.hpp"
#include "coli/text/jinja/lexer.hpp"
#include "coli/text/jinja/node.hpp"

namespace coli::jinja {

class Parser {
 public:
  /// Errors: bad_input, for what is malformed or not supported.
  static Result<Node> parse(std::string_view source) {
    COLI_TRY(tokens, Lexer::tokens_of(source));
    Parser parser(std::move(tokens));
    COLI_TRY(body, parser.body({}));
    if (parser.here().kind != TokenKind::end) return parser.unexpected();
    return body;
  }

 private:
  static constexpr int kDeepest = 100;

  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  // ---- words ----
  const Token& here() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool is(TokenKind kind, std::string_view value) const { return here().kind == kind && here().value == value; }
  bool is_symbol(std::string_view value) const { return is(TokenKind::symbol, value); }
  bool is_name(std::string_view value) const { return is(TokenKind::name, value); }
  bool accept_symbol(std::string_view value) { return is_symbol(value) && (take(), true); }
  bool accept_name(std::string_view value) { return is_name(value) && (take(), true); }
  Error unexpected() const {
    return template_error("is not understood at " + (here().kind == TokenKind::end ? std::string("its end") : gguf::quoted(here().value, 40)));
  }
  Result<void> expect_symbol(std::string_view value) {
    if (!accept_symbol(value)) return unexpected();
    return {};
  }
  Result<void> expect(TokenKind kind) {
    if (here().kind != kind) return unexpected();
    take();
    return {};
  }
  Result<std::string> expect_name() {
    if (here().kind != TokenKind::name) return unexpected();
    return take().value;
  }

  /// A node over its children. Errors: bad_input, for a tree that would be too high to walk.
  template <class... Children>
  static Result<Node> make(NodeKind kind, std::string name, Children... children) {
    std::vector<Node> list;
    (list.push_back(std::move(children)), ...);
    return make_over(kind, std::move(name), std::move(list));
  }
  static Result<Node> make_over(NodeKind kind, std::string name, std::vector<Node> children) {
    Node node{kind, std::move(name)};
    for (const Node& child : children) node.height = std::max(node.height, child.height + 1);
    if (node.height > kDeepest) return template_error("is nested too deeply");
    node.children = std::move(children);
    return node;
  }
  /// Replaces `value` by a node over it and `others`.
  template <class... Others>
  static Result<void> wrap(Node& value, NodeKind kind, std::string name, Others... others) {
    COLI_TRY(wrapped, make(kind, std::move(name), std::move(value), std::move(others)...));
    value = std::move(wrapped);
    return {};
  }

  /// Counts the nesting of one construct while it lives.
  struct Depth {
    explicit Depth(int& depth) : depth_(depth) { ++depth_; }
    ~Depth() { --depth_; }
    int& depth_;
  };

  // ---- statements ----
  /// Up to a tag named in `ends`, which is left to the caller with its tag_begin taken.
  Result<Node> body(std::initializer_list<std::string_view> ends) {
    const Depth depth(depth_);
    if (depth_ > kDeepest) return template_error("is nested too deeply");
    std::vector<Node> nodes;
    while (here().kind != TokenKind::end) {
      if (here().kind == TokenKind::text) {
        nodes.push_back({NodeKind::text, take().value});
      } else if (here().kind == TokenKind::output_begin) {
        take();
        COLI_TRY(value, expression());
        COLI_CHECK(expect(TokenKind::output_end));
        COLI_CHECK(wrap(value, NodeKind::output, {}));
        nodes.push_back(std::move(value));
      } else {
        COLI_CHECK(expect(TokenKind::tag_begin));
        for (const std::string_view end : ends) {
          if (is_name(end)) return make_over(NodeKind::body, {}, std::move(nodes));
        }
        COLI_TRY(inner, statement());
        nodes.push_back(std::move(inner));
      }
    }
    if (ends.size() != 0) return template_error("ends inside {% " + std::string(*ends.begin()).substr(0, 20) + " ... %}");
    return make_over(NodeKind::body, {}, std::move(nodes));
  }

  Result<Node> statement() {
    COLI_TRY(tag, expect_name());
    if (tag == "if") return choice();
    if (tag == "for") return loop();
    if (tag == "set") return assign();
    if (tag == "macro") return macro();
    if (tag == "generation") {  // marks what a trainer learns from; renders as its body
      COLI_CHECK(expect(TokenKind::tag_end));
      return block("endgeneration");
    }
    return template_error("uses {% " + tag + " %}, which is not supported");
  }

  Result<Node> block(std::string_view end) {
    COLI_TRY(inner, body({end}));
    take();
    COLI_CHECK(expect(TokenKind::tag_end));
    return inner;
  }

  Result<Node> choice() {
    std::vector<Node> parts;
    while (true) {
      COLI_TRY(condition, disjunction());
      COLI_CHECK(expect(TokenKind::tag_end));
      COLI_TRY(then, body({"endif", "elif", "else"}));
      parts.push_back(std::move(condition));
      parts.push_back(std::move(then));
      if (accept_name("elif")) continue;
      if (accept_name("else")) {
        COLI_CHECK(expect(TokenKind::tag_end));
        COLI_TRY(otherwise, block("endif"));
        parts.push_back(std::move(otherwise));
        return make_over(NodeKind::choice, {}, std::move(parts));
      }
      take();
      COLI_CHECK(expect(TokenKind::tag_end));
      return make_over(NodeKind::choice, {}, std::move(parts));
    }
  }

  Result<Node> loop() {
    std::vector<std::string> targets;
    do {
      COLI_TRY(target, expect_name());
      targets.push_back(std::move(target));
    } while (accept_symbol(","));
    if (!accept_name("in")) return unexpected();
    COLI_TRY(iterable, disjunction());
    Node condition;
    if (accept_name("if")) {
      COLI_TRY(parsed, expression());
      condition = std::move(parsed);
    }
    if (is_name("recursive")) return template_error("uses a recursive loop, which is not supported");
    COLI_CHECK(expect(TokenKind::tag_end));
    COLI_TRY(inner, body({"endfor", "else"}));
    Node otherwise;
    if (accept_name("else")) {
      COLI_CHECK(expect(TokenKind::tag_end));
      COLI_TRY(parsed, body({"endfor"}));
      otherwise = std::move(parsed);
    }
    take();
    COLI_CHECK(expect(TokenKind::tag_end));
    COLI_TRY(node, make(NodeKind::loop, {}, std::move(iterable), std::move(condition), std::move(inner), std::move(otherwise)));
    node.names = std::move(targets);
    return node;
  }

  Result<Node> assign() {
    COLI_TRY(name, expect_name());
    Node target{NodeKind::variable, std::move(name)};
    if (accept_symbol(".")) {
      COLI_TRY(member, expect_name());
      COLI_CHECK(wrap(target, NodeKind::attribute, std::move(member)));
    }
    if (!is_symbol("=")) return template_error("uses a form of {% set %} that is not supported");
    take();
    COLI_TRY(value, expression());
    COLI_CHECK(expect(TokenKind::tag_end));
    return make(NodeKind::assign, {}, std::move(target), std::move(value));
  }

  /// Parsed so that a template which only uses it for tools can be read.
  Result<Node> macro() {
    COLI_TRY(name, expect_name());
    COLI_TRY(arguments, call_arguments());
    COLI_CHECK(expect(TokenKind::tag_end));
    COLI_TRY(inner, block("endmacro"));
    return Node{NodeKind::macro, std::move(name)};
  }

  // ---- expressions, from the loosest to the tightest ----
  Result<Node> expression() {
    const Depth depth(depth_);
    if (depth_ > kDeepest) return template_error("is nested too deeply");
    COLI_TRY(value, disjunction());
    while (accept_name("if")) {
      COLI_TRY(condition, disjunction());
      Node otherwise;
      if (accept_name("else")) {
        COLI_TRY(parsed, expression());
        otherwise = std::move(parsed);
      }
      COLI_TRY(chosen, make(NodeKind::conditional, {}, std::move(condition), std::move(value), std::move(otherwise)));
      value = std::move(chosen);
    }
    return value;
  }

  Result<Node> disjunction() {
    COLI_TRY(left, conjunction());
    while (accept_name("or")) {
      COLI_TRY(right, conjunction());
      COLI_CHECK(wrap(left, NodeKind::binary, "or", std::move(right)));
    }
    return left;
  }
  Result<Node> conjunction() {
    COLI_TRY(left, negation());
    while (accept_name("and")) {
      COLI_TRY(right, negation());
      COLI_CHECK(wrap(left, NodeKind::binary, "and", std::move(right)));
    }
    return left;
  }
  Result<Node> negation() {
    const Depth depth(depth_);
    if (depth_ > kDeepest) return template_error("is nested too deeply");
    if (!accept_name("not")) return comparison();
    COLI_TRY(value, negation());
    return make(NodeKind::negation, {}, std::move(value));
  }
  Result<Node> comparison() {
    COLI_TRY(left, sum());
    bool compared = false;
    while (true) {
      std::string symbol;
      if (here().kind == TokenKind::symbol && std::string_view("== != < <= > >=").find(here().value) != std::string_view::npos && here().value != "=") symbol = take().value;
      else if (accept_name("in")) symbol = "in";
      else if (is_name("not") && ahead().kind == TokenKind::name && ahead().value == "in") take(), take(), symbol = "not in";
      else return left;
      if (compared) return template_error("chains comparisons, which is not supported");
      compared = true;
      COLI_TRY(right, sum());
      COLI_CHECK(wrap(left, NodeKind::binary, std::move(symbol), std::move(right)));
    }
  }
  Result<Node> sum() {
    COLI_TRY(left, concatenation());
    while (is_symbol("+") || is_symbol("-")) {
      std::string symbol = take().value;
      COLI_TRY(right, concatenation());
      COLI_CHECK(wrap(left, NodeKind::binary, std::move(symbol), std::move(right)));
    }
    return left;
  }
  Result<Node> concatenation() {
    COLI_TRY(left, product());
    while (accept_symbol("~")) {
      COLI_TRY(right, product());
      COLI_CHECK(wrap(left, NodeKind::binary, "~", std::move(right)));
    }
    return left;
  }
  Result<Node> product() {
    COLI_TRY(left, unary());
    while (is_symbol("*") || is_symbol("/") || is_symbol("//") || is_symbol("%")) {
      std::string symbol = take().value;
      COLI_TRY(right, unary());
      COLI_CHECK(wrap(left, NodeKind::binary, std::move(symbol), std::move(right)));
    }
    return left;
  }
  /// Filters and tests bind tighter than operators, but looser than the minus sign.
  Result<Node> unary(bool with_filters = true) {
    const Depth depth(depth_);
    if (depth_ > kDeepest) return template_error("is nested too deeply");
    Node value;
    if (accept_symbol("-")) {
      COLI_TRY(positive, unary(false));
      COLI_CHECK(wrap(positive, NodeKind::minus, {}));
      value = std::move(positive);
    } else {
      COLI_TRY(parsed, primary());
      value = std::move(parsed);
    }
    if (!with_filters) return value;
    return filters(std::move(value));
  }

  Result<Node> primary() {
    const Token token = take();
    if (token.kind == TokenKind::string) {
      std::string value = token.value;
      while (here().kind == TokenKind::string) value += take().value;
      return postfix({NodeKind::literal_text, std::move(value)});
    }
    if (token.kind == TokenKind::integer) {
      Node node{NodeKind::literal_integer};
      std::from_chars(token.value.data(), token.value.data() + token.value.size(), node.number);
      return postfix(std::move(node));
    }
    if (token.kind == TokenKind::name) {
      if (token.value == "true" || token.value == "True") return postfix({NodeKind::literal_boolean, {}, 1});
      if (token.value == "false" || token.value == "False") return postfix({NodeKind::literal_boolean, {}, 0});
      if (token.value == "none" || token.value == "None") return postfix({NodeKind::literal_none});
      return postfix({NodeKind::variable, token.value});
    }
    if (token.kind == TokenKind::symbol && token.value == "(") {
      COLI_TRY(value, expression());
      COLI_CHECK(expect_symbol(")"));
      return postfix(std::move(value));
    }
    if (token.kind == TokenKind::symbol && token.value == "[") {
      std::vector<Node> items;
      while (!is_symbol("]")) {
        COLI_TRY(item, expression());
        items.push_back(std::move(item));
        if (!accept_symbol(",")) break;
      }
      COLI_CHECK(expect_symbol("]"));
      COLI_TRY(list, make_over(NodeKind::list, {}, std::move(items)));
      return postfix(std::move(list));
    }
    if (at_ > 0) --at_;
    return unexpected();
  }

  Result<Node> postfix(Node value) {
    while (true) {
      if (accept_symbol(".")) {
        COLI_TRY(member, expect_name());
        COLI_CHECK(wrap(value, NodeKind::attribute, std::move(member)));
      } else if (accept_symbol("[")) {
        COLI_TRY(indexed, subscript(std::move(value)));
        value = std::move(indexed);
      } else if (is_symbol("(")) {
        COLI_TRY(arguments, call_arguments());
        arguments.insert(arguments.begin(), std::move(value));
        COLI_TRY(called, make_over(NodeKind::call, {}, std::move(arguments)));
        value = std::move(called);
      } else {
        return value;
      }
    }
  }

  Result<Node> subscript(Node object) {
    std::array<Node, 3> parts;  // start, stop, step
    std::size_t n_colons = 0;
    while (!is_symbol("]")) {
      if (accept_symbol(":")) {
        if (++n_colons > 2) return unexpected();
        continue;
      }
      if (parts[n_colons].kind != NodeKind::absent) return unexpected();
      COLI_TRY(part, expression());
      parts[n_colons] = std::move(part);
    }
    take();
    if (n_colons == 0 && parts[0].kind == NodeKind::absent) return unexpected();
    if (n_colons == 0) return make(NodeKind::index, {}, std::move(object), std::move(parts[0]));
    return make(NodeKind::slice, {}, std::move(object), std::move(parts[0]), std::move(parts[1]), std::move(parts[2]));
  }

  Result<std::vector<Node>> call_arguments() {
    COLI_CHECK(expect_symbol("("));
    std::vector<Node> arguments;
    while (!is_symbol(")")) {
      if (here().kind == TokenKind::name && ahead().kind == TokenKind::symbol && ahead().value == "=") {
        std::string name = take().value;
        take();
        COLI_TRY(value, expression());
        COLI_CHECK(wrap(value, NodeKind::keyword, std::move(name)));
        arguments.push_back(std::move(value));
      } else {
        COLI_TRY(value, expression());
        arguments.push_back(std::move(value));
      }
      if (!accept_symbol(",")) break;
    }
    COLI_CHECK(expect_symbol(")"));
    return arguments;
  }

  /// After a test's name Jinja takes any operand for its argument, "x is defined if" included.
  bool starts_argument() const {
    if (here().kind == TokenKind::name) return !is_name("else") && !is_name("or") && !is_name("and");
    return here().kind == TokenKind::string || here().kind == TokenKind::integer || is_symbol("(") || is_symbol("[") || is_symbol("{");
  }

  /// "| name(arguments)" and "is [not] name".
  Result<Node> filters(Node value) {
    while (true) {
      if (accept_symbol("|")) {
        COLI_TRY(name, expect_name());
        std::vector<Node> children;
        if (is_symbol("(")) {
          COLI_TRY(arguments, call_arguments());
          children = std::move(arguments);
        }
        children.insert(children.begin(), std::move(value));
        COLI_TRY(filtered, make_over(NodeKind::filter, std::move(name), std::move(children)));
        value = std::move(filtered);
      } else if (accept_name("is")) {
        const bool negated = accept_name("not");
        COLI_TRY(name, expect_name());
        if (starts_argument()) return template_error("uses a test with arguments, which is not supported");
        COLI_CHECK(wrap(value, NodeKind::test, std::move(name)));
        if (negated) COLI_CHECK(wrap(value, NodeKind::negation, {}));
      } else {
        return value;
      }
    }
  }

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace coli::jinja
