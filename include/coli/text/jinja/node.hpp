// SPDX-License-Identifier: Apache-2.0
// What is a parsed template? A tree of statements and expressions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace coli::jinja {

enum class NodeKind : std::uint8_t {
  // statements
  body,    // children in order
  text,    // name: printed as it is
  output,  // [expression]
  choice,  // [condition, body]... and perhaps one last body
  loop,    // names: targets; [iterable, condition or absent, body, else body or absent]
  assign,  // [target: variable or attribute, value]
  macro,   // name; its body is not kept, calling it is refused
  // expressions
  absent,    // a part that was left out
  literal_text,
  literal_integer,
  literal_boolean,
  literal_none,
  variable,   // name
  list,       // [items]
  attribute,  // name; [object]
  index,      // [object, key]
  slice,      // [object, start, stop, step]
  call,       // [callee, arguments...]
  keyword,    // name; [value]: an argument
  filter,     // name; [value, arguments...]
  test,       // name; [value, arguments...]
  negation,   // [value]: not
  minus,      // [value]
  binary,     // name: the operator; [left, right]
  conditional,  // [condition, then, otherwise or absent]
};

struct Node {
  NodeKind kind = NodeKind::absent;
  std::string name{};
  std::int64_t number = 0;
  std::vector<std::string> names{};
  std::vector<Node> children{};
  int height = 0;  // of the tree below: what walking it takes of the stack
};

}  // namespace coli::jinja
