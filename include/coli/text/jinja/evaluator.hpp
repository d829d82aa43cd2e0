// SPDX-License-Identifier: Apache-2.0
// What does a parsed template print? Jinja's semantics for the part of it that chat templates use.
//
// Whatever is not known here is an error when it is reached, never an empty string. Work is counted and bounded, so a
// hostile template ends soon; depth was bounded by the parser. One Evaluator renders once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coli/core/error.hpp"
#include "coli/gguf/printable.hpp"
#include "coli/text/jinja/lexer.hpp"
#include "coli/text/jinja/node.hpp"
#include "coli/text/jinja/text_methods.hpp"
#include "coli/text/jinja/value.hpp"

namespace coli::jinja {

class Evaluator {
 public:
  /// `globals` are the names that the template sees; `most_work` counts nodes walked and bytes moved (a 16th each).
  Evaluator(Dict globals, std::uint64_t most_work) : frames_{std::move(globals)}, work_left_(most_work) {}

  /// Errors: bad_input, for what is not supported or ill-typed; usage, where the template itself refuses the messages.
  Result<std::string> render(const Node& body) {
    COLI_CHECK(run(body));
    return std::move(out_);
  }

 private:
  Result<void> spend(std::size_t n_bytes = 0) {
    const std::uint64_t cost = 1 + n_bytes / 16;
    if (cost > work_left_) return template_error("takes too long to render");
    work_left_ -= cost;
    return {};
  }
  /// What copying these values costs.
  Result<void> spend_on(const List& items) {
    for (const Value& item : items) COLI_CHECK(spend(item.text() ? item.text()->size() : 0));
    return {};
  }
  static Error unsupported(std::string what) { return template_error("uses " + std::move(what) + ", which is not supported"); }
  static Error ill_typed(std::string what) { return template_error("fails: " + std::move(what)); }

  // ---- statements ----
  Result<void> run(const Node& node) {
    COLI_CHECK(spend(node.name.size()));
    switch (node.kind) {
      case NodeKind::body:
        for (const Node& child : node.children) COLI_CHECK(run(child));
        return {};
      case NodeKind::text: out_ += node.name; return {};
      case NodeKind::output: {
        COLI_TRY(value, evaluate(node.children[0]));
        COLI_TRY(text, printed(value));
        out_ += text;
        return {};
      }
      case NodeKind::choice: return run_choice(node);
      case NodeKind::loop: return run_loop(node);
      case NodeKind::assign: return run_assign(node);
      default: return {};  // macros: calling one is refused
    }
  }

  Result<void> run_choice(const Node& node) {
    for (std::size_t i = 0; i + 1 < node.children.size(); i += 2) {
      COLI_TRY(condition, evaluate(node.children[i]));
      if (condition.truthy()) return run(node.children[i + 1]);
    }
    if (node.children.size() % 2 == 1) return run(node.children.back());
    return {};
  }

  Result<void> run_loop(const Node& node) {
    COLI_TRY(iterable, evaluate(node.children[0]));
    COLI_TRY(all, items_of(iterable));
    List items;
    for (Value& item : all) {
      if (node.children[1].kind != NodeKind::absent) {
        frames_.emplace_back();
        const auto bound = bind(node.names, item);
        auto wanted = bound ? evaluate(node.children[1]) : Result<Value>(bound.error());
        frames_.pop_back();
        if (!wanted) return std::move(wanted).error();
        if (!wanted->truthy()) continue;
      }
      items.push_back(std::move(item));
    }
    if (items.empty() && node.children[3].kind != NodeKind::absent) return run(node.children[3]);
    for (std::size_t i = 0; i < items.size(); ++i) {
      COLI_CHECK(spend(items[i].text() ? 3 * items[i].text()->size() : 0));  // once as this item, twice as a neighbour
      frames_.push_back({{"loop", loop_value(items, i)}});
      auto done = bind(node.names, items[i]);
      if (done) done = run(node.children[2]);
      frames_.pop_back();
      COLI_CHECK(std::move(done));
    }
    return {};
  }

  static Value loop_value(const List& items, std::size_t i) {
    const auto number = [](std::size_t n) { return Value(static_cast<std::int64_t>(n)); };
    Dict loop{{"index", number(i + 1)},           {"index0", number(i)},
              {"revindex", number(items.size() - i)}, {"revindex0", number(items.size() - i - 1)},
              {"first", Value(i == 0)},           {"last", Value(i + 1 == items.size())},
              {"length", number(items.size())}};
    loop.emplace_back("previtem", i > 0 ? items[i - 1] : Value());
    loop.emplace_back("nextitem", i + 1 < items.size() ? items[i + 1] : Value());
    return Value(std::move(loop));
  }

  Result<void> bind(const std::vector<std::string>& names, const Value& item) {
    if (names.size() == 1) {
      set(frames_.back(), names[0], item);
      return {};
    }
    const List* parts = item.list();
    if (parts == nullptr || parts->size() != names.size()) return ill_typed("a loop can't unpack " + std::string(item.kind()));
    for (std::size_t i = 0; i < names.size(); ++i) set(frames_.back(), names[i], (*parts)[i]);
    return {};
  }

  static void set(Dict& dict, const std::string& name, Value value) {
    for (auto& [known, old] : dict) {
      if (known == name) {
        old = std::move(value);
        return;
      }
    }
    dict.emplace_back(name, std::move(value));
  }

  Result<void> run_assign(const Node& node) {
    COLI_TRY(value, evaluate(node.children[1]));
    const Node& target = node.children[0];
    if (target.kind == NodeKind::variable) {
      COLI_CHECK(spend(frames_.back().size()));
      set(frames_.back(), target.name, std::move(value));
      return {};
    }
    COLI_TRY(owner, lookup(target.children[0].name));
    COLI_CHECK(spend(owner.members() ? owner.members()->size() : 0));
    if (owner.members() == nullptr) return ill_typed("only a namespace's members can be set, and " + target.children[0].name + " is none");
    if (value.members() != nullptr) return unsupported("a namespace in a namespace");  // could hold itself
    set(*owner.members(), target.name, std::move(value));
    return {};
  }

  // ---- expressions ----
  Result<Value> lookup(std::string_view name) {
    for (auto frame = frames_.rbegin(); frame != frames_.rend(); ++frame) {
      COLI_CHECK(spend(frame->size()));
      if (const Value* found = find(*frame, name)) return *found;
    }
    return Value();
  }

  Result<Value> evaluate(const Node& node) {
    COLI_TRY(value, evaluate_free(node));
    COLI_CHECK(spend(value.text() ? value.text()->size() : 0));
    constexpr int kDeepest = 100;
    if (value.depth() > kDeepest) return ill_typed("lists are nested too deeply");
    return value;
  }

  Result<Value> evaluate_free(const Node& node) {
    switch (node.kind) {
      case NodeKind::literal_text: return Value(node.name);
      case NodeKind::literal_integer: return Value(node.number);
      case NodeKind::literal_boolean: return Value(node.number != 0);
      case NodeKind::literal_none: return Value(None{});
      case NodeKind::variable: return lookup(node.name);
      case NodeKind::list: {
        COLI_TRY(items, evaluate_all(node, 0));
        for (const Value& item : items) {
          if (item.members()) return unsupported("a namespace in a list");  // could come to hold itself
        }
        return Value(std::move(items));
      }
      case NodeKind::attribute: {
        COLI_TRY(object, evaluate(node.children[0]));
        return member(object, node.name);
      }
      case NodeKind::index: return index(node);
      case NodeKind::slice: return slice(node);
      case NodeKind::call: return call(node);
      case NodeKind::filter: return filter(node);
      case NodeKind::test: return test(node);
      case NodeKind::negation: {
        COLI_TRY(value, evaluate(node.children[0]));
        return Value(!value.truthy());
      }
      case NodeKind::minus: {
        COLI_TRY(value, evaluate(node.children[0]));
        if (!value.integer()) return ill_typed("minus " + std::string(value.kind()));
        return Value(-*value.integer());  // literals and sizes only: far from the limits
      }
      case NodeKind::binary: return binary(node);
      case NodeKind::conditional: {
        COLI_TRY(condition, evaluate(node.children[0]));
        const Node& chosen = node.children[condition.truthy() ? 1 : 2];
        if (chosen.kind == NodeKind::absent) return Value();
        return evaluate(chosen);
      }
      default: return unsupported("an argument by name here");
    }
  }

  /// The children from `first` on. Keyword arguments are refused.
  Result<List> evaluate_all(const Node& node, std::size_t first) {
    List values;
    for (std::size_t i = first; i < node.children.size(); ++i) {
      COLI_TRY(value, evaluate(node.children[i]));
      values.push_back(std::move(value));
    }
    return values;
  }

  Result<Value> member(const Value& object, std::string_view name) {
    if (object.is_undefined()) return ill_typed("." + std::string(name) + " of an undefined value");
    const Dict* dict = object.members() ? object.members() : object.dict();
    COLI_CHECK(spend(dict ? dict->size() : 0));
    const Value* found = dict ? find(*dict, name) : nullptr;
    return found ? *found : Value();
  }

  Result<Value> index(const Node& node) {
    COLI_TRY(object, evaluate(node.children[0]));
    COLI_TRY(key, evaluate(node.children[1]));
    if (key.text()) return member(object, *key.text());
    if (object.is_undefined()) return ill_typed("an item of an undefined value");
    if (!key.integer()) return ill_typed("an item by " + std::string(key.kind()));
    const auto pick = [&](std::size_t n) -> std::ptrdiff_t {
      const auto size = static_cast<std::int64_t>(n);
      const std::int64_t at = *key.integer() < 0 ? *key.integer() + size : *key.integer();
      return at >= 0 && at < size ? static_cast<std::ptrdiff_t>(at) : -1;
    };
    if (const List* list = object.list()) {
      const auto at = pick(list->size());
      return at < 0 ? Value() : (*list)[static_cast<std::size_t>(at)];
    }
    if (object.text()) {
      const auto characters = characters_of(*object.text());
      const auto at = pick(characters.size());
      return at < 0 ? Value() : Value(characters[static_cast<std::size_t>(at)]);
    }
    return Value();
  }

  Result<Value> slice(const Node& node) {
    COLI_TRY(object, evaluate(node.children[0]));
    Value bounds[3];
    for (std::size_t i = 0; i < 3; ++i) {
      if (node.children[i + 1].kind == NodeKind::absent) continue;
      COLI_TRY(bound, evaluate(node.children[i + 1]));
      if (!bound.integer() && !bound.is_none()) return ill_typed("a slice by " + std::string(bound.kind()));
      bounds[i] = std::move(bound);
    }
    const std::int64_t step = bounds[2].integer() ? *bounds[2].integer() : 1;
    if (step == 0) return ill_typed("a slice by steps of 0");
    if (const List* list = object.list()) {
      List taken;
      for (const std::size_t i : slice_positions(list->size(), bounds[0].integer(), bounds[1].integer(), step)) taken.push_back((*list)[i]);
      COLI_CHECK(spend_on(taken));
      return Value(std::move(taken));
    }
    if (object.text()) {
      const auto characters = characters_of(*object.text());
      std::string taken;
      for (const std::size_t i : slice_positions(characters.size(), bounds[0].integer(), bounds[1].integer(), step)) taken += characters[i];
      return Value(std::move(taken));
    }
    return ill_typed("a slice of " + std::string(object.kind()));
  }

  Result<Value> binary(const Node& node) {
    COLI_TRY(left, evaluate(node.children[0]));
    if (node.name == "and" && !left.truthy()) return left;
    if (node.name == "or" && left.truthy()) return left;
    COLI_TRY(right, evaluate(node.children[1]));
    if (node.name == "and" || node.name == "or") return right;
    if (node.name == "==" || node.name == "!=") {
      COLI_TRY(same, equal(left, right));
      return Value(same == (node.name == "=="));
    }
    if (node.name == "in" || node.name == "not in") {
      COLI_TRY(held, contains(right, left));
      return Value(held == (node.name == "in"));
    }
    if (node.name == "~") {
      COLI_TRY(first, printed(left));
      COLI_TRY(second, printed(right));
      return Value(first + second);
    }
    if (node.name == "+" && left.text() && right.text()) return Value(*left.text() + *right.text());
    if (node.name == "+" && left.list() && right.list()) {
      List joined = *left.list();
      joined.insert(joined.end(), right.list()->begin(), right.list()->end());
      COLI_CHECK(spend_on(joined));
      return Value(std::move(joined));
    }
    if (left.text() && right.text() && (node.name[0] == '<' || node.name[0] == '>')) return compared(node.name, *left.text(), *right.text());
    if (!left.integer() || !right.integer())
      return ill_typed(std::string(left.kind()) + " " + node.name + " " + std::string(right.kind()));
    return arithmetic(node.name, *left.integer(), *right.integer());
  }

  template <class T>
  static Value compared(std::string_view symbol, const T& left, const T& right) {
    if (symbol == "<") return Value(left < right);
    if (symbol == "<=") return Value(left <= right);
    if (symbol == ">") return Value(left > right);
    return Value(left >= right);
  }

  static Result<Value> arithmetic(std::string_view symbol, std::int64_t left, std::int64_t right) {
    std::int64_t result = 0;
    bool too_large = false;
    if (symbol[0] == '<' || symbol[0] == '>') return compared(symbol, left, right);
    if (symbol == "+") too_large = __builtin_add_overflow(left, right, &result);
    else if (symbol == "-") too_large = __builtin_sub_overflow(left, right, &result);
    else if (symbol == "*") too_large = __builtin_mul_overflow(left, right, &result);
    else if (symbol == "/") return unsupported("division with a fraction");
    else if (right == 0) return ill_typed("division by zero");
    else if (right == -1) too_large = symbol == "//" && __builtin_sub_overflow(std::int64_t{0}, left, &result);
    else {
      const std::int64_t quotient = left / right, rest = left % right;
      const bool down = rest != 0 && (rest < 0) != (right < 0);  // Python rounds down
      result = symbol == "//" ? quotient - (down ? 1 : 0) : rest + (down ? right : 0);
    }
    // Keeps minus and sizes safe everywhere else.
    constexpr std::int64_t kLargest = std::int64_t{1} << 60;
    if (too_large || result > kLargest || result < -kLargest) return ill_typed("a number is too large");
    return Value(result);
  }

  /// Python's ==: values of different kinds are unequal, except that True is 1.
  static Result<bool> equal(const Value& a, const Value& b) {
    const auto number = [](const Value& v) -> std::int64_t { return v.integer() ? *v.integer() : *v.boolean(); };
    if ((a.integer() || a.boolean()) && (b.integer() || b.boolean())) return number(a) == number(b);
    if (a.kind() != b.kind()) return false;
    if (a.text()) return *a.text() == *b.text();
    if (a.list() && (a.list()->empty() || b.list()->empty())) return a.list()->size() == b.list()->size();
    if (a.list() || a.dict()) return unsupported("a comparison of whole " + std::string(a.kind()) + "s");
    return true;
  }

  Result<bool> contains(const Value& holder, const Value& item) {
    if (holder.text() && item.text()) return holder.text()->find(*item.text()) != std::string::npos;
    if (holder.list()) {
      for (const Value& held : *holder.list()) {
        COLI_CHECK(spend(held.text() ? held.text()->size() : 0));
        COLI_TRY(same, equal(held, item));
        if (same) return true;
      }
      return false;
    }
    COLI_CHECK(spend(holder.dict() ? holder.dict()->size() : 0));
    if (holder.dict() && item.text()) return find(*holder.dict(), *item.text()) != nullptr;
    return ill_typed(std::string(item.kind()) + " in " + std::string(holder.kind()));
  }

  Result<List> items_of(const Value& value) {
    if (value.list()) {
      COLI_CHECK(spend_on(*value.list()));
      return *value.list();
    }
    List items;
    if (value.text()) {
      COLI_CHECK(spend(16 * value.text()->size()));  // each becomes a value
      for (const std::string_view c : characters_of(*value.text())) items.emplace_back(c);
      return items;
    }
    if (value.dict()) {
      COLI_CHECK(spend(16 * value.dict()->size()));
      for (const auto& [key, unused] : *value.dict()) items.emplace_back(key);
      return items;
    }
    if (value.is_undefined()) return items;
    return ill_typed("a loop over " + std::string(value.kind()));
  }

  static Result<std::string> printed(const Value& value) {
    if (value.text()) return *value.text();
    if (value.is_undefined()) return std::string();
    if (value.is_none()) return std::string("None");
    if (value.boolean()) return std::string(*value.boolean() != 0 ? "True" : "False");
    if (value.integer()) return std::to_string(*value.integer());
    return unsupported("the text of a " + std::string(value.kind()));
  }

  // ---- calls ----
  Result<Value> call(const Node& node) {
    const Node& callee = node.children[0];
    if (callee.kind == NodeKind::attribute) {
      COLI_TRY(object, evaluate(callee.children[0]));
      COLI_TRY(arguments, evaluate_all(node, 1));
      if (object.text()) return text_method(*object.text(), callee.name, arguments);
      if (object.dict()) return dict_method(*object.dict(), callee.name, arguments);
      return ill_typed("." + callee.name + "() of " + std::string(object.kind()));
    }
    if (callee.kind != NodeKind::variable) return unsupported("a call of this form");
    if (callee.name == "namespace") return make_namespace(node);
    COLI_TRY(arguments, evaluate_all(node, 1));
    if (callee.name == "raise_exception") {
      const std::string reason = arguments.size() == 1 && arguments[0].text() ? *arguments[0].text() : std::string();
      return Error{Errc::usage, "the model's chat template refuses these messages: " + gguf::printable(reason, 200), "tokenizer.chat_template"};
    }
    if (callee.name == "range") return range(arguments);
    return unsupported(callee.name + "()");
  }

  Result<Value> make_namespace(const Node& node) {
    Dict members;
    for (std::size_t i = 1; i < node.children.size(); ++i) {
      if (node.children[i].kind != NodeKind::keyword) return unsupported("namespace() of this form");
      COLI_TRY(value, evaluate(node.children[i].children[0]));
      if (value.members() != nullptr) return unsupported("a namespace in a namespace");
      COLI_CHECK(spend(members.size()));
      set(members, node.children[i].name, std::move(value));
    }
    return Value(Namespace{std::make_shared<Dict>(std::move(members))});
  }

  Result<Value> range(const List& arguments) {
    std::int64_t bounds[3] = {0, 0, 1};
    if (arguments.empty() || arguments.size() > 3) return ill_typed("range() of so many arguments");
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (!arguments[i].integer()) return ill_typed("range() of " + std::string(arguments[i].kind()));
      bounds[arguments.size() == 1 ? 1 : i] = *arguments[i].integer();
    }
    if (bounds[2] == 0) return ill_typed("range() by steps of 0");
    List numbers;
    for (std::int64_t i = bounds[0]; bounds[2] > 0 ? i < bounds[1] : i > bounds[1]; i += bounds[2]) {
      COLI_CHECK(spend());
      numbers.emplace_back(i);
    }
    return Value(std::move(numbers));
  }

  Result<Value> list_of(const std::vector<std::string>& texts) {
    COLI_CHECK(spend(16 * texts.size()));
    List items;
    for (const std::string& text : texts) items.emplace_back(text);
    return Value(std::move(items));
  }

  static Result<std::string> in_ascii(std::string_view text, bool upper) {
    std::string out(text);
    for (char& c : out) {
      if (static_cast<unsigned char>(c) >= 0x80) return unsupported("upper or lower case beyond ASCII");
      if (upper ? c >= 'a' && c <= 'z' : c >= 'A' && c <= 'Z') c = static_cast<char>(c ^ 0x20);
    }
    return out;
  }

  Result<Value> text_method(const std::string& text, std::string_view name, const List& arguments) {
    COLI_CHECK(spend(text.size()));
    const std::string* first = !arguments.empty() ? arguments[0].text() : nullptr;
    const std::size_t n = arguments.size();
    if (name == "startswith" && n == 1 && first) return Value(text.starts_with(*first));
    if (name == "endswith" && n == 1 && first) return Value(text.ends_with(*first));
    if (n == 0 || (n == 1 && first)) {
      COLI_CHECK(spend(first ? text.size() * first->size() : 0));  // strip() looks for each character in the other
      if (name == "strip") return Value(strip(text, first, true, true));
      if (name == "lstrip") return Value(strip(text, first, true, false));
      if (name == "rstrip") return Value(strip(text, first, false, true));
    }
    if (name == "split" && n == 0) return list_of(split_words(text));
    if (name == "split" && first && !first->empty() && (n == 1 || (n == 2 && arguments[1].integer())))
      return list_of(split(text, *first, n == 2 ? *arguments[1].integer() : -1));
    if (name == "replace" && n == 2 && first && !first->empty() && arguments[1].text()) {
      std::size_t growth = 0;
      for (std::size_t at = 0; (at = find_text(text, *first, at)) != std::string::npos; at += first->size()) growth += arguments[1].text()->size();
      COLI_CHECK(spend(growth));
      return Value(replace_all(text, *first, *arguments[1].text()));
    }
    if (n == 0 && (name == "upper" || name == "lower")) {
      COLI_TRY(changed, in_ascii(text, name == "upper"));
      return Value(std::move(changed));
    }
    return unsupported("." + std::string(name) + "() of this form on a string");
  }

  Result<Value> dict_method(const Dict& dict, std::string_view name, const List& arguments) {
    COLI_CHECK(spend(dict.size() * 16));
    if (name == "get" && (arguments.size() == 1 || arguments.size() == 2) && arguments[0].text()) {
      if (const Value* found = find(dict, *arguments[0].text())) return *found;
      return arguments.size() == 2 ? arguments[1] : Value(None{});
    }
    if (arguments.empty() && (name == "items" || name == "keys" || name == "values")) {
      List items;
      for (const auto& [key, value] : dict) {
        COLI_CHECK(spend(key.size() + (value.text() ? value.text()->size() : 0)));
        if (name == "items") items.emplace_back(List{Value(key), value});
        else items.push_back(name == "keys" ? Value(key) : value);
      }
      return Value(std::move(items));
    }
    return unsupported("." + std::string(name) + "() of this form on a dict");
  }

  Result<Value> filter(const Node& node) {
    COLI_TRY(value, evaluate(node.children[0]));
    COLI_TRY(arguments, evaluate_all(node, 1));
    const std::string_view name = node.name;
    const std::size_t n = arguments.size();
    if ((name == "default" || name == "d") && (n == 1 || n == 2)) {
      const bool empty_too = n == 2 && arguments[1].truthy();
      return value.is_undefined() || (empty_too && !value.truthy()) ? arguments[0] : value;
    }
    if (n == 0 && (name == "length" || name == "count")) {
      if (value.text()) return Value(static_cast<std::int64_t>(characters_of(*value.text()).size()));
      if (value.list()) return Value(static_cast<std::int64_t>(value.list()->size()));
      if (value.dict()) return Value(static_cast<std::int64_t>(value.dict()->size()));
      if (value.is_undefined()) return Value(std::int64_t{0});
      return ill_typed("the length of " + std::string(value.kind()));
    }
    if (n == 0 && (name == "first" || name == "last") && value.list()) {
      if (value.list()->empty()) return Value();
      return name == "first" ? value.list()->front() : value.list()->back();
    }
    if (n == 0 && (name == "first" || name == "last" || name == "list")) {
      COLI_TRY(items, items_of(value));
      if (name == "list") return Value(std::move(items));
      return items.empty() ? Value() : name == "first" ? items.front() : items.back();
    }
    if (name == "join" && n <= 1) {
      COLI_TRY(items, items_of(value));
      std::string joined;
      for (std::size_t i = 0; i < items.size(); ++i) {
        COLI_TRY(part, printed(items[i]));
        if (i > 0 && n == 1) {
          COLI_TRY(glue, printed(arguments[0]));
          joined += glue;
        }
        joined += part;
        COLI_CHECK(spend(joined.size() / (i + 1)));
      }
      return Value(std::move(joined));
    }
    // What remains first turns its value into text.
    if (name == "string" || name == "trim" || name == "upper" || name == "lower" || name == "replace") {
      COLI_TRY(text, printed(value));
      if (name == "string" && n == 0) return Value(std::move(text));
      return text_method(text, name == "trim" ? "strip" : name, arguments);
    }
    return unsupported("the filter " + std::string(name));
  }

  Result<Value> test(const Node& node) {
    COLI_TRY(value, evaluate(node.children[0]));
    const std::string_view name = node.name;
    if (name == "defined") return Value(!value.is_undefined());
    if (name == "undefined") return Value(value.is_undefined());
    if (name == "none") return Value(value.is_none());
    if (name == "string") return Value(value.text() != nullptr);
    if (name == "mapping") return Value(value.dict() != nullptr);
    if (name == "iterable" || name == "sequence") return Value(value.text() || value.list() || value.dict() || value.is_undefined());
    if (name == "boolean") return Value(value.boolean() != nullptr);
    if (name == "true") return Value(value.boolean() && *value.boolean() != 0);
    if (name == "false") return Value(value.boolean() && *value.boolean() == 0);
    if (name == "integer") return Value(value.integer() != nullptr);
    if (name == "number") return Value(value.integer() != nullptr || value.boolean() != nullptr);
    return unsupported("the test \"is " + std::string(name) + "\"");
  }

  std::vector<Dict> frames_;
  std::string out_;
  std::uint64_t work_left_;
};

}  // namespace coli::jinja
