// SPDX-License-Identifier: Apache-2.0
// Is every byte counted once, refused with its arithmetic, and given back?
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "coli/core/accountant.hpp"
#include "coli/core/buffer.hpp"

namespace coli {
namespace {

BOOST_AUTO_TEST_SUITE(memory)

BOOST_AUTO_TEST_CASE(up_to_the_limit_and_not_one_byte_further) {
  Accountant accountant(Bytes{100});
  BOOST_TEST(accountant.charge(MemoryClass::trunk, Bytes{60}).has_value());
  BOOST_TEST(accountant.charge(MemoryClass::kv, Bytes{40}).has_value());  // need = have
  BOOST_TEST(accountant.charge(MemoryClass::kv, Bytes{0}).has_value());
  BOOST_TEST(!accountant.charge(MemoryClass::slots, Bytes{1}).has_value());
  BOOST_TEST(accountant.total().value == 100U);
  BOOST_TEST(accountant.held(MemoryClass::slots).value == 0U);
  accountant.release(MemoryClass::kv, Bytes{40});
  BOOST_TEST(accountant.charge(MemoryClass::slots, Bytes{40}).has_value());
  BOOST_TEST(accountant.held(MemoryClass::trunk).value == 60U);
  BOOST_TEST(accountant.held(MemoryClass::kv).value == 0U);
  BOOST_TEST(accountant.limit()->value == 100U);
}

BOOST_AUTO_TEST_CASE(a_refusal_shows_the_arithmetic) {
  Accountant accountant(Bytes{2 * kGiB});
  BOOST_TEST(accountant.bill() == "nothing held");
  BOOST_TEST(accountant.charge(MemoryClass::trunk, Bytes{kGiB}).has_value());
  BOOST_TEST(accountant.charge(MemoryClass::kv, Bytes{96 * kMiB}).has_value());
  BOOST_TEST(accountant.bill() == "trunk 1.00 GiB, kv 96.00 MiB");
  const auto refused = accountant.charge(MemoryClass::slots, Bytes{kGiB});
  BOOST_TEST_REQUIRE(!refused.has_value());
  BOOST_TEST((refused.error().code == Errc::over_budget));
  BOOST_TEST(refused.error().line() ==
             "memory limit 2.00 GiB: slots needs 1.00 GiB more, 100663296 bytes short (trunk 1.00 GiB, kv 96.00 MiB)");
}

// A saturated request once wrapped to less than what was held, and passed.
BOOST_AUTO_TEST_CASE(absurd_requests_do_not_wrap) {
  constexpr Bytes kAll{std::numeric_limits<std::uint64_t>::max()};
  for (const auto& limit : {std::optional<Bytes>{}, std::optional<Bytes>{kAll}, std::optional<Bytes>{Bytes{1000}}}) {
    Accountant accountant(limit);
    BOOST_TEST(accountant.charge(MemoryClass::base, Bytes{1000}).has_value());
    for (const MemoryClass c : {MemoryClass::base, MemoryClass::io}) {
      const auto refused = accountant.charge(c, kAll);
      BOOST_TEST_REQUIRE(!refused.has_value());
      BOOST_TEST((refused.error().code == Errc::over_budget));
      BOOST_TEST(!accountant.charge(c, kAll - Bytes{999}).has_value());
    }
    BOOST_TEST(accountant.total().value == 1000U);
  }
}

BOOST_AUTO_TEST_CASE(every_class_has_a_name_of_its_own) {
  std::string all;
  for (std::size_t i = 0; i < kMemoryClasses; ++i) {
    const std::string name = "|" + std::string(name_of(static_cast<MemoryClass>(i))) + "|";
    BOOST_TEST(name.size() > 2U);
    BOOST_TEST(all.find(name) == std::string::npos);
    all += name;
  }
}

BOOST_AUTO_TEST_CASE(many_threads_charge_exactly_what_fits) {
  Accountant accountant(Bytes{1000});
  std::vector<unsigned> granted(4);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) granted[t] += accountant.charge(static_cast<MemoryClass>(t), Bytes{1}).has_value();
    });
  for (std::thread& thread : threads) thread.join();
  BOOST_TEST(granted[0] + granted[1] + granted[2] + granted[3] == 1000U);
  BOOST_TEST(accountant.total().value == 1000U);
}

BOOST_AUTO_TEST_CASE(a_buffer_is_zero_aligned_and_charged_while_it_lives) {
  Accountant accountant(Bytes{kMiB});
  {
    auto buffer = Buffer::allocate(accountant, MemoryClass::kv, Bytes{10'001});
    BOOST_TEST_REQUIRE(buffer.has_value());
    BOOST_TEST(static_cast<bool>(*buffer));
    BOOST_TEST(reinterpret_cast<std::uintptr_t>(buffer->data()) % 4096 == 0U);
    BOOST_TEST(buffer->bytes().value == 10'001U);
    BOOST_TEST(accountant.held(MemoryClass::kv).value == 10'001U);
    for (const unsigned char byte : buffer->as<unsigned char>(10'001)) BOOST_TEST_REQUIRE(byte == 0);
    BOOST_TEST(buffer->all<double>().size() == 1250U);  // whole values only
    buffer->as<float>(2, 64)[1] = 7;
    BOOST_TEST(buffer->all<float>()[17] == 7);
  }
  BOOST_TEST(accountant.total().value == 0U);
}

BOOST_AUTO_TEST_CASE(a_buffer_moves_with_its_charge) {
  Accountant accountant, other;
  {
    Buffer first = *Buffer::allocate(accountant, MemoryClass::kv, Bytes{100});
    Buffer second = *Buffer::allocate(other, MemoryClass::io, Bytes{50});
    std::byte* const at = first.data();
    second = std::move(first);  // gives back its own charge
    BOOST_TEST(other.total().value == 0U);
    BOOST_TEST(accountant.total().value == 100U);
    BOOST_TEST(second.data() == at);
    const Buffer third(std::move(second));
    BOOST_TEST(third.data() == at);
    BOOST_TEST(third.bytes().value == 100U);
    BOOST_TEST(accountant.held(MemoryClass::kv).value == 100U);
    Buffer fourth = *Buffer::allocate(other, MemoryClass::io, Bytes{5});
    Buffer& itself = fourth;
    fourth = std::move(itself);
    BOOST_TEST(other.total().value == 5U);
    BOOST_TEST(fourth.as<unsigned char>(5)[4] == 0);
  }
  BOOST_TEST(accountant.total().value == 0U);
  BOOST_TEST(other.total().value == 0U);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_had_leaves_no_charge) {
  Accountant tight(Bytes{1000}), open;
  BOOST_TEST((Buffer::allocate(tight, MemoryClass::trunk, Bytes{1001}).error().code == Errc::over_budget));
  BOOST_TEST(tight.total().value == 0U);
  const auto refused = Buffer::allocate(open, MemoryClass::trunk, Bytes{std::uint64_t{1} << 62});
  BOOST_TEST_REQUIRE(!refused.has_value());
  BOOST_TEST((refused.error().code == Errc::over_budget));
  BOOST_TEST(refused.error().message.find("trunk") != std::string::npos);
  BOOST_TEST(open.total().value == 0U);
}

BOOST_AUTO_TEST_CASE(nothing_is_a_buffer_too) {
  Accountant accountant(Bytes{0});
  const auto none = Buffer::allocate(accountant, MemoryClass::io, Bytes{0});
  BOOST_TEST_REQUIRE(none.has_value());
  BOOST_TEST(!*none);
  BOOST_TEST(none->all<float>().empty());
  const Buffer empty;
  BOOST_TEST(!empty);
  BOOST_TEST(empty.bytes().value == 0U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace coli
