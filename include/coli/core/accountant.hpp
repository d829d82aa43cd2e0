// SPDX-License-Identifier: Apache-2.0
// Who holds how much memory, and may more be taken? The one accountant; planner and engine use the same classes.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "coli/core/bytes.hpp"
#include "coli/core/error.hpp"

namespace coli {

/// Every class of bytes that an engine holds.
enum class MemoryClass : unsigned { base, vocabulary, trunk, kv, scratch, slots, io };
inline constexpr std::size_t kMemoryClasses = 7;

/// base is code, libraries, stacks and allocator slack: what a process holds before it has a model.
constexpr std::string_view name_of(MemoryClass c) {
  constexpr std::array<std::string_view, kMemoryClasses> names{"base", "vocabulary", "trunk", "kv", "scratch", "slots", "io"};
  return names[static_cast<std::size_t>(c)];
}

/// Counts charged bytes per class against one limit. Thread-safe; charging is rare (set-up only).
class Accountant {
 public:
  explicit Accountant(std::optional<Bytes> limit = std::nullopt) noexcept : limit_(limit) {}
  Accountant(const Accountant&) = delete;
  Accountant& operator=(const Accountant&) = delete;

  /// Errors: over_budget, with the bill so far and what is short.
  Result<void> charge(MemoryClass what, Bytes bytes) {
    held_[static_cast<std::size_t>(what)] += bytes.value;
    if (limit_ && total() > *limit_) {
      held_[static_cast<std::size_t>(what)] -= bytes.value;
      const Bytes short_of = total() + bytes - *limit_;
      return Error{Errc::over_budget, "memory limit " + to_text(*limit_) + ": " + std::string(name_of(what)) + " needs " +
                                          to_text(bytes) + " more, " + std::to_string(short_of.value) + " bytes short (" + bill() + ")"};
    }
    return {};
  }
  void release(MemoryClass what, Bytes bytes) noexcept { held_[static_cast<std::size_t>(what)] -= bytes.value; }

  Bytes held(MemoryClass what) const noexcept { return Bytes{held_[static_cast<std::size_t>(what)].load()}; }
  Bytes total() const noexcept {
    Bytes sum{};
    for (const auto& h : held_) sum += Bytes{h.load()};
    return sum;
  }
  std::optional<Bytes> limit() const noexcept { return limit_; }

  /// "trunk 1.00 GiB, kv 96.00 MiB, ...": the classes that hold something.
  std::string bill() const {
    std::string text;
    for (std::size_t i = 0; i < kMemoryClasses; ++i) {
      if (held_[i] == 0) continue;
      if (!text.empty()) text += ", ";
      text += std::string(name_of(static_cast<MemoryClass>(i))) + " " + to_text(Bytes{held_[i]});
    }
    return text.empty() ? "nothing held" : text;
  }

 private:
  std::array<std::atomic<std::uint64_t>, kMemoryClasses> held_{};
  std::optional<Bytes> limit_;
};

}  // namespace coli
