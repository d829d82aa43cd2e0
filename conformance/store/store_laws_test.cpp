// SPDX-License-Identifier: Apache-2.0
// Every store obeys every law, with honest reads and with faulty ones.
#include "store_laws.hpp"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <functional>
#include <optional>
#include <sstream>
#include <thread>

#include "coli/store/any_store.hpp"
#include "coli/store/faulty_store.hpp"

namespace coli {
namespace {

using test::ExpertFiles;

std::vector<test::Shape> shapes() {
  test::Shape at_blocks = test::small_shape();
  at_blocks.first_offset = 4096;
  at_blocks.layers = {{0, 0, 0}, {4096, 8192, 4096}, {4096, 4096, 4096}};
  test::Shape odd = test::small_shape();
  odd.first_offset = 32;
  odd.layers = {{0, 0, 0}, {511, 512, 513}, {4095, 4096, 4097}, {1, 33, 12289}};
  return {test::small_shape(), at_blocks, odd};
}

/// Minimal and nothing more: what the contract asks of somebody else's store.
class Archetype {
 public:
  static constexpr FixedName name{"archetype"};
  explicit Archetype(const ExpertIndex& index) : inner_(index) {}
  Result<ReadTicket> submit(ExpertKey key, Part part, std::span<std::byte> to, Urgency urgency) {
    return inner_.submit(key, part, to, urgency);
  }
  std::optional<Completion> poll() { return inner_.poll(); }
  std::optional<Completion> wait(std::chrono::milliseconds patience) { return inner_.wait(patience); }
  void cancel(ReadTicket) {}
  void promote(ReadTicket) {}
  StoreAlignment alignment() const noexcept { return {0, 0}; }

 private:
  MemoryStore inner_;
};

BOOST_AUTO_TEST_CASE(every_store_obeys_the_laws) {
  for (const test::Shape& shape : shapes()) {
    const ExpertFiles files(shape);
    test::check_store_laws(files, [&] { return std::make_unique<MemoryStore>(files.in_memory()); });
    test::check_store_laws(files, [&] { return std::make_unique<Archetype>(files.in_memory()); });
    test::check_store_laws(files, [&] { return *MmapStore::open(files.index()); });
    test::check_store_laws(files, [&] { return *PreadStore::open(files.index(), {.workers = 1}); });
    test::check_store_laws(files, [&] { return *PreadStore::open(files.index(), {.workers = 3}); });
    test::check_store_laws(files,
                           [&] { return *PreadStore::open(files.index(), {.direct = false, .drop_behind = true}); });
    test::check_store_laws(files, [&] { return *PreadStore::open(files.index(), {.cached_first = true}); });
    test::check_store_laws(files, [&] { return *AnyStore::open(files.index()); });
#ifdef COLI_HAVE_LIBURING
    if (auto probe = UringStore::open(files.index()); !probe) {
      BOOST_TEST_MESSAGE("SKIP: " + probe.error().line());
      continue;
    }
    for (const unsigned depth : {1U, 2U, 8U}) {
      test::check_store_laws(files, [&] { return *UringStore::open(files.index(), {.depth = depth}); });
    }
    for (const unsigned depth : {1U, 3U, 8U}) {
      test::check_store_laws(files, [&] { return *UringStore::open(files.index(), {.depth = depth, .bursts = true}); });
    }
    test::check_store_laws(files, [&] { return *UringStore::open(files.index(), {.direct = false}); });
#endif
  }
}

/// Owns what a FaultyStore wraps.
template <class S>
struct Wrapped : FaultyStore<S> {
  Wrapped(std::unique_ptr<S> store, const ExpertIndex& index, StoreFaults faults)
      : FaultyStore<S>(*store, index, faults), inner(std::move(store)) {}
  std::unique_ptr<S> inner;
};

BOOST_AUTO_TEST_CASE(the_wrapper_obeys_the_laws_too) {
  const ExpertFiles files(test::small_shape());
  const StoreFaults faults{.seed = 5, .longest_delay = std::chrono::microseconds(800), .reorder = true};
  test::check_store_laws(files, [&] {
    return std::make_unique<Wrapped<MemoryStore>>(std::make_unique<MemoryStore>(files.in_memory()), files.index(),
                                                  faults);
  });
  test::check_store_laws(files, [&] {
    return std::make_unique<Wrapped<AnyStore>>(*AnyStore::open(files.index()), files.index(), faults);
  });
  auto failing = std::make_unique<Wrapped<MemoryStore>>(std::make_unique<MemoryStore>(files.in_memory()), files.index(),
                                                        StoreFaults{.seed = 1, .fail_one_in = 3});
  const std::size_t n = test::check_every_ticket_completes_once(*failing, files, 1, false, true);
  BOOST_TEST(n > 10U);
  BOOST_TEST(n < 60U);
}

template <class Make>
void check_faults(const ExpertFiles& files, Make&& make) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    // Faults that a read survives.
    const ReadFaults mild{.seed = seed, .short_read = 2, .eintr = 4, .eagain = 8};
    FaultyReads ops(mild);
    auto store = make(ops);
    test::check_every_ticket_completes_once(*store, files, seed, false);
    test::check_every_ticket_completes_once(*store, files, seed, true);
    BOOST_TEST(ops.n_attempts() > 2 * 4 * 8 * 3U);
    // A refusal of direct I/O turns to buffered, once a file.
    auto refusing = make(FaultyReads(ReadFaults{.seed = seed, .refuse_direct = true}));
    test::check_every_ticket_completes_once(*refusing, files, seed, false);
    std::size_t n_notes = 0;
    for (const std::string& note : refusing->notes()) n_notes += note.find("EINVAL") != std::string::npos ? 1U : 0U;
    BOOST_TEST(n_notes == files.index().files().size());
    // Errors name everything; and not everything fails.
    auto failing = make(FaultyReads(ReadFaults{.seed = seed, .short_read = 3, .eio = 5}));
    const std::size_t n_failed = test::check_every_ticket_completes_once(*failing, files, seed, false, true);
    BOOST_TEST(n_failed > 0U);
    BOOST_TEST(n_failed < 4 * 8 * 3U);
    // A file that was cut.
    auto cut = make(FaultyReads(ReadFaults{.seed = seed, .short_read = 4, .cut_at = 20000}));
    BOOST_TEST(test::check_every_ticket_completes_once(*cut, files, seed, false, true) > 0U);
  }
}

BOOST_AUTO_TEST_CASE(reads_survive_faults_or_say_what_failed) {
  const ExpertFiles files(test::small_shape());
  check_faults(files, [&](FaultyReads ops) { return *BasicPreadStore<FaultyReads>::open(files.index(), {}, ops); });
#ifdef COLI_HAVE_LIBURING
  if (auto probe = UringStore::open(files.index()); !probe) {
    BOOST_TEST_MESSAGE("SKIP: " + probe.error().line());
    return;
  }
  check_faults(files, [&](FaultyReads ops) { return *BasicUringStore<FaultyReads>::open(files.index(), {}, ops); });
  check_faults(files, [&](FaultyReads ops) { return *BasicUringStore<FaultyReads>::open(files.index(), {.bursts = true}, ops); });
#endif
}

#ifdef COLI_HAVE_LIBURING
bool soon(const std::function<bool()>& what) {
  for (int i = 0; i < 5000 && !what(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return what();
}

template <BatchesReads S>
void check_reads_are_held_back(S& store, const ExpertFiles& files) {
  const ExpertKey key{LayerId{1}, ExpertId{3}};
  const test::Destinations destinations(2, files.index().largest_part_bytes(), store.alignment());
  for (std::size_t i = 0; i < 2; ++i) {
    destinations.mark(i);
    BOOST_REQUIRE(store.submit(key, i == 0 ? Part::gate : Part::up, destinations.at(i), Urgency::demand));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  BOOST_TEST((destinations.still_marked(0) && destinations.still_marked(1)));
  store.begin_reads();
  BOOST_TEST(soon([&] { return !destinations.still_marked(0) && !destinations.still_marked(1); }));  // though nobody has asked
  for (int i = 0; i < 2; ++i) {
    const auto completion = store.wait(std::chrono::milliseconds(5000));
    BOOST_REQUIRE(completion);
    BOOST_TEST(completion->data.has_value());
  }
}

BOOST_AUTO_TEST_CASE(reads_that_are_held_back_begin_together_when_told_to) {
  const ExpertFiles files(test::small_shape());
  auto store = UringStore::open(files.index());
  if (!store) {
    BOOST_TEST_MESSAGE("SKIP: " + store.error().line());
    return;
  }
  check_reads_are_held_back(**store, files);
  auto any = *AnyStore::open(files.index(), {.kind = StoreKind::uring});
  check_reads_are_held_back(*any, files);
  FaultyStore<AnyStore> faulty(*any, files.index(), {});
  check_reads_are_held_back(faulty, files);
}

BOOST_AUTO_TEST_CASE(a_burst_holds_demand_alone_and_is_over_before_the_next) {
  const ExpertFiles files(test::small_shape());
  auto opened = UringStore::open(files.index(), {.bursts = true});
  if (!opened) {
    BOOST_TEST_MESSAGE("SKIP: " + opened.error().line());
    return;
  }
  auto& store = **opened;
  const test::Destinations destinations(6, files.index().largest_part_bytes(), store.alignment());
  for (std::size_t i = 0; i < 6; ++i) {
    destinations.mark(i);
    BOOST_REQUIRE(store.submit({LayerId{1}, ExpertId{static_cast<std::uint32_t>(i)}}, Part::up, destinations.at(i), i < 3 ? Urgency::prefetch : Urgency::demand));
  }
  store.begin_reads();  // of three demands two, and no guess
  const auto touched = [&] {
    std::vector<bool> which;
    for (std::size_t i = 0; i < 6; ++i) which.push_back(!destinations.still_marked(i));
    return which;
  };
  BOOST_TEST(soon([&] { return !destinations.still_marked(3) && !destinations.still_marked(4); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  BOOST_TEST(touched() == (std::vector<bool>{false, false, false, true, true, false}), boost::test_tools::per_element());
  std::vector<std::uint64_t> order;
  while (const auto completion = store.wait(std::chrono::milliseconds(5000))) order.push_back(completion->ticket.value);
  BOOST_REQUIRE(order.size() == 6U);
  BOOST_TEST(order[2] == 6U);  // the last demand; after it the guesses

  // But a demand doesn't wait for a burst of guesses.
  for (std::size_t i = 0; i < 3; ++i) destinations.mark(i);
  for (std::size_t i = 0; i < 3; ++i) {
    BOOST_REQUIRE(store.submit({LayerId{1}, ExpertId{static_cast<std::uint32_t>(i)}}, Part::up, destinations.at(i), i < 2 ? Urgency::prefetch : Urgency::demand));
    store.begin_reads();
  }
  BOOST_TEST(soon([&] { return !destinations.still_marked(2); }));
  BOOST_TEST(destinations.still_marked(1));  // is in the next
  int n = 0;
  while (store.wait(std::chrono::milliseconds(5000))) ++n;
  BOOST_TEST(n == 3);
}
#endif

BOOST_AUTO_TEST_CASE(a_file_really_cut_while_open_is_an_error) {
  const ExpertFiles files(test::small_shape());
  const auto check = [&](auto store) {
    BOOST_REQUIRE(::truncate(files.index().files()[1].path.c_str(), 9000) == 0);
    const std::size_t n = test::check_every_ticket_completes_once(*store, files, 9, false, true);
    BOOST_TEST(n > 10U);
    BOOST_TEST(n < 90U);
  };
  {
    const ExpertFiles other(test::small_shape());
    auto store = *PreadStore::open(other.index());
    BOOST_REQUIRE(::truncate(other.index().files()[0].path.c_str(), 9000) == 0);
    BOOST_TEST(test::check_every_ticket_completes_once(*store, other, 9, false, true) > 10U);
    const auto again = PreadStore::open(other.index());  // and a cut file isn't opened any more
    BOOST_REQUIRE(!again);
    BOOST_TEST(again.error().message.find("has 9000 bytes, had") != std::string::npos);
  }
  check(*AnyStore::open(files.index()));
}

}  // namespace
}  // namespace coli
