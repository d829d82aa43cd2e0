// SPDX-License-Identifier: Apache-2.0
// One store type for an engine whose rung of the I/O ladder is chosen when the model is opened.
//
// The ladder, best first: memory (the bytes are there already), io_uring, pread workers; the last two read directly
// where the file system can, buffered where it can't. Every step down leaves a note that a person should be shown. A
// store that was demanded by name and isn't to be had is an error, never replaced. mmap is only used when demanded. A
// read moves a megabyte: one visit a call costs nothing beside it.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "coli/contracts/expert_store.hpp"
#include "coli/core/error.hpp"
#include "coli/core/fixed_name.hpp"
#include "coli/store/expert_index.hpp"
#include "coli/store/memory_store.hpp"
#include "coli/store/mmap_store.hpp"
#include "coli/store/pread_store.hpp"
#include "coli/store/store_options.hpp"
#include "coli/store/uring_store.hpp"

namespace coli {

class AnyStore {
  using Rung = std::variant<std::unique_ptr<MemoryStore>, std::unique_ptr<MmapStore>,
#ifdef COLI_HAVE_LIBURING
                            std::unique_ptr<UringStore>,
#endif
                            std::unique_ptr<PreadStore>>;

  // First, because its deduced type must be known where it is called.
  template <class Fn>
  decltype(auto) visit(Fn&& fn) const {
    return std::visit([&](const auto& store) -> decltype(auto) { return fn(*store); }, rung_);
  }

 public:
  static constexpr FixedName name{"any"};

  /// The index must outlive the store. Errors: io, where a file can't be opened or has changed its size; unavailable,
  /// where the store demanded is not in this build or not allowed here.
  static Result<std::unique_ptr<AnyStore>> open(const ExpertIndex& index, StoreOptions options = {}) {
    switch (options.kind) {
      case StoreKind::memory:
        return open_memory(index);
      case StoreKind::mmap: {
        COLI_TRY(store, MmapStore::open(index));
        return make(std::move(store));
      }
      case StoreKind::pread:
        return open_pread(index, options, {});
      case StoreKind::uring:
        return open_uring(index, options);
      case StoreKind::best:
        break;
    }
    if (index.all_in_memory()) return open_memory(index);
    if (options.read_once) return open_pread(index, options, {});  // on purpose: io_uring would not look there
    auto uring = open_uring(index, options);
    if (uring || uring.error().code != Errc::unavailable) return uring;
    return open_pread(index, options, uring.error().message + "; pread workers instead");
  }

  /// "memory", "mmap", "uring" or "pread".
  std::string_view rung() const {
    return visit([](auto& store) { return std::remove_reference_t<decltype(store)>::name.view(); });
  }
  /// Reads bypass the page cache.
  bool direct() const {
    return visit([](auto& store) {
      if constexpr (requires { store.direct(); })
        return store.direct();
      else
        return false;
    });
  }
  /// What is slower than it could be here, and why; may grow while reading.
  std::vector<std::string> notes() const {
    std::vector<std::string> all = notes_;
    visit([&](auto& store) {
      if constexpr (requires { store.notes(); }) {
        for (std::string& note : store.notes()) all.push_back(std::move(note));
      }
    });
    return all;
  }

  Result<ReadTicket> submit(ExpertKey key, Part part, std::span<std::byte> destination, Urgency urgency) {
    return visit([&](auto& store) { return store.submit(key, part, destination, urgency); });
  }
  void begin_reads() {
    visit([](auto& store) {
      if constexpr (BatchesReads<std::remove_reference_t<decltype(store)>>) store.begin_reads();
    });
  }
  std::optional<Completion> poll() {
    return visit([](auto& store) { return store.poll(); });
  }
  std::optional<Completion> wait(std::chrono::milliseconds patience) {
    return visit([&](auto& store) { return store.wait(patience); });
  }
  void cancel(ReadTicket ticket) {
    visit([&](auto& store) { store.cancel(ticket); });
  }
  void promote(ReadTicket ticket) {
    visit([&](auto& store) { store.promote(ticket); });
  }
  StoreAlignment alignment() const noexcept {
    return visit([](auto& store) { return store.alignment(); });
  }
  void adopt(std::span<std::byte> region) {
    visit([&](auto& store) {
      if constexpr (AdoptsDestinations<std::remove_reference_t<decltype(store)>>) store.adopt(region);
    });
  }

 private:
  AnyStore(Rung rung, std::vector<std::string> notes) : rung_(std::move(rung)), notes_(std::move(notes)) {}

  static std::unique_ptr<AnyStore> make(Rung rung, std::string note = {}) {
    std::vector<std::string> notes;
    if (!note.empty()) notes.push_back(std::move(note));
    return std::unique_ptr<AnyStore>(new AnyStore(std::move(rung), std::move(notes)));
  }
  static Result<std::unique_ptr<AnyStore>> open_memory(const ExpertIndex& index) {
    if (!index.all_in_memory()) {
      return Error{Errc::unavailable,
                   "store memory needs a model whose file is in memory already; auto, pread, uring and mmap read it"};
    }
    return make(std::make_unique<MemoryStore>(index));
  }
  static Result<std::unique_ptr<AnyStore>> open_pread(const ExpertIndex& index, StoreOptions options,
                                                      std::string note) {
    PreadOptions pread{.direct = options.direct, .cached_first = options.read_once, .drop_behind = options.read_once};
    if (options.depth != 0) pread.workers = options.depth;
    COLI_TRY(store, PreadStore::open(index, pread));
    return make(std::move(store), std::move(note));
  }
  static Result<std::unique_ptr<AnyStore>> open_uring([[maybe_unused]] const ExpertIndex& index,
                                                      [[maybe_unused]] StoreOptions options) {
#ifdef COLI_HAVE_LIBURING
    UringOptions uring{.direct = options.direct};
    if (options.depth != 0) {
      uring.depth = options.depth;
      uring.fixed_depth = true;
    }
    COLI_TRY(store, UringStore::open(index, uring));
    return make(std::move(store));
#else
    return Error{Errc::unavailable, "this build holds no io_uring (liburing wasn't found)"};
#endif
  }

  Rung rung_;
  std::vector<std::string> notes_;
};
static_assert(ExpertStore<AnyStore> && require_expert_store<AnyStore>() && AdoptsDestinations<AnyStore> && BatchesReads<AnyStore>);

}  // namespace coli
