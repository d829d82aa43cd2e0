// SPDX-License-Identifier: Apache-2.0
// Who holds how much memory, and may more be taken? The one accountant; planner and engine use the same classes.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
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
  explicit Accountant(std::optional<Bytes> limit = std::nullopt, bool huge_pages = true) noexcept : limit_(limit), huge_pages_(huge_pages) {}
  Accountant(const Accountant&) = delete;
  Accountant& operator=(const Accountant&) = delete;

  /// All or nothing. Errors: over_budget, with the bill so far and what is short; also without a limit, for a count
  /// that 64 bits can't hold.
  Result<void> charge(MemoryClass what, Bytes bytes) {
    const std::lock_guard lock(charging_);
    const Bytes before = total();
    const Bytes limit = limit_.value_or(Bytes{std::numeric_limits<std::uint64_t>::max()});
    if (before > limit || bytes > limit - before) {
      const Bytes short_of = before + bytes - limit;
      return Error{Errc::over_budget, "memory limit " + (limit_ ? to_text(limit) : "of 64 bits") + ": " + std::string(name_of(what)) + " needs " +
                                          to_text(bytes) + " more, " + std::to_string(short_of.value) + " bytes short (" + bill() + ")"};
    }
    held_[static_cast<std::size_t>(what)] += bytes.value;
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
  /// Should large buffers ask for huge pages?
  bool huge_pages() const noexcept { return huge_pages_; }

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
  bool huge_pages_;
  std::mutex charging_;
};

}  // namespace coli
