// SPDX-License-Identifier: Apache-2.0
// Which files are there, and what do they say? The repository's text in memory, so that a fault can be planted.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace coli::structure {

/// One file: its path from the repository's root with '/', its text (empty for binary files), its size.
struct SourceFile {
  std::string path;
  std::string text;
  std::uint64_t bytes = 0;

  /// "include/coli/core" of "include/coli/core/ids.hpp".
  std::string_view folder() const {
    const std::string_view whole = path;
    const auto slash = whole.rfind('/');
    return slash == std::string_view::npos ? std::string_view{} : whole.substr(0, slash);
  }
  bool under(std::string_view prefix) const { return std::string_view(path).starts_with(prefix); }
  bool ends(std::string_view suffix) const { return std::string_view(path).ends_with(suffix); }
  bool is_code() const { return ends(".hpp") || ends(".cpp") || ends(".cuh") || ends(".cu"); }
};

struct SourceTree {
  std::vector<SourceFile> files;
  std::vector<std::string> top_level;  // names directly under the root
};

/// Folders that hold nothing committed.
inline bool is_ignored_folder(std::string_view name) {
  return name == ".git" || name == "build" || name == ".cache" || name == "__pycache__" || name == ".venv" ||
         name == "work";
}

inline SourceTree read_tree(const std::filesystem::path& root) {
  namespace fs = std::filesystem;
  SourceTree tree;
  for (const auto& entry : fs::directory_iterator(root)) tree.top_level.push_back(entry.path().filename().string());
  std::sort(tree.top_level.begin(), tree.top_level.end());
  for (auto it = fs::recursive_directory_iterator(root); it != fs::recursive_directory_iterator(); ++it) {
    if (it->is_directory() && is_ignored_folder(it->path().filename().string())) it.disable_recursion_pending();
    if (!it->is_regular_file() || it->is_symlink()) continue;
    SourceFile file{fs::relative(it->path(), root).generic_string(), {}, it->file_size()};
    std::ifstream in(it->path(), std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(in), {}};
    if (text.find('\0') == std::string::npos) file.text = std::move(text);
    tree.files.push_back(std::move(file));
  }
  std::sort(tree.files.begin(), tree.files.end(),
            [](const SourceFile& a, const SourceFile& b) { return a.path < b.path; });
  return tree;
}

/// The lines of a text, without their ends.
inline std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const auto end = text.find('\n');
    lines.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return lines;
}

}  // namespace coli::structure
