// SPDX-License-Identifier: Apache-2.0
// Is a stop text found wherever tokens cut it, is nothing shown that belongs to it, and nothing held that can't?
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <random>
#include <string>
#include <vector>

#include "coli/generation.hpp"

namespace coli {
namespace {

using Strings = std::vector<std::string>;

struct Seen {
  std::string shown;
  bool stopped = false;
};

/// Pushes the pieces until a stop is complete; what was held at the end is flushed.
Seen push_all(const Strings& stops, const Strings& pieces) {
  StopMatcher matcher(stops);
  Seen seen;
  for (const std::string& piece : pieces)
    if ((seen.stopped = matcher.push(piece, seen.shown))) return seen;
  seen.shown += matcher.flush();
  return seen;
}

/// The definition: the first end of any stop text; of those ending there, the longest.
Seen by_definition(const Strings& stops, const std::string& text) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::size_t longest = 0;
    for (const std::string& stop : stops)
      if (stop.size() <= end && text.compare(end - stop.size(), stop.size(), stop) == 0) longest = std::max(longest, stop.size());
    if (longest != 0) return {text.substr(0, end - longest), true};
  }
  return {text, false};
}

bool operator==(const Seen& a, const Seen& b) { return a.shown == b.shown && a.stopped == b.stopped; }

BOOST_AUTO_TEST_SUITE(stop_matcher)

BOOST_AUTO_TEST_CASE(without_stops_everything_passes_at_once) {
  StopMatcher matcher({});
  std::string out;
  BOOST_TEST(!matcher.push("abc", out));
  BOOST_TEST(out == "abc");
  BOOST_TEST(!matcher.push("", out));
  BOOST_TEST(matcher.flush() == "");
}

BOOST_AUTO_TEST_CASE(split_across_tokens) {
  BOOST_TEST((push_all({"END"}, {"one E", "N", "D two"}) == Seen{"one ", true}));
  BOOST_TEST((push_all({"END"}, {"one END two"}) == Seen{"one ", true}));
  BOOST_TEST((push_all({"END"}, {"E", "N", "D"}) == Seen{"", true}));
  BOOST_TEST((push_all({"END"}, {"EN", "EN", "D"}) == Seen{"EN", true}));  // began anew
  BOOST_TEST((push_all({"END"}, {"one EN", "X"}) == Seen{"one ENX", false}));
  BOOST_TEST((push_all({"\n\n"}, {"a\n", "b\n", "\nc"}) == Seen{"a\nb", true}));
}

BOOST_AUTO_TEST_CASE(overlapping_prefixes) {
  BOOST_TEST((push_all({"aab"}, {"a", "a", "a", "b"}) == Seen{"a", true}));
  BOOST_TEST((push_all({"abab"}, {"aba", "ba", "b"}) == Seen{"", true}));
  BOOST_TEST((push_all({"abac"}, {"aba", "ba", "c"}) == Seen{"ab", true}));
}

BOOST_AUTO_TEST_CASE(several_stops) {
  // The one complete first counts, whole or in pieces.
  BOOST_TEST((push_all({"abc", "b"}, {"abc"}) == Seen{"a", true}));
  BOOST_TEST((push_all({"abc", "b"}, {"a", "b", "c"}) == Seen{"a", true}));
  // Of those complete together, the longest: nothing of it may be shown.
  BOOST_TEST((push_all({"c", "abc", "bc"}, {"xab", "c"}) == Seen{"x", true}));
  BOOST_TEST((push_all({"stop", "stopper"}, {"sto", "pper"}) == Seen{"", true}));
  BOOST_TEST((push_all({"zz", "b"}, {"a", "z", "b"}) == Seen{"az", true}));
}

BOOST_AUTO_TEST_CASE(held_only_while_it_may_be_a_stop) {
  const Strings stops{"END", "<|"};
  StopMatcher matcher(stops);
  std::string out;
  BOOST_TEST(!matcher.push("the E", out));
  BOOST_TEST(out == "the ");
  BOOST_TEST(!matcher.push("N", out));
  BOOST_TEST(out == "the ");
  BOOST_TEST(!matcher.push(" <", out));
  BOOST_TEST(out == "the EN ");
  BOOST_TEST(matcher.flush() == "<");
  BOOST_TEST(matcher.flush() == "");
  BOOST_TEST(!matcher.push("|", out));  // what was flushed is gone
  BOOST_TEST(out == "the EN |");
}

BOOST_AUTO_TEST_CASE(equals_the_definition_however_it_is_cut) {
  std::mt19937 random(9);
  const auto word = [&](std::size_t n) {
    std::string text(n, 'a');
    for (char& c : text) c = static_cast<char>('a' + random() % 2);
    return text;
  };
  unsigned stopped = 0;
  for (int round = 0; round < 20'000; ++round) {
    Strings stops;
    for (unsigned i = 0; i < 1 + random() % 3; ++i) stops.push_back(word(1 + random() % 6));
    const std::string text = word(random() % 30);
    Strings pieces;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t n = std::min<std::size_t>(random() % 5, text.size() - at);  // also none
      pieces.push_back(text.substr(at, n));
      at += n;
    }
    const Seen expected = by_definition(stops, text);
    BOOST_TEST_REQUIRE((push_all(stops, pieces) == expected));
    stopped += expected.stopped;
    if (expected.stopped) continue;
    // Not a byte more is held than may still become a stop.
    StopMatcher matcher(stops);
    std::string out, so_far;
    for (const std::string& piece : pieces) {
      so_far += piece;
      BOOST_TEST_REQUIRE(!matcher.push(piece, out));
      std::size_t longest = 0;
      for (const std::string& stop : stops)
        for (std::size_t n = 1; n < stop.size(); ++n)
          if (so_far.ends_with(stop.substr(0, n))) longest = std::max(longest, n);
      BOOST_TEST_REQUIRE(out == so_far.substr(0, so_far.size() - longest));
    }
  }
  BOOST_TEST(stopped > 1000U);
  BOOST_TEST(stopped < 19'500U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace coli
