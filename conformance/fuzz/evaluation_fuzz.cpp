// SPDX-License-Identifier: Apache-2.0
// Any bytes as a file of cases, as goldens and as a lane: refused in one line that names the file, or sound.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>

#include "coli/evaluation/compare.hpp"
#include "coli/evaluation/golden.hpp"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void check(const coli::Error& error) {
  require(error.code == coli::Errc::bad_input && error.file == "x.json" && !error.message.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace coli::evaluation;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto set = parse_case_set(text, "x.json")) {
    std::set<std::string> names;
    for (const EvalCase& c : set->cases) {
      require(!c.id.empty() && names.insert(c.id).second && c.n_tokens > 0 && (c.text || !c.prompt.empty()));
      for (const coli::TokenId id : c.prompt) require(id.value >= 0);
    }
    require(set->sha256.size() == 64);
  } else {
    check(set.error());
  }
  if (const auto goldens = parse_goldens(text, "x.json")) {
    for (const GoldenCase& c : *goldens) {
      require(!c.prompt.empty() && !c.expected.empty());
      for (std::size_t step = 0; step < c.expected.size(); ++step) (void)c.is_near_tie(step);
    }
  } else {
    check(goldens.error());
  }
  if (const auto lane = parse_lane(text, "x.json")) {
    // A lane agrees with itself, and what is written is read as the same.
    Run run{lane->key, {}};
    for (const CaseDecisions& c : lane->cases) run.cases.emplace_back(c.id, coli::Result<CaseDecisions>(c));
    const Comparison same = compare(run, *lane, {});
    require(same.failures.empty() && same.n_compared == lane->cases.size() && same.same_key);
    const Json written = to_json(*lane);
    const auto again = parse_lane(written.dump(-1, ' ', false, Json::error_handler_t::replace), "x.json");
    require(again && again->cases.size() == lane->cases.size() && again->floors == lane->floors);
  } else {
    check(lane.error());
  }
  return 0;
}
