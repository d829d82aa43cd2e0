// SPDX-License-Identifier: Apache-2.0
// What lost against the way things are done, and can still be had, so that anybody may measure it again?
//
// None of them changes a bit of the result. CONTRIBUTING.md and conformance/evidence/ say what each was worth.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace coli {

struct ParkedOptions {
  bool small_pages = false;    // no huge pages are asked for
  bool plain_slots = false;    // experts stay in their slots as the file has them, unprepared
  bool split_experts = false;  // all threads work on one expert, row by row, instead of one thread on each
  bool plain_passes = false;   // a device is told every body of a decode pass anew, instead of to play a recording

  static constexpr std::array<std::string_view, 4> kNames{"small-pages", "plain-slots", "split-experts", "plain-passes"};

  /// False: there is no such option.
  constexpr bool choose(std::string_view name) {
    bool* const all[]{&small_pages, &plain_slots, &split_experts, &plain_passes};
    for (std::size_t i = 0; i < kNames.size(); ++i)
      if (kNames[i] == name) return *all[i] = true;
    return false;
  }
};

}  // namespace coli
