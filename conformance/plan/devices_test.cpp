// SPDX-License-Identifier: Apache-2.0
// Are a driver's cards read as it names them, refused in words, and its failures told?
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <utility>

#include "coli/plan/devices.hpp"
#include "coli/probe.hpp"

namespace coli::conformance {
namespace {

/// A machine of two cards, an old one and a new one; one call of it can be made to fail.
struct Planted {
  int driver = 13000;
  int n_cards = 2;
  const char* failing = "";
} planted;

int fails(const char* call) { return std::strcmp(planted.failing, call) == 0 ? 999 : 0; }

CudaDriverCalls planted_calls() {
  return {[](unsigned) { return fails("cuInit"); },
          [](int* version) { return *version = planted.driver, fails("cuDriverGetVersion"); },
          [](int* n) { return *n = planted.n_cards, fails("cuDeviceGetCount"); },
          [](int* device, int i) { return *device = 10 + i, fails("cuDeviceGet"); },
          [](char* name, int, int device) { return std::strcpy(name, device == 10 ? "Old" : "New"), fails("cuDeviceGetName"); },
          [](int* value, int attribute, int device) { return *value = attribute == 75 ? (device == 10 ? 7 : 9) : (device == 10 ? 5 : 0), fails("cuDeviceGetAttribute"); },
          [](std::size_t* bytes, int device) { return *bytes = device == 10 ? 1000 : 2000, fails("cuDeviceTotalMem"); }};
}

BOOST_AUTO_TEST_SUITE(devices)

BOOST_AUTO_TEST_CASE(cards_are_read_and_old_ones_say_why_not) {
  planted = {};
  const auto reading = read_cards(planted_calls(), "planted");
  BOOST_REQUIRE(reading);
  BOOST_REQUIRE_EQUAL(reading->cards.size(), 2U);
  BOOST_CHECK_EQUAL(reading->cards[0].name, "Old");
  BOOST_CHECK_EQUAL(reading->cards[0].why_not, "compute capability 7.5; 8.0 is the least");
  BOOST_CHECK_EQUAL(reading->cards[1].name, "New");
  BOOST_CHECK_EQUAL(reading->cards[1].major, 9);
  BOOST_CHECK_EQUAL(reading->cards[1].memory.value, 2000U);
  BOOST_CHECK_EQUAL(reading->cards[1].why_not, "");
}

BOOST_AUTO_TEST_CASE(an_old_driver_disqualifies_every_card) {
  planted = {.driver = 11080};
  const auto reading = read_cards(planted_calls(), "planted");
  BOOST_REQUIRE(reading);
  for (const CardReading& card : reading->cards) BOOST_CHECK_EQUAL(card.why_not, "the driver knows CUDA up to 11.8; 12.0 is the least");
}

BOOST_AUTO_TEST_CASE(a_build_asks_for_what_its_own_code_and_runtime_need) {
  planted = {.driver = 12040};
  BOOST_CHECK_EQUAL(read_cards(planted_calls(), "planted", {.driver = 12000})->cards[1].why_not, "");
  BOOST_CHECK_EQUAL(read_cards(planted_calls(), "planted", {.driver = 13000})->cards[1].why_not, "the driver knows CUDA up to 12.4; 13.0 is the least");
  BOOST_CHECK_EQUAL(read_cards(planted_calls(), "planted", {.capability = 90})->cards[1].why_not, "");
  BOOST_CHECK_EQUAL(read_cards(planted_calls(), "planted", {.capability = 100})->cards[1].why_not, "compute capability 9.0; 10.0 is the least that this build has code for");
}

BOOST_AUTO_TEST_CASE(code_runs_on_cards_from_its_lowest_target_on) {
  BOOST_CHECK_EQUAL(capability_lacks(8, 0), "");
  BOOST_CHECK_EQUAL(capability_lacks(7, 5), "compute capability 7.5; 8.0 is the least");
  for (const auto& [major, minor] : {std::pair{8, 0}, {8, 6}, {8, 9}})
    BOOST_CHECK_EQUAL(capability_lacks(major, minor, 90), "compute capability 8." + std::to_string(minor) + "; 9.0 is the least that this build has code for");
  for (const auto& [major, minor] : {std::pair{9, 0}, {10, 0}, {12, 1}}) BOOST_CHECK_EQUAL(capability_lacks(major, minor, 90), "");
  BOOST_CHECK_EQUAL(capability_lacks(8, 0, 86), "compute capability 8.0; 8.6 is the least that this build has code for");
  BOOST_CHECK_EQUAL(capability_lacks(8, 9, 86), "");
}

BOOST_AUTO_TEST_CASE(each_call_that_fails_is_named) {
  for (const char* call : {"cuInit", "cuDriverGetVersion", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName", "cuDeviceGetAttribute", "cuDeviceTotalMem"}) {
    planted = {.failing = call};
    const auto reading = read_cards(planted_calls(), "planted");
    BOOST_REQUIRE(!reading);
    BOOST_CHECK(reading.error().code == Errc::unavailable);
    BOOST_CHECK_EQUAL(reading.error().line(), std::string("planted: ") + call + " failed with 999");
  }
}

BOOST_AUTO_TEST_CASE(the_first_card_that_can_be_used_is_taken_or_each_says_what_it_lacks) {
  planted = {};
  const auto usable = usable_card(*read_cards(planted_calls(), "planted"));
  BOOST_REQUIRE(usable);
  BOOST_CHECK_EQUAL(*usable, 1U);
  planted = {.n_cards = 1};
  const auto old = usable_card(*read_cards(planted_calls(), "planted"));
  BOOST_REQUIRE(!old);
  BOOST_CHECK(old.error().code == Errc::unavailable);
  BOOST_CHECK_EQUAL(old.error().line(), "planted: Old: compute capability 7.5; 8.0 is the least");
  planted = {.driver = 11080};
  BOOST_CHECK_EQUAL(usable_card(*read_cards(planted_calls(), "planted")).error().line(), "planted: Old: the driver knows CUDA up to 11.8; 12.0 is the least; New: the driver knows CUDA up to 11.8; 12.0 is the least");
  planted = {.n_cards = 0};
  BOOST_CHECK_EQUAL(usable_card(*read_cards(planted_calls(), "planted")).error().line(), "planted: the driver shows no card");
}

BOOST_AUTO_TEST_CASE(the_doctor_has_a_row_a_card) {
  planted = {};
  const auto two = probe_cards(read_cards(planted_calls(), "planted"));
  BOOST_REQUIRE_EQUAL(two.size(), 2U);
  BOOST_CHECK(two[0].verdict == CheckVerdict::warn && two[1].verdict == CheckVerdict::pass);
  BOOST_CHECK_EQUAL(two[0].found, "Old, 1000 B, compute capability 7.5: compute capability 7.5; 8.0 is the least");
  BOOST_CHECK_EQUAL(two[0].fix, "the profile cuda can't run on it");
  BOOST_CHECK_EQUAL(two[1].found, "New, 1.95 KiB, compute capability 9.0");
  BOOST_CHECK_EQUAL(two[1].fix, "");
  planted = {.n_cards = 0};
  const auto none = probe_cards(read_cards(planted_calls(), "planted"));
  BOOST_REQUIRE_EQUAL(none.size(), 1U);
  BOOST_CHECK_EQUAL(none[0].found, "the driver shows none");
  planted = {.failing = "cuInit"};
  const auto failing = probe_cards(read_cards(planted_calls(), "planted"));
  BOOST_REQUIRE_EQUAL(failing.size(), 1U);
  BOOST_CHECK(failing[0].verdict == CheckVerdict::pass);  // no card is no fault
  BOOST_CHECK_EQUAL(failing[0].found, "none that the profile cuda could run on: planted: cuInit failed with 999");
}

BOOST_AUTO_TEST_CASE(this_machine_is_read_or_says_what_is_missing) {
  const auto reading = read_cards();
  if (!reading) BOOST_CHECK(reading.error().code == Errc::unavailable && !reading.error().message.empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace coli::conformance
