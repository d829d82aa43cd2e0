// SPDX-License-Identifier: Apache-2.0
// What does a run need to hold, and does it fit? The itemised bill that planner and engine agree on.
#pragma once

#include <string>

#include "coli/core/bytes.hpp"
#include "coli/core/error.hpp"

namespace coli {

/// Everything that a limit must cover, by class. The slots are what is flexible: from the least (top_k a size class) to
/// all experts of the model.
struct MemoryBill {
  Bytes base{};        // the process before it has a model: code, libraries, stacks, allocator
  Bytes vocabulary{};  // metadata and tokenizer
  Bytes trunk{};
  Bytes kv{};
  Bytes scratch{};
  Bytes io{};
  Bytes least_slots{};
  Bytes all_slots{};

  Bytes fixed() const { return base + vocabulary + trunk + kv + scratch + io; }
  Bytes least() const { return fixed() + least_slots; }
  Bytes all() const { return fixed() + all_slots; }

  /// What is left for slots under a limit, at most all of them. Errors: over_budget, with the arithmetic and the limit
  /// that would do.
  Result<Bytes> slots_under(Bytes limit) const {
    if (limit < least())
      return Error{Errc::over_budget, to_text(limit) + " is not enough, " + std::to_string((least() - limit).value) + " bytes short: " + items() +
                                          ", least expert slots " + to_text(least_slots) + " = " + to_text(least()) + "; give at least " +
                                          std::to_string(least().value) + ", or a shorter --ctx or --chunk",
                   "--memory"};
    return std::min(limit - fixed(), all_slots);
  }

  std::string items() const {
    return "base " + to_text(base) + ", vocabulary " + to_text(vocabulary) + ", trunk " + to_text(trunk) + ", kv " + to_text(kv) + ", scratch " +
           to_text(scratch) + ", io " + to_text(io);
  }
};

}  // namespace coli
