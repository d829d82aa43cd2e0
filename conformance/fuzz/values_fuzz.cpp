// SPDX-License-Identifier: Apache-2.0
// Any text as a value on the command line: sizes, ids, lists, words near to others. A value, or one line.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "coli/core/bytes.hpp"
#include "coli/plan/cpus.hpp"
#include "coli/store/store_options.hpp"
#include "driver/nearest.hpp"
#include "driver/text_input.hpp"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto bytes = coli::parse_bytes(text)) {
    require(!text.empty() && text.front() >= '0' && text.front() <= '9');
    // What is shown of a size reads back as a size that is as large, to the digits shown.
    if (const auto again = coli::parse_bytes(coli::to_text(*bytes))) {
      const double a = static_cast<double>(bytes->value), b = static_cast<double>(again->value);
      require(b <= a * 1.11 + 1 && a <= b * 1.11 + 1);
    }
  }
  const auto ids = colidrv::parse_ids(text, "--tokens");
  if (ids) {
    std::string back;
    for (const coli::TokenId id : *ids) {
      require(id.value >= 0);
      back += (back.empty() ? "" : ",") + std::to_string(id.value);
    }
    require(text.find_first_not_of("0123456789,") == std::string_view::npos && back.size() <= text.size());
  } else {
    require(ids.error().code == coli::Errc::usage && ids.error().subject == "--tokens");
  }
  if (const auto cpus = coli::detail::parse_cpu_list(text)) {
    for (const unsigned cpu : *cpus) require(cpu < (1U << 20));
  }
  (void)coli::parse_store_kind(text);
  const std::vector<std::string> known{"--memory", "--threads", "--profile"};
  const auto near = colidrv::nearest(text.substr(0, 64), known);
  require(!near || std::find(known.begin(), known.end(), *near) != known.end());
  return 0;
}
