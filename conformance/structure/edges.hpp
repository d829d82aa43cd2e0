// SPDX-License-Identifier: Apache-2.0
// Who may include whom? The table of CONTRIBUTING.md, and the includes that break it.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "source_tree.hpp"

namespace coli::structure {

/// One row: files under `folder` may include what starts with one of `allowed` (space-separated), besides their own
/// folder. Paths as an #include spells them. The longest matching folder counts.
struct EdgeRule {
  std::string_view folder;
  std::string_view allowed;
};

inline constexpr std::array kEdgeRules{
    EdgeRule{"include/coli/contracts/", "coli/core/ coli/quant/format.hpp coli/quant/matrix.hpp"},
    EdgeRule{"include/coli/core/", ""},
    EdgeRule{"include/coli/gguf/", "coli/core/"},
    EdgeRule{"include/coli/quant/", "coli/core/ coli/contracts/quant_format.hpp coli/contracts/names_itself.hpp"},
    EdgeRule{"include/coli/text/", "coli/core/ coli/gguf/"},
    EdgeRule{"include/coli/backend/", "coli/core/ coli/contracts/ coli/quant/ coli/moe/ coli/kernels/ coli/plan/hybrid_split.hpp"},
    EdgeRule{"include/coli/model/", "coli/core/ coli/contracts/ coli/quant/ coli/gguf/"},
    EdgeRule{"include/coli/moe/", "coli/core/ coli/contracts/ coli/quant/"},
    EdgeRule{"include/coli/store/",
             "coli/core/ coli/gguf/ coli/contracts/expert_store.hpp coli/contracts/names_itself.hpp"},
    EdgeRule{"include/coli/cache/",
             "coli/core/ coli/contracts/expert_store.hpp coli/contracts/eviction_policy.hpp "
             "coli/contracts/names_itself.hpp"},
    EdgeRule{"include/coli/evidence/",
             "coli/core/ coli/cache/ coli/contracts/ coli/gguf/ coli/model/ coli/moe/ coli/plan/ coli/quant/ "
             "coli/engine_options.hpp"},
    EdgeRule{"include/coli/plan/", "coli/core/ coli/gguf/ coli/quant/"},
    EdgeRule{"include/coli/evaluation/", "coli/core/ coli/moe/routing.hpp coli/sample/greedy.hpp"},
    EdgeRule{"include/coli/sample/", "coli/core/ coli/contracts/sampler.hpp coli/contracts/names_itself.hpp"},
    EdgeRule{"include/coli/", "coli/"},
    EdgeRule{"kernels/ref/", "coli/core/ coli/quant/ coli/contracts/"},
    EdgeRule{"kernels/", "coli/core/ coli/quant/ coli/contracts/ coli/kernels/"},
    EdgeRule{"driver/", "coli/ driver/"},
    EdgeRule{"conformance/", "coli/ driver/ fixtures/"},
    EdgeRule{"fixtures/", "coli/"},
};

/// Third-party headers that belong in one place (by prefix of the include; folders space-separated).
inline constexpr std::array kHeaderHomes{
    EdgeRule{"liburing", "include/coli/store/ include/coli/plan/ conformance/"},
    EdgeRule{"xsimd/", "kernels/simd/ driver/isa/ conformance/"},
    EdgeRule{"CLI/", "driver/ fixtures/"},
    EdgeRule{"boost/", "conformance/"},
    EdgeRule{"cuda", "kernels/cuda/ include/coli/plan/ include/coli/backend/ driver/ conformance/"},
    EdgeRule{"cub/", "kernels/cuda/"},
    EdgeRule{"thrust/", "kernels/cuda/ conformance/cuda/"},
};

inline std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> result;
  while (!text.empty()) {
    const auto end = text.find(' ');
    if (end != 0) result.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return result;
}

inline bool starts_with_one_of(std::string_view text, std::string_view prefixes) {
  for (const auto prefix : words(prefixes))
    if (text.starts_with(prefix)) return true;
  return false;
}

/// What an #include line names, quotes or brackets alike; nothing for other lines.
inline std::optional<std::string_view> included(std::string_view line) {
  const auto skip = [&line] { line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size())); };
  skip();
  if (!line.starts_with('#')) return std::nullopt;
  line.remove_prefix(1);
  skip();
  if (!line.starts_with("include")) return std::nullopt;
  const auto open = line.find_first_of("\"<");
  if (open == std::string_view::npos) return std::nullopt;
  const auto close = line.find_first_of("\">", open + 1);
  return line.substr(open + 1, close == std::string_view::npos ? close : close - open - 1);
}

/// How an include names a folder: include/coli/x/ as coli/x/, kernels/x/ as coli/kernels/x/, others as they are.
inline std::string include_name(std::string_view folder) {
  if (folder.starts_with("include/")) return std::string(folder.substr(8));
  if (folder.starts_with("kernels/")) return "coli/" + std::string(folder);
  return std::string(folder);
}

inline bool is_ours(std::string_view name) {
  return starts_with_one_of(name, "coli/ kernels/ driver/ conformance/ include/ fixtures/ ./ ../");
}

/// Every include that the table forbids, as "file:line: sentence".
inline std::vector<std::string> forbidden_edges(const SourceTree& tree) {
  std::vector<std::string> found;
  for (const SourceFile& file : tree.files) {
    if (!file.is_code()) continue;
    const EdgeRule* rule = nullptr;
    for (const EdgeRule& candidate : kEdgeRules)
      if (file.under(candidate.folder) && (!rule || candidate.folder.size() > rule->folder.size())) rule = &candidate;
    const bool unknown_folder = rule && rule->folder == "include/coli/" && file.folder() != "include/coli";
    if (!rule || unknown_folder) {
      found.push_back(file.path + ": its folder has no row in the table of edges");
      continue;
    }
    std::size_t number = 0;
    for (const std::string_view line : lines_of(file.text)) {
      ++number;
      const auto name = included(line);
      if (!name) continue;
      const std::string where = file.path + ":" + std::to_string(number) + ": ";
      for (const EdgeRule& home : kHeaderHomes)
        if (name->starts_with(home.folder) && !is_ours(*name) && !starts_with_one_of(file.path, home.allowed))
          found.push_back(where + "<" + std::string(*name) + "> belongs only in " + std::string(home.allowed));
      if (!is_ours(*name)) continue;
      if (name->starts_with("./") || name->starts_with("../")) {
        found.push_back(where + "include from the root, not by way of ..: " + std::string(*name));
        continue;
      }
      const bool own = name->starts_with(include_name(rule->folder));
      if (!own && !starts_with_one_of(*name, rule->allowed))
        found.push_back(where + std::string(rule->folder) + " may not include " + std::string(*name));
    }
  }
  return found;
}

}  // namespace coli::structure
