// SPDX-License-Identifier: Apache-2.0
// Who comes first of many, when one after another changes rank? A tree of winners over contestants 0 to n - 1.
//
// The smaller rank wins, at equal ranks the smaller tie-breaker. A change plays the matches of one path again and stops
// where it changes no winner: O(log n), a match or two where who changed is far from winning. Nothing is allocated after
// construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace coli {

class Tournament {
 public:
  static constexpr std::uint64_t kAbsent = std::numeric_limits<std::uint64_t>::max();  // the rank of who can't win

  explicit Tournament(std::uint32_t n) : n_(n), winner_(2 * std::size_t{n}) { clear(); }

  /// Nobody has a rank.
  void clear() noexcept {
    for (std::uint32_t i = 0; i < n_; ++i) winner_[n_ + i] = {kAbsent, i, i};
    play_all();
  }
  /// Requires ranks below kAbsent of who is to win.
  void set(std::uint32_t who, std::uint64_t rank, std::uint32_t tie) noexcept {
    Entry now{rank, tie, who};
    std::size_t at = n_ + who;
    winner_[at] = now;
    for (; at > 1; at /= 2) {
      const Entry other = winner_[at ^ 1];
      if (beats(other, now)) now = other;
      Entry& won = winner_[at / 2];
      if (won.who == now.who && won.who != who) return;  // who doesn't win here, and didn't before
      won = now;
    }
  }

  /// The one that wins; nothing where nobody has a rank.
  std::optional<std::uint32_t> winner() const noexcept {
    return n_ == 0 || winner_[1].rank == kAbsent ? std::nullopt : std::optional(winner_[1].who);
  }
  /// The first of those that `may` win: O(log n) for each that comes before it and may not.
  template <class May>
  std::optional<std::uint32_t> first(const May& may) const noexcept {
    const Entry* const found = n_ == 0 ? nullptr : first_below(1, may);
    return found == nullptr ? std::nullopt : std::optional(found->who);
  }

  /// Changes every rank by a function that keeps the order, or makes ranks equal.
  template <class Fn>
  void scale(const Fn& fn) noexcept {
    for (std::size_t at = n_; at < 2 * n_; ++at)
      if (winner_[at].rank != kAbsent) winner_[at].rank = fn(winner_[at].rank);
    play_all();
  }

 private:
  struct Entry {
    std::uint64_t rank;
    std::uint32_t tie;
    std::uint32_t who;
  };
  static bool beats(const Entry& a, const Entry& b) noexcept { return a.rank != b.rank ? a.rank < b.rank : a.tie < b.tie; }

  void play_all() noexcept {
    for (std::size_t at = n_; at-- > 1;) winner_[at] = beats(winner_[2 * at + 1], winner_[2 * at]) ? winner_[2 * at + 1] : winner_[2 * at];
  }
  template <class May>
  const Entry* first_below(std::size_t at, const May& may) const noexcept {
    if (winner_[at].rank == kAbsent) return nullptr;
    if (may(winner_[at].who)) return &winner_[at];
    if (at >= n_) return nullptr;
    const Entry* const a = first_below(2 * at, may);
    const Entry* const b = first_below(2 * at + 1, may);
    return a == nullptr || (b != nullptr && beats(*b, *a)) ? b : a;
  }

  std::size_t n_;
  std::vector<Entry> winner_;  // [1, n): of the matches, the final at 1; [n, 2n): the contestants
};

}  // namespace coli
