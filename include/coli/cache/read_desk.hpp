// SPDX-License-Identifier: Apache-2.0
// Which parts are still to be read, under way, or waiting to be put into their slot? Between the cache and its store.
//
// Demand is submitted first, in order, as far as staging buffers reach; speculative reads only when no demand is left
// to submit, and in at most half of the buffers; a demand that finds none takes those of guesses that have arrived.
// Everything but wait() is called under the cache's lock.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "coli/cache/in_flight.hpp"
#include "coli/cache/staging.hpp"
#include "coli/contracts/expert_store.hpp"
#include "coli/core/error.hpp"
#include "coli/core/ids.hpp"

namespace coli {

template <ExpertStore S>
class ReadDesk {
 public:
  using Clock = std::chrono::steady_clock;

  /// How a read that came in is to be treated: `error` is set where it failed.
  struct Received {
    Filling* filling;
    Part part;
    std::uint64_t bytes;
    std::optional<Error> error;
  };

  /// A part is put into its slot in so many pieces.
  ReadDesk(S& store, Staging staging, std::uint32_t n_pieces = 1)
      : store_(&store), staging_(std::move(staging)), copies_(store.alignment().copies()), n_pieces_(n_pieces) {
    if constexpr (AdoptsDestinations<S>) {
      if (copies_) store.adopt(staging_.region());
    }
  }

  /// Parts that compute can't start without go first.
  void order(Filling& filling, std::array<std::uint64_t, kParts> bytes) {
    for (std::size_t p = 0; p < kParts; ++p) {
      if (filling.submitted.has(static_cast<Part>(p))) continue;
      (filling.speculative ? speculative_ : demand_).push_back({&filling, static_cast<Part>(p), bytes[p]});
    }
  }

  /// Submits what fits. Returns a part whose submission failed, if one did: call again after dealing with it.
  std::optional<Received> submit() {
    auto failed = submit_what_fits();
    if constexpr (BatchesReads<S>) store_->begin_reads();
    return failed;
  }

  /// Has the disk nothing to do that anybody waits for or has guessed, and are there buffers for one expert that nobody
  /// has asked for?
  bool at_leisure() const noexcept {
    return demand_.empty() && speculative_.empty() && staging_.n_free() >= kParts &&
           n_speculative_buffers() + kParts <= staging_.size() / 2 &&
           std::all_of(under_way_.begin(), under_way_.end(), [](const ReadUnderWay& read) { return read.filling->speculative; });
  }

  /// True where a demand waits for a staging buffer: putting an arrived part into its slot frees one.
  bool starved() const noexcept { return !demand_.empty(); }
  bool idle() const noexcept { return under_way_.empty() && arrived_.empty() && demand_.empty(); }
  bool any_under_way() const noexcept { return !under_way_.empty(); }
  bool any_arrived() const noexcept { return !arrived_.empty(); }

  std::optional<Completion> poll() { return under_way_.empty() ? std::nullopt : store_->poll(); }
  /// Without the lock.
  std::optional<Completion> wait(std::chrono::milliseconds patience) { return store_->wait(patience); }

  /// Books a completion. Nothing: it belonged to something dropped meanwhile, `orphan` is told whose.
  std::optional<Received> receive(Completion&& completion, Filling*& orphan) {
    orphan = nullptr;
    const auto at = std::find_if(under_way_.begin(), under_way_.end(),
                                 [&](const ReadUnderWay& read) { return read.ticket == completion.ticket; });
    if (at == under_way_.end()) return std::nullopt;
    const ReadUnderWay read = *at;
    *at = under_way_.back();
    under_way_.pop_back();
    if (under_way_.empty()) read_time_ += Clock::now() - busy_since_;
    Filling& filling = *read.filling;
    --filling.n_under_way;
    if (filling.dead) {
      give_back(read.buffer);
      orphan = &filling;
      return std::nullopt;
    }
    if (!completion.data) {
      give_back(read.buffer);
      return Received{&filling, read.part, read.bytes, std::move(completion.data).error()};
    }
    const auto p = static_cast<std::size_t>(read.part);
    filling.raw[p] = {*completion.data, read.bytes};
    filling.buffer[p] = read.buffer;
    filling.arrived.add(read.part);
    bytes_read_ += read.bytes;
    if (filling.speculative)
      ++n_speculative_arrived_;
    else
      arrived_.push_back({&filling, read.part, read.bytes});
    return Received{&filling, read.part, read.bytes, std::nullopt};
  }

  /// A piece to be put into its slot, one of `preferred` if there is one; after a part's last, hand its buffer back with
  /// `written`. All pieces of a part come before those of the next, so that something is whole soon.
  std::optional<PieceToDo> take_arrived(const Filling* preferred) {
    return take_piece(arrived_, preferred);
  }
  /// The same of what nobody has asked for.
  std::optional<PieceToDo> take_unasked() { return take_piece(unasked_, nullptr); }
  void written(Filling& filling, Part part) {
    give_back(std::exchange(filling.buffer[static_cast<std::size_t>(part)], Filling::kNoBuffer));
  }

  /// A speculative filling is demanded now. True: all of its bytes are here.
  bool claim(Filling& filling, std::array<std::uint64_t, kParts> bytes) {
    end_speculation(filling, bytes, arrived_);
    for (const ReadUnderWay& read : under_way_) {
      if (read.filling == &filling) store_->promote(read.ticket);
    }
    order(filling, bytes);
    return filling.arrived.all();
  }

  /// A speculative filling that has all arrived got a slot though nobody has asked for it.
  void settle(Filling& filling, std::array<std::uint64_t, kParts> bytes) {
    end_speculation(filling, bytes, unasked_);
  }
  /// Now somebody has.
  void ask_for(const Filling& filling) {
    std::copy_if(unasked_.begin(), unasked_.end(), std::back_inserter(arrived_), [&](const PartToDo& todo) { return todo.filling == &filling; });
    forget(unasked_, filling);
  }

  /// Forgets a filling: nothing more of it is submitted, what is under way is cancelled, what lies here is freed.
  void drop(Filling& filling) {
    forget(demand_, filling);
    forget(speculative_, filling);
    forget(arrived_, filling);
    forget(unasked_, filling);
    if (filling.speculative) n_speculative_arrived_ -= filling.arrived.size();
    for (std::size_t p = 0; p < kParts; ++p) {
      const auto part = static_cast<Part>(p);
      if (!filling.writing.has(part)) written(filling, part);  // else its writer will
    }
    for (const ReadUnderWay& read : under_way_) {
      if (read.filling == &filling) store_->cancel(read.ticket);
    }
  }

  /// Does a demand starve while speculative parts hold buffers?
  bool wants_speculative_buffers() const noexcept { return !demand_.empty() && copies_ && staging_.n_free() == 0; }

  std::span<std::byte> buffers() const noexcept { return staging_.region(); }
  std::uint64_t bytes_read() const noexcept { return bytes_read_; }
  double read_seconds() const noexcept {
    auto total = read_time_;
    if (!under_way_.empty()) total += Clock::now() - busy_since_;
    return std::chrono::duration<double>(total).count();
  }
  std::uint32_t n_buffers() const noexcept { return staging_.size(); }
  void reset_stats() noexcept {
    bytes_read_ = 0;
    read_time_ = {};
    busy_since_ = Clock::now();
  }

 private:
  static constexpr std::size_t kMaxPartsWithoutBuffers = 64;

  bool may_submit() const noexcept {
    return copies_ ? staging_.n_free() != 0 : under_way_.size() + arrived_.size() < kMaxPartsWithoutBuffers;
  }
  std::optional<Received> submit_what_fits() {
    while (!demand_.empty() && may_submit()) {
      if (auto failed = submit_front(demand_, Urgency::demand)) return failed;
    }
    while (demand_.empty() && !speculative_.empty() && may_submit() && n_speculative_buffers() < staging_.size() / 2) {
      if (auto failed = submit_front(speculative_, Urgency::prefetch)) return failed;
    }
    return std::nullopt;
  }
  std::optional<Received> submit_front(std::deque<PartToDo>& queue, Urgency urgency) {
    const PartToDo todo = queue.front();
    queue.pop_front();
    const std::uint32_t buffer = copies_ ? *staging_.take() : Filling::kNoBuffer;
    todo.filling->submitted.add(todo.part);
    auto ticket =
        store_->submit(todo.filling->key, todo.part, copies_ ? staging_.at(buffer) : std::span<std::byte>{}, urgency);
    if (!ticket) {
      give_back(buffer);
      return Received{todo.filling, todo.part, todo.bytes, std::move(ticket).error()};
    }
    if (under_way_.empty()) busy_since_ = Clock::now();
    under_way_.push_back({*ticket, todo.filling, todo.part, buffer, todo.bytes});
    ++todo.filling->n_under_way;
    return std::nullopt;
  }
  /// What has arrived goes to `to`.
  void end_speculation(Filling& filling, std::array<std::uint64_t, kParts> bytes, std::deque<PartToDo>& to) {
    filling.speculative = false;
    n_speculative_arrived_ -= filling.arrived.size();
    forget(speculative_, filling);
    for (std::size_t p = 0; p < kParts; ++p) {
      if (filling.arrived.has(static_cast<Part>(p))) to.push_back({&filling, static_cast<Part>(p), bytes[p]});
    }
  }
  std::optional<PieceToDo> take_piece(std::deque<PartToDo>& queue, const Filling* preferred) {
    if (queue.empty()) return std::nullopt;
    auto at = queue.begin();
    if (preferred != nullptr) {
      at = std::find_if(at, queue.end(), [&](const PartToDo& part) { return part.filling == preferred; });
      if (at == queue.end()) at = queue.begin();
    }
    const PieceToDo piece{at->filling, at->part, {at->next_piece, n_pieces_}, at->bytes};
    if (++at->next_piece == n_pieces_) queue.erase(at);
    return piece;
  }
  std::size_t n_speculative_buffers() const noexcept {
    std::size_t n = 0;
    for (const ReadUnderWay& read : under_way_) n += read.filling->speculative ? 1 : 0;
    return n + n_speculative_arrived_;
  }
  void give_back(std::uint32_t buffer) {
    if (buffer != Filling::kNoBuffer) staging_.give_back(buffer);
  }
  static void forget(std::deque<PartToDo>& queue, const Filling& filling) {
    std::erase_if(queue, [&](const PartToDo& todo) { return todo.filling == &filling; });
  }

  S* store_;
  Staging staging_;
  bool copies_;
  std::uint32_t n_pieces_;
  std::deque<PartToDo> demand_;
  std::deque<PartToDo> speculative_;
  std::deque<PartToDo> arrived_;
  std::deque<PartToDo> unasked_;  // the same, of settled fillings
  std::vector<ReadUnderWay> under_way_;
  std::size_t n_speculative_arrived_ = 0;
  std::uint64_t bytes_read_ = 0;
  Clock::duration read_time_{};
  Clock::time_point busy_since_{};
};

}  // namespace coli
