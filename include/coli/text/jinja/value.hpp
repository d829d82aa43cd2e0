// SPDX-License-Identifier: Apache-2.0
// What does a template compute with? Python's values as far as chat templates use them.
//
// Values are immutable but for namespaces, which are shared by all who hold them, as in Jinja.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace coli::jinja {

class Value;

struct Undefined {};
struct None {};
using List = std::vector<Value>;
/// Keys are strings, in the order they were set.
using Dict = std::vector<std::pair<std::string, Value>>;
struct Namespace {
  std::shared_ptr<Dict> members;
};

class Value {
 public:
  Value() = default;  // undefined
  Value(None none) : state_(none) {}
  Value(bool b) : state_(b) {}
  Value(std::int64_t number) : state_(number) {}
  Value(std::string text) : state_(std::move(text)) {}
  Value(std::string_view text) : state_(std::string(text)) {}
  Value(const char*) = delete;  // would be a bool
  Value(List items) {
    for (const Value& item : items) depth_ = std::max(depth_, item.depth_ + 1);
    state_ = std::make_shared<const List>(std::move(items));
  }
  Value(Dict items) {
    for (const auto& [key, value] : items) depth_ = std::max(depth_, value.depth_ + 1);
    state_ = std::make_shared<const Dict>(std::move(items));
  }
  Value(Namespace space) : state_(std::move(space)) {}

  bool is_undefined() const { return std::holds_alternative<Undefined>(state_); }
  bool is_none() const { return std::holds_alternative<None>(state_); }
  const bool* boolean() const { return std::get_if<bool>(&state_); }
  const std::int64_t* integer() const { return std::get_if<std::int64_t>(&state_); }
  const std::string* text() const { return std::get_if<std::string>(&state_); }
  const List* list() const {
    const auto* held = std::get_if<std::shared_ptr<const List>>(&state_);
    return held ? held->get() : nullptr;
  }
  const Dict* dict() const {
    const auto* held = std::get_if<std::shared_ptr<const Dict>>(&state_);
    if (held) return held->get();
    const auto* space = std::get_if<Namespace>(&state_);
    return space ? space->members.get() : nullptr;
  }
  /// A namespace's members, which may be set; null for everything else.
  Dict* members() const {
    const auto* space = std::get_if<Namespace>(&state_);
    return space ? space->members.get() : nullptr;
  }

  bool truthy() const {
    if (const bool* b = boolean()) return *b;
    if (const std::int64_t* i = integer()) return *i != 0;
    if (const std::string* s = text()) return !s->empty();
    if (const List* l = list()) return !l->empty();
    if (const Dict* d = dict()) return members() != nullptr || !d->empty();
    return false;
  }

  /// Python's kind, for messages.
  std::string_view kind() const {
    constexpr std::string_view names[] = {"undefined", "none", "bool", "int", "str", "list", "dict", "namespace"};
    return names[state_.index()];
  }

  /// How deep lists hold lists: what destroying it takes of the stack. Namespaces count as flat.
  int depth() const { return depth_; }

 private:
  std::variant<Undefined, None, bool, std::int64_t, std::string, std::shared_ptr<const List>, std::shared_ptr<const Dict>, Namespace> state_;
  int depth_ = 0;
};

/// The member of that name, or null.
inline const Value* find(const Dict& dict, std::string_view key) {
  for (const auto& [name, value] : dict) {
    if (name == key) return &value;
  }
  return nullptr;
}

}  // namespace coli::jinja
