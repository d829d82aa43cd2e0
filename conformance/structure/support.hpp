// SPDX-License-Identifier: Apache-2.0
// How does a rule's test read? The real tree breaks it nowhere; a tree with one planted fault breaks it there.
#pragma once

#include <boost/test/unit_test.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "source_tree.hpp"

namespace coli::structure {

inline const SourceTree& repository() {
  static const SourceTree tree = read_tree(COLI_SOURCE_DIR);
  return tree;
}

inline void check_none(const std::vector<std::string>& violations) {
  for (const std::string& v : violations) BOOST_ERROR(v);
  BOOST_TEST_MESSAGE("violations: " << violations.size());
}

/// Exactly one violation, which says `sentence`.
inline void check_bites(const std::vector<std::string>& violations, std::string_view sentence) {
  BOOST_TEST(violations.size() == 1u);
  for (const std::string& v : violations)
    BOOST_TEST(v.find(sentence) != std::string::npos, "expected '" << sentence << "' in '" << v << "'");
}

inline SourceTree with_file(std::string path, std::string text) {
  return SourceTree{{SourceFile{std::move(path), std::move(text)}}, {}};
}

}  // namespace coli::structure
