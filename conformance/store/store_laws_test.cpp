// SPDX-License-Identifier: Apache-2.0
// Every store obeys every law, with honest reads and with faulty ones.
#include "store_laws.hpp"

#include <boost/test/unit_test.hpp>
#include <optional>
#include <sstream>

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
#endif
}

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
