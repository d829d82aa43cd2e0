// SPDX-License-Identifier: Apache-2.0
// What is a model asked? A list of prompts with names, tags and how many tokens to decide after each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coli/core/bounded_json.hpp"
#include "coli/core/error.hpp"
#include "coli/core/ids.hpp"
#include "coli/core/ids_hash.hpp"
#include "coli/core/sha256.hpp"

namespace coli::evaluation {

using Json = nlohmann::ordered_json;

inline constexpr std::uint32_t kDefaultDecisions = 32;

/// One prompt. With ids they are used as they stand, so that the case means the same under any tokenizer; with text as
/// well, the model's tokenizer must give these very ids.
struct EvalCase {
  std::string id;
  std::vector<std::string> tags;
  std::optional<std::string> text;
  std::vector<TokenId> prompt;               // empty where only text is given
  std::uint32_t n_tokens = kDefaultDecisions;  // to decide, greedily; end-of-text is no end
};

struct CaseSet {
  std::vector<EvalCase> cases;
  std::string sha256;  // of what the answers depend on: ids, prompts and counts of every case, in order
};

/// Reads a list of token ids at `entry[key]`; false where it is something else.
inline bool read_ids(const Json& entry, const char* key, std::vector<TokenId>& ids) {
  if (!entry.contains(key) || !entry[key].is_array()) return false;
  for (const Json& id : entry[key]) {
    if (!id.is_number_integer()) return false;
    if (id.is_number_unsigned() && id.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int32_t>::max()}) return false;
    if (id.get<std::int64_t>() < 0) return false;
    ids.push_back(TokenId{id.get<std::int32_t>()});
  }
  return true;
}

/// The object that a file of cases, goldens or a lane must be. Errors: bad_input, naming the field.
inline Result<Json> parse_root(std::string_view text, const std::string& path, std::string_view what) {
  const auto bad = [&](std::string field, std::string why) { return Error{Errc::bad_input, std::move(why), std::move(field), path}; };
  Json root = parse_bounded_json(text);
  if (root.is_discarded()) return bad("", "is not JSON");
  if (!root.is_object() || !root.contains("schema") || root["schema"] != 1) return bad("schema", "is not 1; this is no " + std::string(what) + " that coli knows");
  if (!root.contains("cases") || !root["cases"].is_array()) return bad("cases", "the list of cases is missing");
  return root;
}

/// Reads {"schema": 1, "cases": [{"id", "tags", "prompt" and/or "prompt_ids", "tokens"}]}; a golden file is one too
/// (as many tokens as its "ids"). Other fields are left alone. Errors: bad_input, naming the field.
inline Result<CaseSet> parse_case_set(std::string_view text, const std::string& path) {
  COLI_TRY(root, parse_root(text, path, "file of cases"));
  CaseSet set;
  std::set<std::string> seen;
  Json content = Json::array();
  for (const Json& entry : root["cases"]) {
    const std::string at = "cases[" + std::to_string(set.cases.size()) + "]";
    const auto bad = [&](const char* field, std::string why) { return Error{Errc::bad_input, std::move(why), at + field, path}; };
    EvalCase c;
    if (!entry.is_object() || !entry.contains("id") || !entry["id"].is_string() || entry["id"].get_ref<const std::string&>().empty()) return bad(".id", "is not a string");
    c.id = entry["id"];
    if (!seen.insert(c.id).second) return bad(".id", "'" + c.id + "' is the name of another case");
    if (entry.contains("tags")) {
      if (!entry["tags"].is_array()) return bad(".tags", "is not a list of strings");
      for (const Json& tag : entry["tags"]) {
        if (!tag.is_string()) return bad(".tags", "is not a list of strings");
        c.tags.push_back(tag);
      }
    }
    if (entry.contains("prompt") && !entry["prompt"].is_null()) {
      if (!entry["prompt"].is_string() || entry["prompt"].get_ref<const std::string&>().empty()) return bad(".prompt", "is not a text");
      c.text = entry["prompt"];
    }
    if (entry.contains("prompt_ids") && (!read_ids(entry, "prompt_ids", c.prompt) || c.prompt.empty())) return bad(".prompt_ids", "is not a list of token ids");
    if (!c.text && c.prompt.empty()) return bad(".prompt", "there is neither a prompt nor prompt_ids");
    if (entry.contains("tokens")) {
      const Json& n = entry["tokens"];
      if (!n.is_number_unsigned() || n.get<std::uint64_t>() == 0 || n.get<std::uint64_t>() > (1U << 20)) return bad(".tokens", "is not a count from 1 to 1048576");
      c.n_tokens = n.get<std::uint32_t>();
    } else if (std::vector<TokenId> ids; entry.contains("ids")) {
      if (!read_ids(entry, "ids", ids) || ids.empty()) return bad(".ids", "is not a list of token ids");
      c.n_tokens = static_cast<std::uint32_t>(ids.size());
    }
    content.push_back({{"id", c.id}, {"prompt", c.text ? Json(*c.text) : Json()}, {"prompt_sha256", c.prompt.empty() ? "" : hash_of_ids(c.prompt)}, {"tokens", c.n_tokens}});
    set.cases.push_back(std::move(c));
  }
  Sha256 hash;
  const std::string canonical = content.dump(-1, ' ', false, Json::error_handler_t::replace);
  hash.update_values(std::span<const char>(canonical));
  set.sha256 = hash.hex();
  return set;
}

}  // namespace coli::evaluation
