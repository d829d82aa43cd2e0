// SPDX-License-Identifier: Apache-2.0
// Any text as a receipt, a manifest and a warm set: refused in one line, or what it says can be derived from it again.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "coli/core/bounded_json.hpp"
#include "coli/evidence/receipt.hpp"
#include "coli/evidence/warm_set.hpp"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using Json = nlohmann::ordered_json;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Json json = coli::parse_bounded_json(text);
  if (!json.is_discarded()) {
    const coli::ReceiptCheck check = coli::check_receipt(json);
    for (const coli::ReceiptFinding& f : check.findings) require(!f.rule.empty() && !f.message.empty());
    if (check.holds()) {  // it says of itself what its samples say
      require(json["verdict"]["outcome"] == std::string(name_of(check.derived.outcome)));
      require(json["verdict"]["improvement"] == check.derived.improvement);
      require(json["sha256"] == coli::receipt_seal(json));
    }
    // The same with a seal that fits: what is refused isn't refused for its seal alone.
    if (json.is_object() && json.contains("sha256")) {
      Json sealed = json;
      sealed["sha256"] = coli::receipt_seal(sealed);
      require(!coli::check_receipt(sealed).has("seal"));
    }
    const auto manifest = coli::Manifest::from_json(json);
    if (manifest) {
      require(manifest->n > 0 && manifest->order().size() == 2 * std::size_t{manifest->n});
      for (const std::size_t arm : {0U, 1U}) require(manifest->command_of(arm).size() >= manifest->command.size());
    } else {
      require(!manifest.error().message.empty());
    }
  }
  const auto set = coli::WarmSet::parse(std::string(text), std::string(64, 'a'), 2, 3);
  if (set) {
    double last = 2;
    for (const coli::ExpertKey key : set->by_popularity()) {
      require(key.layer.value < 2 && key.expert.value < 3 && set->score(key) > 0 && set->score(key) <= last);
      last = set->score(key);
    }
  } else {
    require(set.error().code == coli::Errc::bad_input && set.error().message.find('\n') == std::string::npos);
  }
  return 0;
}
