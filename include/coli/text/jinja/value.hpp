// SPDX-License-Identifier: Apache-2.0
// What does a template compute with? Python's values as far as chat templates use them.
//
// Values are immutable but for namespaces, which are shared by all who hold them, as in Jinja.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace coli::jinja {

class Value;

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
  Value(None) : kind_(Kind::none) {}
  Value(bool b) : kind_(Kind::boolean), number_(b ? 1 : 0) {}
  Value(std::int64_t number) : kind_(Kind::integer), number_(number) {}
  Value(std::string text) : kind_(Kind::text), text_(std::move(text)) {}
  Value(std::string_view text) : Value(std::string(text)) {}
  Value(const char*) = delete;  // would be a bool
  Value(List items) : kind_(Kind::list) {
    for (const Value& item : items) depth_ = std::max(depth_, item.depth_ + 1);
    list_ = std::make_shared<const List>(std::move(items));
  }
  Value(Dict items) : kind_(Kind::dict) {
    for (const auto& [key, value] : items) depth_ = std::max(depth_, value.depth_ + 1);
    dict_ = std::make_shared<Dict>(std::move(items));
  }
  Value(Namespace space) : kind_(Kind::space), dict_(std::move(space.members)) {}

  bool is_undefined() const { return kind_ == Kind::undefined; }
  bool is_none() const { return kind_ == Kind::none; }
  /// The value as that kind; null when it is of another. A boolean has its number, 0 or 1, but is no integer.
  const std::int64_t* integer() const { return kind_ == Kind::integer ? &number_ : nullptr; }
  const std::int64_t* boolean() const { return kind_ == Kind::boolean ? &number_ : nullptr; }
  const std::string* text() const { return kind_ == Kind::text ? &text_ : nullptr; }
  const List* list() const { return kind_ == Kind::list ? list_.get() : nullptr; }
  const Dict* dict() const { return kind_ == Kind::dict ? dict_.get() : nullptr; }
  /// A namespace's members, which may be set.
  Dict* members() const { return kind_ == Kind::space ? dict_.get() : nullptr; }

  bool truthy() const {
    switch (kind_) {
      case Kind::undefined:
      case Kind::none: return false;
      case Kind::boolean:
      case Kind::integer: return number_ != 0;
      case Kind::text: return !text_.empty();
      case Kind::list: return !list_->empty();
      case Kind::dict: return !dict_->empty();
      case Kind::space: return true;
    }
    return false;
  }

  /// Python's name of its kind.
  std::string_view kind() const {
    constexpr std::array<std::string_view, 8> names{"undefined", "none", "bool", "int", "str", "list", "dict", "namespace"};
    return names[static_cast<std::size_t>(kind_)];
  }

  /// How deep lists hold lists: what destroying it takes of the stack. Namespaces count as flat.
  int depth() const { return depth_; }

 private:
  enum class Kind : std::uint8_t { undefined, none, boolean, integer, text, list, dict, space };
  Kind kind_ = Kind::undefined;
  int depth_ = 0;
  std::int64_t number_ = 0;
  std::string text_;
  std::shared_ptr<const List> list_;
  std::shared_ptr<Dict> dict_;
};

/// The member of that name, or null.
inline const Value* find(const Dict& dict, std::string_view key) {
  for (const auto& [name, value] : dict) {
    if (name == key) return &value;
  }
  return nullptr;
}

}  // namespace coli::jinja
