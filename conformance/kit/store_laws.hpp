// SPDX-License-Identifier: Apache-2.0
// What every store must do, whatever it is: the laws of contracts/expert_store.hpp, run over any of them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <vector>

#include "coli/contracts/expert_store.hpp"
#include "coli/conformance/expert_files.hpp"
#include "coli/conformance/findings.hpp"
#include "coli/conformance/watchdog.hpp"

namespace coli::conformance {

/// Memory that a store may read into: aligned as it asks, with a pattern that shows late writes.
class Destinations {
 public:
  Destinations(std::size_t n, std::uint64_t largest_part, StoreAlignment store)
      : copies_(store.copies()), each_((largest_part + store.slack + 4095) / 4096 * 4096) {
    if (copies_) memory_.reset(static_cast<std::byte*>(std::aligned_alloc(4096, each_ * n)));
    n_ = n;
  }
  std::span<std::byte> at(std::size_t i) const {
    return copies_ ? std::span(memory_.get() + i * each_, each_) : std::span<std::byte>{};
  }
  std::span<std::byte> region() const { return {memory_.get(), copies_ ? n_ * each_ : 0}; }
  void mark(std::size_t i) const {
    for (std::byte& byte : at(i)) byte = std::byte{0xA5};
  }
  bool still_marked(std::size_t i) const {
    for (const std::byte byte : at(i)) {
      if (byte != std::byte{0xA5}) return false;
    }
    return true;
  }

 private:
  struct Free {
    void operator()(std::byte* at) const { std::free(at); }
  };
  bool copies_;
  std::size_t each_;
  std::size_t n_ = 0;
  std::unique_ptr<std::byte, Free> memory_;
};

inline constexpr std::string_view kWholePart = "a read that succeeds gives the whole part, and that part";

struct Asked {
  ExpertKey key;
  Part part;
  std::size_t destination;
};

/// All experts of the files in random order, some cancelled, some promoted; `may_fail` where the store injects errors.
/// Returns how many reads failed with Errc::io.
template <ExpertStore S>
std::size_t check_every_ticket_completes_once(Findings& laws, S& store, const ExpertFiles& files, std::uint64_t seed, bool cancels,
                                              bool may_fail = false) {
  const Watchdog watchdog(std::string(S::name.view()) + ": every ticket completes once");
  const ExpertIndex& index = files.index();
  Random random(seed);
  std::vector<Asked> todo;
  for (std::uint32_t l = 0; l < index.n_layers(); ++l) {
    for (std::uint32_t e = 0; e < index.n_experts(); ++e) {
      for (std::size_t p = 0; p < kParts; ++p) {
        const ExpertKey key{LayerId{l}, ExpertId{e}};
        if (index.contains(key)) todo.push_back({key, static_cast<Part>(p), 0});
      }
    }
  }
  for (std::size_t i = 0; i < todo.size(); ++i) {
    std::swap(todo[i], todo[i + random.below(todo.size() - i)]);
    todo[i].destination = i;
  }
  const Destinations destinations(todo.size(), index.largest_part_bytes(), store.alignment());
  if constexpr (AdoptsDestinations<S>) store.adopt(destinations.region());

  std::map<std::uint64_t, Asked> asked;
  std::set<std::uint64_t> completed;
  std::vector<std::size_t> marked;
  std::size_t n_failed = 0;
  const auto take = [&](const Completion& completion) {
    const auto at = asked.find(completion.ticket.value);
    if (!laws.check(at != asked.end(), "a completion carries a ticket that submit gave")) return;
    laws.check(completed.insert(completion.ticket.value).second, "every ticket completes once");
    const Asked& what = at->second;
    if (completion.data) {
      laws.check(is_part(*completion.data, index.part_bytes(what.key.layer, what.part), what.key, what.part), kWholePart, text_of(what.key, what.part));
    } else if (completion.data.error().code == Errc::io && may_fail) {
      const Error& error = completion.data.error();
      const Extent extent = index.extent(what.key, what.part);
      laws.check(error.file == index.files()[extent.file].path, "a read error names the file", error.line());
      laws.check(error.subject == text_of(what.key, what.part), "a read error names layer, expert and part", error.line());
      laws.check(error.message.find("offset " + std::to_string(extent.offset)) != std::string::npos, "a read error names the offset", error.line());
      ++n_failed;
    } else {
      laws.check(cancels && completion.data.error().code == Errc::interrupted, "a read fails by an I/O error, or as interrupted after a cancel", completion.data.error().line());
    }
    destinations.mark(what.destination);
    marked.push_back(what.destination);
  };
  for (const Asked& what : todo) {
    const auto urgency = random.below(3) == 0 ? Urgency::prefetch : Urgency::demand;
    auto ticket = store.submit(what.key, what.part, destinations.at(what.destination), urgency);
    if (!laws.check(ticket.has_value(), "a read of what is there is accepted")) return n_failed;
    laws.check(asked.emplace(ticket->value, what).second, "no two reads have the same ticket");
    if (cancels && random.below(4) == 0) store.cancel(ReadTicket{1 + random.below(ticket->value)});
    if (random.below(4) == 0) store.promote(ReadTicket{1 + random.below(ticket->value)});
    if (random.below(3) == 0) {
      if (auto completion = store.poll()) take(*completion);
    }
  }
  while (completed.size() < asked.size()) {
    if (auto completion = store.wait(std::chrono::milliseconds(1000))) take(*completion);
  }
  laws.check(!store.poll(), "no completion without a read");
  const auto before = std::chrono::steady_clock::now();
  laws.check(!store.wait(std::chrono::milliseconds(5000)), "no completion without a read");
  laws.check(std::chrono::steady_clock::now() - before < std::chrono::seconds(4), "with nothing outstanding, wait returns at once");
  for (const std::size_t destination : marked) laws.check(destinations.still_marked(destination), "a destination is not touched after its completion");
  return n_failed;
}

/// Several threads submit, several wait, at the same time.
template <ExpertStore S>
void check_any_thread_may_call(Findings& laws, S& store, const ExpertFiles& files) {
  const Watchdog watchdog(std::string(S::name.view()) + ": any thread may call");
  const ExpertIndex& index = files.index();
  constexpr std::size_t kThreads = 3;
  constexpr std::size_t kEach = 40;
  const Destinations destinations(kThreads * kEach, index.largest_part_bytes(), store.alignment());
  std::mutex mutex;
  std::map<std::uint64_t, Asked> asked;
  std::vector<Completion> completions;
  std::vector<std::thread> threads;
  std::atomic<std::size_t> n_done{0};
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Random random(t);
      for (std::size_t i = 0; i < kEach; ++i) {
        const ExpertKey key{LayerId{static_cast<std::uint32_t>(1 + random.below(index.n_layers() - 1))},
                            ExpertId{static_cast<std::uint32_t>(random.below(index.n_experts()))}};
        const Asked what{key, static_cast<Part>(random.below(kParts)), t * kEach + i};
        const auto ticket = store.submit(key, what.part, destinations.at(what.destination), Urgency::demand);
        if (!ticket) std::abort();
        const std::lock_guard lock(mutex);
        asked.emplace(ticket->value, what);
      }
    });
    threads.emplace_back([&] {
      while (n_done < kThreads * kEach) {
        auto completion = store.wait(std::chrono::milliseconds(2));
        if (!completion) continue;
        ++n_done;
        const std::lock_guard lock(mutex);
        completions.push_back(std::move(*completion));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  laws.check(completions.size() == kThreads * kEach, "every ticket completes once");
  for (const Completion& completion : completions) {
    const auto at = asked.find(completion.ticket.value);
    if (!laws.check(at != asked.end(), "a completion carries a ticket that submit gave")) continue;
    const Asked& what = at->second;
    laws.check(completion.data && is_part(*completion.data, index.part_bytes(what.key.layer, what.part), what.key, what.part), kWholePart, text_of(what.key, what.part));
  }
}

template <ExpertStore S>
void check_refuses_what_is_not_there(Findings& laws, S& store, const ExpertFiles& files) {
  const Destinations destinations(1, files.index().largest_part_bytes(), store.alignment());
  for (const ExpertKey key : {ExpertKey{LayerId{0}, ExpertId{0}},  // dense
                              ExpertKey{LayerId{1}, ExpertId{files.index().n_experts()}},
                              ExpertKey{LayerId{files.index().n_layers()}, ExpertId{0}}}) {
    laws.check(!store.submit(key, Part::gate, destinations.at(0), Urgency::demand), "an expert that is not there is refused");
  }
  if (store.alignment().copies()) {
    laws.check(!store.submit({LayerId{1}, ExpertId{0}}, Part::gate, destinations.at(0).first(8), Urgency::demand), "a destination that is too small is refused");
  }
  store.cancel(ReadTicket{12345});
  store.promote(ReadTicket{12345});
  laws.check(!store.poll(), "what was refused does not complete");
}

/// `make()` opens a fresh store over `files`, as some pointer.
template <class Make>
Findings check_store_laws(const ExpertFiles& files, Make&& make) {
  using S = std::remove_reference_t<decltype(*make())>;
  Findings laws("store " + std::string(S::name.view()));
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    auto store = make();
    check_every_ticket_completes_once(laws, *store, files, seed, false);
    check_every_ticket_completes_once(laws, *store, files, seed + 100, true);
  }
  auto store = make();
  check_any_thread_may_call(laws, *store, files);
  check_refuses_what_is_not_there(laws, *store, files);
  // Ends with reads outstanding: nothing to see but the sanitizers.
  const Destinations destinations(20, files.index().largest_part_bytes(), store->alignment());
  for (std::size_t i = 0; i < 20; ++i) {
    laws.check(store->submit({LayerId{1}, ExpertId{3}}, Part::up, destinations.at(i), Urgency::demand).has_value(), "a read of what is there is accepted");
  }
  if constexpr (BatchesReads<typename decltype(store)::element_type>) store->begin_reads();
  store = nullptr;
  return laws;
}

}  // namespace coli::conformance
