// SPDX-License-Identifier: Apache-2.0
// Reads through io_uring: no threads of its own, the disk's queue is kept full while everybody computes.
//
// Files are registered, and the staging region too where the memlock limit allows (else plain reads, noted once).
// At most `depth` reads are with the kernel, fewer where the device tells only when all have ended (queue_depth.hpp);
// the rest waits here, demand before prefetch. Prefetch is only started while no demand waits and at most one is under
// way. Short completions are resumed (see part_read.hpp). One mutex guards the ring; waiting happens outside it, in
// poll(2) on the ring. Compiled only where COLI_HAVE_LIBURING is defined.
#pragma once

#ifdef COLI_HAVE_LIBURING

#include <liburing.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "coli/contracts/expert_store.hpp"
#include "coli/core/bytes.hpp"
#include "coli/core/error.hpp"
#include "coli/core/fixed_name.hpp"
#include "coli/core/ids.hpp"
#include "coli/store/expert_index.hpp"
#include "coli/store/model_files.hpp"
#include "coli/store/part_read.hpp"
#include "coli/store/queue_depth.hpp"
#include "coli/store/read_ops.hpp"

namespace coli {

struct UringOptions {
  unsigned depth = 8;        // reads with the kernel at once, at most
  bool fixed_depth = false;  // just so many, whatever the device is like
  bool bursts = false;       // begin as with a device that wants them
  bool direct = true;
};

/// The index must outlive the store.
template <ReadOps Ops = SystemReads>
class BasicUringStore {
 public:
  static constexpr FixedName name{"uring"};

  /// Errors: as ModelFiles::open; unavailable, where the kernel or a sandbox refuses io_uring.
  static Result<std::unique_ptr<BasicUringStore>> open(const ExpertIndex& index, UringOptions options = {},
                                                       Ops ops = {}) {
    COLI_TRY(files, ModelFiles::open(index, options.direct));
    std::unique_ptr<BasicUringStore> store(new BasicUringStore(index, std::move(files), options, std::move(ops)));
    COLI_CHECK(store->set_up());
    return store;
  }
  BasicUringStore(const BasicUringStore&) = delete;
  BasicUringStore& operator=(const BasicUringStore&) = delete;
  /// Waits for what the kernel has: it writes to memory that isn't ours.
  ~BasicUringStore() {
    if (!ring_up_) return;
    demand_.clear();
    prefetch_.clear();
    while (n_under_way_ != 0) {
      (void)::io_uring_submit(&ring_);
      io_uring_cqe* cqe = nullptr;
      const int error = ::io_uring_wait_cqe(&ring_, &cqe);
      if (error == -EINTR) continue;
      if (error != 0) break;
      ::io_uring_cqe_seen(&ring_, cqe);
      --n_under_way_;
    }
    ::io_uring_queue_exit(&ring_);
  }

  /// Registers the memory that all destinations lie in.
  void adopt(std::span<std::byte> region) {
    const std::lock_guard lock(mutex_);
    if (!registered_.empty()) (void)::io_uring_unregister_buffers(&ring_);
    registered_ = {};
    if (region.empty()) return;
    const iovec memory{region.data(), region.size()};
    if (const int error = ::io_uring_register_buffers(&ring_, &memory, 1); error != 0) {
      rlimit limit{};
      (void)::getrlimit(RLIMIT_MEMLOCK, &limit);
      files_->note("io_uring: " + to_text(Bytes{region.size()}) + " of staging buffers are not registered (" +
                   std::strerror(-error) + ", memlock limit " + to_text(Bytes{limit.rlim_cur}) +
                   "), plain reads instead");
      return;
    }
    registered_ = region;
  }

  Result<ReadTicket> submit(ExpertKey key, Part part, std::span<std::byte> destination, Urgency urgency) {
    if (!index_->contains(key)) return Error{Errc::internal, "there is no such expert", text_of(key, part)};
    const Extent at = index_->extent(key, part);
    if (!files_->suits(at, destination)) return destination_error(*files_, key, part, at, destination);
    const std::lock_guard lock(mutex_);
    const ReadTicket ticket{next_ticket_++};
    Request request{ticket, key, part, urgency, PartRead(at, destination.data(), files_->block(at.file))};
    (urgency == Urgency::demand ? demand_ : prefetch_).push_back(std::move(request));
    ++outstanding_;
    return ticket;
  }
  void begin_reads() {
    const std::lock_guard lock(mutex_);
    pump();
  }

  std::optional<Completion> poll() {
    const std::lock_guard lock(mutex_);
    done_.empty() ? reap() : pump();
    return take_done();
  }

  std::optional<Completion> wait(std::chrono::milliseconds patience) {
    const auto deadline = Clock::now() + patience;
    for (;;) {
      auto until = deadline;
      std::uint64_t begun = 0;
      {
        const std::lock_guard lock(mutex_);
        done_.empty() ? reap() : pump();
        begun = n_begun_;
        if (!done_.empty() || outstanding_ == 0) return take_done();
        for (const Postponed& postponed : postponed_) until = std::min(until, postponed.due);
      }
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
      if (left <= 0 && until == deadline) return std::nullopt;
      pollfd ring{ring_.ring_fd, POLLIN, 0};
      const auto asleep = Clock::now();
      if (::poll(&ring, 1, static_cast<int>(std::max<long>(left, 0))) > 0 && Clock::now() - asleep > kAWhile) {
        const std::lock_guard lock(mutex_);
        if (begun == n_begun_) depth_.woke(n_under_way_, ::io_uring_cq_ready(&ring_));
      }
    }
  }

  void cancel(ReadTicket ticket) {
    const std::lock_guard lock(mutex_);
    for (std::deque<Request>* queue : {&demand_, &prefetch_}) {
      const auto at = std::find_if(queue->begin(), queue->end(), [&](const Request& r) { return r.ticket == ticket; });
      if (at == queue->end()) continue;
      const Request request = std::move(*at);
      queue->erase(at);
      finish(request, cancelled(request));
      return;
    }
    // A block read can't be taken back: it completes, then counts as cancelled.
    for (Request& request : under_way_) {
      if (request.ticket == ticket) request.cancelled = true;
    }
    for (Postponed& postponed : postponed_) {
      if (postponed.request.ticket == ticket) postponed.request.cancelled = true;
    }
  }

  void promote(ReadTicket ticket) {
    const std::lock_guard lock(mutex_);
    const auto is_it = [&](const Request& r) { return r.ticket == ticket && r.urgency == Urgency::prefetch; };
    if (const auto at = std::find_if(prefetch_.begin(), prefetch_.end(), is_it); at != prefetch_.end()) {
      at->urgency = Urgency::demand;
      demand_.push_back(std::move(*at));
      prefetch_.erase(at);
    } else if (const auto there = std::find_if(under_way_.begin(), under_way_.end(), is_it); there != under_way_.end()) {
      there->urgency = Urgency::demand;
      --n_prefetching_;
    }
  }

  StoreAlignment alignment() const noexcept { return files_->alignment(); }
  bool direct() const noexcept { return files_->any_direct(); }
  bool registered_buffers() const noexcept { return !registered_.empty(); }
  bool registered_files() const noexcept { return files_registered_; }
  std::vector<std::string> notes() const { return files_->notes(); }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::microseconds kAWhile{50};  // who slept less may have come as several had just ended
  static constexpr std::uint64_t kLargestRead = kGiB;  // the kernel counts bytes in 32 bits; the rest is resumed

  struct Request {
    ReadTicket ticket{};
    ExpertKey key{};
    Part part{};
    Urgency urgency{};
    PartRead progress{};
    bool cancelled = false;
  };
  struct Postponed {
    Request request;
    Clock::time_point due;
  };

  BasicUringStore(const ExpertIndex& index, std::unique_ptr<ModelFiles> files, UringOptions options, Ops ops)
      : index_(&index),
        files_(std::move(files)),
        ops_(std::move(ops)),
        depth_(options.depth, !options.fixed_depth),
        under_way_(std::max(options.depth, 1U)) {
    for (std::size_t i = under_way_.size(); i-- > 0;) free_.push_back(i);
    if (options.bursts) depth_.begin_with_bursts();
  }

  Result<void> set_up() {
    if (const int error = ::io_uring_queue_init(static_cast<unsigned>(2 * under_way_.size()), &ring_, 0); error != 0) {
      return Error{Errc::unavailable, std::string("io_uring is refused here: ") + std::strerror(-error)};
    }
    ring_up_ = true;
    // Even numbers are direct, odd ones buffered.
    std::vector<int> fds;
    for (std::uint32_t f = 0; f < files_->size(); ++f) {
      fds.push_back(files_->direct_fd(f));
      fds.push_back(files_->buffered_fd(f));
    }
    const int error = ::io_uring_register_files(&ring_, fds.data(), static_cast<unsigned>(fds.size()));
    files_registered_ = error == 0;
    if (error != 0) files_->note(std::string("io_uring: files are not registered (") + std::strerror(-error) + ")");
    return {};
  }

  static Error cancelled(const Request& request) {
    return Error{Errc::interrupted, "the read was cancelled", text_of(request.key, request.part)};
  }

  // The mutex is held by the callers of all that follows.
  std::optional<Completion> take_done() {
    if (done_.empty()) return std::nullopt;
    std::optional<Completion> first(std::move(done_.front()));
    done_.pop_front();
    return first;
  }
  void finish(const Request& request, Result<const std::byte*> how) {
    done_.push_back(Completion{request.ticket, std::move(how)});
    --outstanding_;
  }

  /// Hands the kernel what it may have.
  void pump() {
    // Guesses neither hold up a demand nor lengthen its burst.
    const bool demanded = !demand_.empty();
    const std::size_t under_way = n_under_way_ - (demanded ? n_prefetching_ : 0);
    const std::size_t room = depth_.room(under_way, demanded ? demand_.size() : prefetch_.size());
    for (std::size_t n = std::min(room, free_.size()); n != 0; --n) {
      const bool idle = n_under_way_ - n_prefetching_ <= 1;
      std::deque<Request>* const queue = !demand_.empty()             ? &demand_
                                         : idle && !prefetch_.empty() ? &prefetch_
                                                                      : nullptr;
      if (queue == nullptr) break;
      const std::size_t place = free_.back();
      free_.pop_back();
      under_way_[place] = std::move(queue->front());
      queue->pop_front();
      ++n_under_way_;
      ++n_begun_;
      if (under_way_[place].urgency == Urgency::prefetch) ++n_prefetching_;
      prepare(place);
    }
    if (::io_uring_sq_ready(&ring_) != 0) (void)::io_uring_submit(&ring_);  // what the kernel refused before, too
  }

  void prepare(std::size_t place) {
    const PartRead& progress = under_way_[place].progress;
    const ReadAttempt attempt = progress.next();
    std::byte* const to = progress.next_destination();
    const auto bytes = static_cast<unsigned>(std::min(attempt.bytes, kLargestRead));
    io_uring_sqe* const sqe = ::io_uring_get_sqe(&ring_);  // never null: the ring holds twice the depth
    const int fd = files_registered_ ? static_cast<int>(2 * attempt.file + (attempt.direct ? 0 : 1))
                   : attempt.direct  ? files_->direct_fd(attempt.file)
                                     : files_->buffered_fd(attempt.file);
    if (to >= registered_.data() && to + bytes <= registered_.data() + registered_.size()) {
      ::io_uring_prep_read_fixed(sqe, fd, to, bytes, attempt.offset, 0);
    } else {
      ::io_uring_prep_read(sqe, fd, to, bytes, attempt.offset);
    }
    if (files_registered_) ::io_uring_sqe_set_flags(sqe, IOSQE_FIXED_FILE);
    ::io_uring_sqe_set_data64(sqe, place);
  }

  /// Books what the kernel has finished.
  void reap() {
    for (std::size_t i = postponed_.size(); i-- > 0;) {
      if (postponed_[i].due > Clock::now()) continue;
      demand_.push_front(std::move(postponed_[i].request));
      postponed_.erase(postponed_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    io_uring_cqe* cqe = nullptr;
    while (::io_uring_peek_cqe(&ring_, &cqe) == 0) {
      const auto place = static_cast<std::size_t>(::io_uring_cqe_get_data64(cqe));
      const int result = cqe->res;
      ::io_uring_cqe_seen(&ring_, cqe);
      Request request = std::move(under_way_[place]);
      under_way_[place] = {};
      free_.push_back(place);
      --n_under_way_;
      if (request.urgency == Urgency::prefetch) --n_prefetching_;
      take(std::move(request), result);
    }
    pump();
  }

  void take(Request request, int result) {
    if (result == -ECANCELED) result = -EINTR;  // the thread that had submitted it has ended
    const ReadAttempt attempt = request.progress.next();
    const auto outcome = request.progress.take(ops_.amend(attempt, result));
    if (request.cancelled) return finish(request, cancelled(request));
    switch (outcome) {
      case PartRead::Outcome::finished:
        return finish(request, request.progress.data());
      case PartRead::Outcome::failed:
        return finish(request,
                      read_error(*files_, request.key, request.part, request.progress.want(), request.progress.why()));
      case PartRead::Outcome::later:
        postponed_.push_back({std::move(request), Clock::now() + std::chrono::milliseconds(1)});
        return;
      case PartRead::Outcome::refused_direct:
        files_->give_up_direct(attempt.file);
        break;
      case PartRead::Outcome::again:
        break;
    }
    (request.urgency == Urgency::demand ? demand_ : prefetch_).push_front(std::move(request));
  }

  const ExpertIndex* index_;
  std::unique_ptr<ModelFiles> files_;
  Ops ops_;

  std::mutex mutex_;
  io_uring ring_{};
  bool ring_up_ = false;
  bool files_registered_ = false;
  std::span<std::byte> registered_;
  QueueDepth depth_;
  std::vector<Request> under_way_;  // by place; a completion carries its place
  std::vector<std::size_t> free_;
  std::size_t n_under_way_ = 0;
  std::uint64_t n_begun_ = 0;  // ever
  std::size_t n_prefetching_ = 0;
  std::deque<Request> demand_;
  std::deque<Request> prefetch_;
  std::vector<Postponed> postponed_;
  std::deque<Completion> done_;
  std::uint64_t next_ticket_ = 1;
  std::size_t outstanding_ = 0;
};

using UringStore = BasicUringStore<>;
static_assert(require_expert_store<UringStore>() && AdoptsDestinations<UringStore>);

}  // namespace coli

#endif  // COLI_HAVE_LIBURING
