// SPDX-License-Identifier: Apache-2.0
// What must a byte store provide? Submit a read of one expert part, learn once how it ended.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "coli/contracts/names_itself.hpp"
#include "coli/core/error.hpp"
#include "coli/core/ids.hpp"

namespace coli {

/// The three matrices of a routed expert, in the order that compute wants them.
enum class Part : std::uint8_t { gate, up, down };
inline constexpr std::size_t kParts = 3;
constexpr std::string_view name_of(Part part) {
  constexpr std::string_view names[kParts]{"gate", "up", "down"};
  return names[static_cast<std::size_t>(part)];
}

/// Demand reads go before prefetch reads, whatever order they were submitted in.
enum class Urgency : std::uint8_t { demand, prefetch };

/// Where the bytes of one part lie: `bytes` bytes at `offset` of file number `file` of the model's split set.
struct Extent {
  std::uint32_t file;
  std::uint64_t offset;
  std::uint64_t bytes;
  friend constexpr auto operator<=>(const Extent&, const Extent&) = default;
};

/// A read that was asked for. Tickets are unique within a store's life.
struct ReadTicket {
  std::uint64_t value;
  friend constexpr auto operator<=>(ReadTicket, ReadTicket) = default;
};

/// How a read ended. On success `data` points at the extent's first byte inside the destination (direct reads cover
/// the extent with aligned blocks, so it may lie past the start); a memory store points at its own bytes.
struct Completion {
  ReadTicket ticket;
  Result<const std::byte*> data;
};

/// What destinations must look like: aligned, and longer than the extent by `slack`. All zero where the store hands
/// out its own bytes: then nothing is copied and destinations are ignored.
struct StoreAlignment {
  std::size_t alignment;
  std::size_t slack;
  constexpr bool copies() const noexcept { return alignment != 0; }
};

template <class S>
concept SubmitsReads = requires(S s, ExpertKey key, Part part, std::span<std::byte> destination, Urgency urgency) {
  { s.submit(key, part, destination, urgency) } -> std::same_as<Result<ReadTicket>>;
};
template <class S>
concept ReportsCompletions = requires(S s, std::chrono::milliseconds patience) {
  { s.poll() } -> std::same_as<std::optional<Completion>>;          // never blocks
  { s.wait(patience) } -> std::same_as<std::optional<Completion>>;  // nothing: none came in time, or none is due
};
template <class S>
concept CancelsReads = requires(S s, ReadTicket t) {
  { s.cancel(t) } -> std::same_as<void>;
};
template <class S>
concept PromotesReads = requires(S s, ReadTicket t) {
  { s.promote(t) } -> std::same_as<void>;  // a prefetch that is now demanded; no effect once it is under way
};
template <class S>
concept StatesAlignment = requires(const S s) {
  { s.alignment() } noexcept -> std::same_as<StoreAlignment>;
};

/// Laws (check_store_laws<S>()): every ticket completes exactly once, cancelled ones too (with Errc::interrupted where
/// the read had not ended before); short reads are resumed; errors name file, offset, layer and expert; nothing touches
/// a destination after its completion was returned. Any thread may call at any time: wait() holds up nobody's submit().
template <class S>
concept ExpertStore = NamesItself<S> && SubmitsReads<S> && ReportsCompletions<S> && CancelsReads<S> &&
                      PromotesReads<S> && StatesAlignment<S>;

/// Optional: told once, before the first read, of the memory that all destinations will lie in, so that it can be
/// registered with the kernel. Refusal is not an error: the store goes on without, and says so in its notes.
template <class S>
concept AdoptsDestinations = requires(S s, std::span<std::byte> region) {
  { s.adopt(region) } -> std::same_as<void>;
};

/// Optional: submit() and promote() may hold reads back until this is called, or poll() or wait(), so that all that are
/// wanted at once go to the kernel in one call. What wraps such a store passes the call on.
template <class S>
concept BatchesReads = requires(S s) {
  { s.begin_reads() } -> std::same_as<void>;
};

template <class S>
consteval bool require_expert_store() {
  static_assert(NamesItself<S>, "ExpertStore: add  static constexpr FixedName name{\"...\"}");
  static_assert(
      SubmitsReads<S>,
      "ExpertStore: add  Result<ReadTicket> submit(ExpertKey, Part, std::span<std::byte> destination, Urgency)");
  static_assert(ReportsCompletions<S>,
                "ExpertStore: add  std::optional<Completion> poll()  and  wait(std::chrono::milliseconds)");
  static_assert(CancelsReads<S>, "ExpertStore: add  void cancel(ReadTicket)");
  static_assert(PromotesReads<S>, "ExpertStore: add  void promote(ReadTicket)");
  static_assert(StatesAlignment<S>, "ExpertStore: add  StoreAlignment alignment() const noexcept");
  return true;
}

}  // namespace coli
