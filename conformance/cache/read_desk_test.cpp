// SPDX-License-Identifier: Apache-2.0
// Who is read first, with which buffers, and what becomes of what nobody wants any more? Every count exact.
#include "coli/cache/read_desk.hpp"

#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <optional>
#include <vector>

#include "manual_store.hpp"

namespace coli {
namespace {

constexpr std::array<std::uint64_t, kParts> kBytes{100, 100, 300};

struct Desk {
  explicit Desk(std::uint32_t buffers, std::uint32_t n_pieces = 1)
      : desk(store, *Staging::allocate(accountant, buffers, 300, store.alignment()), n_pieces) {}

  Filling filling(std::uint32_t expert, bool speculative = false) const { return {.key = {LayerId{1}, ExpertId{expert}}, .speculative = speculative}; }
  /// Books everything that has arrived at the store; how much of it belonged to somebody.
  std::size_t receive_all() {
    std::size_t n = 0;
    while (auto completion = desk.poll()) {
      Filling* orphan = nullptr;
      n += desk.receive(std::move(*completion), orphan).has_value();
      if (orphan != nullptr) orphans.push_back(orphan);
    }
    return n;
  }
  void arrive(std::uint32_t expert) {
    store.arrive(ExpertId{expert});
    receive_all();
  }
  std::size_t pending(Urgency urgency) const {
    const auto all = store.pending();
    return static_cast<std::size_t>(std::count_if(all.begin(), all.end(), [&](const auto& p) { return p.urgency == urgency; }));
  }

  test::ExpertFiles files{{.n_experts = 8, .top_k = 2, .layers = {{0, 0, 0}, {100, 100, 300}}}};
  test::ManualStore store{files.index()};
  Accountant accountant;
  ReadDesk<test::ManualStore> desk;
  std::vector<Filling*> orphans;
};

BOOST_AUTO_TEST_SUITE(read_desk)

BOOST_AUTO_TEST_CASE(staging_buffers_hold_a_part_and_what_is_read_around_it) {
  BOOST_TEST(Staging::buffer_bytes(300, {64, 0}) == 4096U);
  BOOST_TEST(Staging::buffer_bytes(4096, {64, 0}) == 4096U);
  BOOST_TEST(Staging::buffer_bytes(4097, {64, 0}) == 8192U);
  BOOST_TEST(Staging::buffer_bytes(4096, {512, 1024}) == 8192U);
  BOOST_TEST(Staging::buffer_bytes(1, {16384, 0}) == 16384U);
  BOOST_TEST(Staging::bytes_for(0, 300, {64, 0}).value == 0U);
  BOOST_TEST(Staging::bytes_for(3, 300, {64, 0}).value == 3U * 4096);
  BOOST_TEST(Staging::bytes_for(1, 300, {64, 0}).value == 4096U);
  BOOST_TEST(Staging::bytes_for(3, 300, {16384, 0}).value == 4U * 16384);  // one more to align by
  Accountant accountant;
  auto staging = *Staging::allocate(accountant, 3, 300, {64, 0});
  BOOST_TEST(accountant.held(MemoryClass::io).value == 3U * 4096);
  BOOST_TEST(staging.region().size() == 3U * 4096);
  for (std::uint32_t i = 0; i < 3; ++i) {
    BOOST_TEST((staging.at(i).data() - staging.region().data()) == static_cast<std::ptrdiff_t>(4096 * i));
    BOOST_TEST(staging.at(i).size() == 4096U);
    BOOST_TEST(reinterpret_cast<std::uintptr_t>(staging.at(i).data()) % 64 == 0U);
  }
  BOOST_TEST(*staging.take() == 0U);
  BOOST_TEST(staging.n_free() == 2U);
  BOOST_TEST(*staging.take() == 1U);
  BOOST_TEST(*staging.take() == 2U);
  BOOST_TEST(!staging.take());
  staging.give_back(1);
  BOOST_TEST(*staging.take() == 1U);
}

BOOST_AUTO_TEST_CASE(demand_goes_in_order_as_far_as_buffers_reach) {
  Desk d(4);
  Filling a = d.filling(1), b = d.filling(2);
  BOOST_TEST(d.desk.idle());
  d.desk.order(a, kBytes);
  d.desk.order(b, kBytes);
  BOOST_TEST(!d.desk.submit());
  const auto pending = d.store.pending();
  BOOST_REQUIRE(pending.size() == 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    BOOST_TEST(pending[i].key.expert.value == (i < 3 ? 1U : 2U));
    BOOST_TEST((pending[i].part == static_cast<Part>(i % 3)));
    BOOST_TEST((pending[i].urgency == Urgency::demand));
  }
  BOOST_TEST(d.desk.starved());
  BOOST_TEST(!d.desk.idle());
  BOOST_TEST(d.desk.any_under_way());
  BOOST_TEST(!d.desk.any_arrived());
  BOOST_TEST(a.n_under_way == 3U);
  BOOST_TEST(b.n_under_way == 1U);

  d.arrive(1);
  BOOST_TEST(a.n_under_way == 0U);
  BOOST_TEST(a.arrived.all());
  BOOST_TEST(d.desk.bytes_read() == 500U);
  BOOST_TEST(!d.desk.submit());
  BOOST_TEST(d.store.pending().size() == 1U);  // nothing was put into its slot: no buffer is free
  BOOST_TEST(d.desk.wants_speculative_buffers());
  const auto first = d.desk.take_arrived(nullptr);
  BOOST_REQUIRE(first);
  BOOST_TEST((first->part == Part::gate));
  BOOST_TEST(a.raw[0].size() == 100U);
  for (std::uint64_t i = 0; i < 100; ++i) BOOST_TEST_REQUIRE((a.raw[0][i] == test::expert_byte(a.key, Part::gate, i)));
  d.desk.written(a, Part::gate);
  d.desk.written(a, Part::gate);  // a buffer goes back once
  BOOST_TEST(!d.desk.submit());
  BOOST_TEST(d.store.pending().size() == 2U);
  BOOST_TEST(b.n_under_way == 2U);
}

/// Counts the calls that a store which holds reads back gets, and what it had been given by then.
struct BatchingStore : test::ManualStore {
  using ManualStore::ManualStore;
  void begin_reads() { given.push_back(pending().size()); }
  std::vector<std::size_t> given;
};

BOOST_AUTO_TEST_CASE(all_that_fits_begins_in_one_call) {
  test::ExpertFiles files{{.n_experts = 8, .top_k = 2, .layers = {{0, 0, 0}, {100, 100, 300}}}};
  BatchingStore store(files.index());
  Accountant accountant;
  ReadDesk<BatchingStore> desk(store, *Staging::allocate(accountant, 12, 300, store.alignment()));
  Filling a{.key = {LayerId{1}, ExpertId{1}}}, b{.key = {LayerId{1}, ExpertId{2}}}, guess{.key = {LayerId{1}, ExpertId{3}}, .speculative = true};
  desk.order(a, kBytes);
  desk.order(b, kBytes);
  BOOST_TEST(!desk.submit());
  BOOST_TEST(store.given == (std::vector<std::size_t>{6}), boost::test_tools::per_element());
  desk.order(guess, kBytes);
  BOOST_TEST(!desk.submit());
  BOOST_TEST(store.given == (std::vector<std::size_t>{6, 9}), boost::test_tools::per_element());
  BOOST_TEST(!desk.claim(guess, kBytes));  // promoted only: there is nothing to submit, but something to begin
  BOOST_TEST(!desk.submit());
  BOOST_TEST(store.given.size() == 3U);
}

BOOST_AUTO_TEST_CASE(what_is_preferred_is_put_into_its_slot_first) {
  Desk d(12);
  Filling a = d.filling(1), b = d.filling(2), absent = d.filling(3);
  d.desk.order(a, kBytes);
  d.desk.order(b, kBytes);
  BOOST_TEST(!d.desk.submit());
  d.arrive(1);
  d.arrive(2);
  BOOST_TEST(d.desk.take_arrived(&b)->filling == &b);
  BOOST_TEST(d.desk.take_arrived(&absent)->filling == &a);  // any, rather than none
  BOOST_TEST(d.desk.take_arrived(&b)->filling == &b);
  BOOST_TEST(d.desk.take_arrived(nullptr)->filling == &a);
  BOOST_TEST(d.desk.take_arrived(&b)->filling == &b);
  BOOST_TEST(d.desk.take_arrived(&b)->filling == &a);
  BOOST_TEST(!d.desk.take_arrived(nullptr));
  BOOST_TEST(d.desk.idle());
  d.desk.reset_stats();
  BOOST_TEST(d.desk.bytes_read() == 0U);
}

BOOST_AUTO_TEST_CASE(all_pieces_of_a_part_come_before_those_of_the_next) {
  Desk d(12, 3);
  Filling a = d.filling(1);
  d.desk.order(a, kBytes);
  BOOST_TEST(!d.desk.submit());
  d.arrive(1);
  for (const Part part : {Part::gate, Part::up, Part::down})
    for (std::uint32_t i = 0; i < 3; ++i) {
      const auto todo = d.desk.take_arrived(nullptr);
      BOOST_REQUIRE(todo);
      BOOST_TEST((todo->part == part));
      BOOST_TEST(todo->piece.index == i);
      BOOST_TEST(todo->piece.count == 3U);
    }
  BOOST_TEST(!d.desk.take_arrived(nullptr));
}

BOOST_AUTO_TEST_CASE(guesses_take_half_of_the_buffers_and_only_when_no_demand_waits) {
  Desk d(8);
  Filling g = d.filling(1, true), h = d.filling(2, true), a = d.filling(3), b = d.filling(4), c = d.filling(5);
  d.desk.order(g, kBytes);
  d.desk.order(h, kBytes);
  BOOST_TEST(!d.desk.submit());
  BOOST_TEST(d.pending(Urgency::prefetch) == 4U);
  BOOST_TEST(!d.desk.starved());
  d.arrive(1);
  BOOST_TEST(!d.desk.any_arrived());  // stops at arrived: nobody asked for it
  BOOST_TEST(!d.desk.submit());
  BOOST_TEST(d.pending(Urgency::prefetch) == 1U);  // what has arrived still holds its buffers
  for (Filling* demanded : {&a, &b, &c}) d.desk.order(*demanded, kBytes);
  BOOST_TEST(!d.desk.submit());
  BOOST_TEST(d.pending(Urgency::demand) == 4U);
  BOOST_TEST(d.desk.wants_speculative_buffers());
  d.desk.drop(g);  // frees three
  g.dead = true;
  BOOST_TEST(!d.desk.submit());
  BOOST_TEST(d.pending(Urgency::demand) == 7U);
  BOOST_TEST(d.pending(Urgency::prefetch) == 1U);
}

BOOST_AUTO_TEST_CASE(a_guess_that_comes_true_keeps_what_has_arrived) {
  Desk d(8);
  Filling g = d.filling(1, true), h = d.filling(2, true);
  d.desk.order(g, kBytes);
  BOOST_TEST(!d.desk.submit());
  d.store.arrive(ExpertId{1}, Part::up);
  d.receive_all();
  BOOST_TEST(!d.desk.claim(g, kBytes));  // late: not all of it is here
  BOOST_TEST(!g.speculative);
  BOOST_TEST(d.pending(Urgency::demand) == 2U);
  BOOST_TEST((d.desk.take_arrived(nullptr)->part == Part::up));
  d.arrive(1);
  BOOST_TEST((d.desk.take_arrived(nullptr)->part == Part::gate));
  BOOST_TEST((d.desk.take_arrived(nullptr)->part == Part::down));
  for (const Part part : {Part::gate, Part::up, Part::down}) d.desk.written(g, part);

  d.desk.order(h, kBytes);
  BOOST_TEST(!d.desk.submit());
  d.arrive(2);
  BOOST_TEST(d.desk.claim(h, kBytes));  // useful: all of it is
  for (const Part part : {Part::gate, Part::up, Part::down}) BOOST_TEST((d.desk.take_arrived(nullptr)->part == part));
  for (const Part part : {Part::gate, Part::up, Part::down}) d.desk.written(h, part);
  Filling next = d.filling(3, true), more = d.filling(4, true);
  d.desk.order(next, kBytes);
  d.desk.order(more, kBytes);
  BOOST_TEST(!d.desk.submit());
  BOOST_TEST(d.pending(Urgency::prefetch) == 4U);  // claimed ones no longer count as guesses
}

BOOST_AUTO_TEST_CASE(the_disk_is_at_leisure_when_nothing_is_demanded_and_half_of_the_buffers_reach) {
  Desk d(12);
  BOOST_TEST(d.desk.at_leisure());
  Filling a = d.filling(1), g = d.filling(2, true), h = d.filling(3, true);
  d.desk.order(a, kBytes);
  BOOST_TEST(!d.desk.at_leisure());
  BOOST_TEST(!d.desk.submit());
  BOOST_TEST(!d.desk.at_leisure());  // being read is demanded, too
  d.arrive(1);
  BOOST_TEST(d.desk.at_leisure());
  d.desk.order(g, kBytes);
  BOOST_TEST(!d.desk.at_leisure());
  BOOST_TEST(!d.desk.submit());
  BOOST_TEST(d.desk.at_leisure());
  d.desk.order(h, kBytes);
  BOOST_TEST(!d.desk.submit());
  BOOST_TEST(!d.desk.at_leisure());  // six of twelve
  Desk small(5);
  BOOST_TEST(!small.desk.at_leisure());  // half of them don't hold an expert
}

BOOST_AUTO_TEST_CASE(what_nobody_asked_for_waits_apart_until_somebody_does) {
  Desk d(24, 2);
  Filling g = d.filling(1, true), h = d.filling(2, true);
  for (Filling* guess : {&g, &h}) d.desk.order(*guess, kBytes);
  BOOST_TEST(!d.desk.submit());
  d.arrive(1);
  d.arrive(2);
  d.desk.settle(g, kBytes);
  d.desk.settle(h, kBytes);
  BOOST_TEST(!g.speculative);
  BOOST_TEST(!d.desk.any_arrived());
  BOOST_TEST(!d.desk.take_arrived(nullptr));
  BOOST_TEST((d.desk.take_unasked()->part == Part::gate));
  d.desk.ask_for(h);
  BOOST_TEST(d.desk.any_arrived());
  BOOST_TEST(d.desk.take_arrived(nullptr)->filling == &h);
  d.desk.ask_for(g);
  const auto rest = d.desk.take_arrived(&g);
  BOOST_REQUIRE(rest);
  BOOST_TEST(rest->filling == &g);
  BOOST_TEST(rest->piece.index == 1U);  // of gate: the first was taken before
  BOOST_TEST(!d.desk.take_unasked());
  Filling i = d.filling(3, true);
  d.desk.order(i, kBytes);
  BOOST_TEST(!d.desk.submit());
  d.arrive(3);
  d.desk.settle(i, kBytes);
  d.desk.drop(i);
  BOOST_TEST(!d.desk.take_unasked());
}

BOOST_AUTO_TEST_CASE(what_is_dropped_is_cancelled_and_told_as_an_orphan) {
  Desk d(4);
  Filling a = d.filling(1), b = d.filling(2);
  d.desk.order(a, kBytes);
  d.desk.order(b, kBytes);
  BOOST_TEST(!d.desk.submit());
  d.store.arrive(ExpertId{1}, Part::gate);
  BOOST_TEST(d.receive_all() == 1U);
  a.dead = true;
  d.desk.drop(a);
  BOOST_TEST(!d.desk.any_arrived());
  BOOST_TEST(d.receive_all() == 0U);
  BOOST_TEST(d.orphans.size() == 2U);
  BOOST_TEST(d.orphans.front() == &a);
  BOOST_TEST(a.n_under_way == 0U);
  BOOST_TEST(!d.desk.submit());
  BOOST_TEST(d.store.pending().size() == 3U);  // all of b, in the buffers that a had
  d.store.fail(ExpertId{2}, Part::up);
  Filling* orphan = nullptr;
  const auto failed = d.desk.receive(*d.desk.poll(), orphan);
  BOOST_REQUIRE(failed);
  BOOST_TEST(failed->filling == &b);
  BOOST_TEST((failed->part == Part::up));
  BOOST_REQUIRE(failed->error);
  BOOST_TEST(!b.arrived.has(Part::up));
  BOOST_TEST(d.desk.bytes_read() == 100U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace coli
