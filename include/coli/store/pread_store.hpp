// SPDX-License-Identifier: Apache-2.0
// Reads by worker threads and pread: direct where the file system allows it, buffered otherwise. Works everywhere.
//
// One mutex guards the queues; workers read outside it. Demand goes before prefetch, and prefetch never occupies the
// last worker, so that a demand waits for nobody but other demands. A cancelled read that a worker is in the middle of
// completes when its system call returns.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "coli/contracts/expert_store.hpp"
#include "coli/core/error.hpp"
#include "coli/core/fixed_name.hpp"
#include "coli/core/ids.hpp"
#include "coli/core/page_cache.hpp"
#include "coli/store/expert_index.hpp"
#include "coli/store/model_files.hpp"
#include "coli/store/part_read.hpp"
#include "coli/store/read_ops.hpp"

namespace coli {

struct PreadOptions {
  unsigned workers = 4;
  bool direct = true;
  /// Take from the page cache what lies there whole, and only the rest from the disk: for loading a model at once.
  bool cached_first = false;
  /// Buffered reads leave nothing behind in the page cache.
  bool drop_behind = false;
};

/// The index must outlive the store.
template <ReadOps Ops = SystemReads>
class BasicPreadStore {
 public:
  static constexpr FixedName name{"pread"};

  /// Errors: as ModelFiles::open.
  static Result<std::unique_ptr<BasicPreadStore>> open(const ExpertIndex& index, PreadOptions options = {},
                                                       Ops ops = {}) {
    COLI_TRY(files, ModelFiles::open(index, options.direct));
    return std::unique_ptr<BasicPreadStore>(new BasicPreadStore(index, std::move(files), options, std::move(ops)));
  }
  BasicPreadStore(const BasicPreadStore&) = delete;
  BasicPreadStore& operator=(const BasicPreadStore&) = delete;
  ~BasicPreadStore() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    work_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  Result<ReadTicket> submit(ExpertKey key, Part part, std::span<std::byte> destination, Urgency urgency) {
    if (!index_->contains(key)) return Error{Errc::internal, "there is no such expert", text_of(key, part)};
    const Extent at = index_->extent(key, part);
    if (!files_->suits(at, destination)) return destination_error(*files_, key, part, at, destination);
    ReadTicket ticket;
    {
      const std::lock_guard lock(mutex_);
      ticket = ReadTicket{next_ticket_++};
      (urgency == Urgency::demand ? demand_ : prefetch_)
          .push_back({ticket, key, part, at, destination.data(), urgency});
      ++outstanding_;
    }
    work_.notify_one();
    return ticket;
  }

  std::optional<Completion> poll() {
    const std::lock_guard lock(mutex_);
    return take_done();
  }
  std::optional<Completion> wait(std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    done_changed_.wait_for(lock, patience, [&] { return !done_.empty() || outstanding_ == 0; });
    return take_done();
  }

  void cancel(ReadTicket ticket) {
    const std::lock_guard lock(mutex_);
    for (std::deque<Request>* queue : {&demand_, &prefetch_}) {
      const auto at = std::find_if(queue->begin(), queue->end(), [&](const Request& r) { return r.ticket == ticket; });
      if (at == queue->end()) continue;
      const Request request = *at;
      queue->erase(at);
      finish(request, cancelled(request));
      return;
    }
    for (Active& active : active_) {
      if (active.ticket == ticket) active.cancelled = true;
    }
  }
  void promote(ReadTicket ticket) {
    const std::lock_guard lock(mutex_);
    const auto at =
        std::find_if(prefetch_.begin(), prefetch_.end(), [&](const Request& r) { return r.ticket == ticket; });
    if (at == prefetch_.end()) return;
    demand_.push_back(*at);
    demand_.back().urgency = Urgency::demand;
    prefetch_.erase(at);
    work_.notify_one();
  }

  StoreAlignment alignment() const noexcept { return files_->alignment(); }
  bool direct() const noexcept { return files_->any_direct(); }
  std::vector<std::string> notes() const { return files_->notes(); }

 private:
  struct Request {
    ReadTicket ticket;
    ExpertKey key;
    Part part;
    Extent at;
    std::byte* destination;
    Urgency urgency;
  };
  struct Active {
    ReadTicket ticket{};
    bool cancelled = false;
  };

  BasicPreadStore(const ExpertIndex& index, std::unique_ptr<ModelFiles> files, PreadOptions options, Ops ops)
      : index_(&index), files_(std::move(files)), options_(options), ops_(std::move(ops)) {
    const unsigned n = std::max(options_.workers, 1U);
    max_prefetching_ = std::max(n - 1, 1U);
    active_.resize(n);
    for (unsigned i = 0; i < n; ++i) workers_.emplace_back([this, i] { serve(active_[i]); });
  }

  static Error cancelled(const Request& request) {
    return Error{Errc::interrupted, "the read was cancelled", text_of(request.key, request.part)};
  }

  // The mutex is held by the callers of these three.
  std::optional<Completion> take_done() {
    if (done_.empty()) return std::nullopt;
    std::optional<Completion> first(std::move(done_.front()));
    done_.pop_front();
    return first;
  }
  void finish(const Request& request, Result<const std::byte*> how) {
    done_.push_back(Completion{request.ticket, std::move(how)});
    --outstanding_;
    done_changed_.notify_all();
  }
  std::optional<Request> take_request() {
    std::deque<Request>& queue = demand_.empty() ? prefetch_ : demand_;
    if (queue.empty() || (&queue == &prefetch_ && prefetching_ >= max_prefetching_)) return std::nullopt;
    const Request request = queue.front();
    queue.pop_front();
    return request;
  }

  void serve(Active& active) {
    std::unique_lock lock(mutex_);
    for (;;) {
      std::optional<Request> request;
      work_.wait(lock, [&] { return stop_ || (request = take_request()).has_value(); });
      if (stop_) return;
      active = {request->ticket, false};
      const bool prefetch = request->urgency == Urgency::prefetch;
      if (prefetch) ++prefetching_;
      lock.unlock();
      Result<const std::byte*> data = read(*request);
      lock.lock();
      if (prefetch && prefetching_-- == max_prefetching_) work_.notify_one();
      finish(*request, active.cancelled ? Result<const std::byte*>(cancelled(*request)) : std::move(data));
      active = {};
    }
  }

  Result<const std::byte*> read(const Request& request) {
    if (options_.cached_first && read_cached(request)) return request.destination;
    PartRead progress(request.at, request.destination, files_->block(request.at.file));
    for (;;) {
      const ReadAttempt attempt = progress.next();
      const int fd = attempt.direct ? files_->direct_fd(attempt.file) : files_->buffered_fd(attempt.file);
      ssize_t result = ::pread(fd, progress.next_destination(), attempt.bytes, static_cast<off_t>(attempt.offset));
      if (result < 0) result = -errno;
      switch (progress.take(ops_.amend(attempt, result))) {
        case PartRead::Outcome::finished:
          if (!attempt.direct && options_.drop_behind)
            drop_from_page_cache(files_->buffered_fd(request.at.file), request.at.offset, request.at.bytes);
          return progress.data();
        case PartRead::Outcome::again:
          break;
        case PartRead::Outcome::later:
          std::this_thread::sleep_for(std::chrono::microseconds(100));
          break;
        case PartRead::Outcome::refused_direct:
          files_->give_up_direct(attempt.file);
          break;
        case PartRead::Outcome::failed:
          return read_error(*files_, request.key, request.part, request.at, progress.why());
      }
    }
  }

  /// Copies the extent from the page cache if all of it is there.
  bool read_cached(const Request& request) {
    if (!in_page_cache(files_->buffered_fd(request.at.file), request.at.offset, request.at.bytes)) return false;
    PartRead progress(request.at, request.destination, 0);
    for (;;) {
      const ReadAttempt attempt = progress.next();
      const ssize_t result = ::pread(files_->buffered_fd(attempt.file), progress.next_destination(), attempt.bytes,
                                     static_cast<off_t>(attempt.offset));
      const auto outcome = progress.take(ops_.amend(attempt, result < 0 ? -errno : result));
      if (outcome == PartRead::Outcome::finished) return true;
      if (outcome != PartRead::Outcome::again) return false;  // the careful path will say what is wrong
    }
  }

  const ExpertIndex* index_;
  std::unique_ptr<ModelFiles> files_;
  PreadOptions options_;
  Ops ops_;

  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable done_changed_;
  std::deque<Request> demand_;
  std::deque<Request> prefetch_;
  std::deque<Completion> done_;
  std::vector<Active> active_;
  std::uint64_t next_ticket_ = 1;
  std::size_t outstanding_ = 0;
  unsigned prefetching_ = 0;
  unsigned max_prefetching_ = 1;
  bool stop_ = false;
  std::vector<std::thread> workers_;
};

using PreadStore = BasicPreadStore<>;
static_assert(require_expert_store<PreadStore>());

}  // namespace coli
