// SPDX-License-Identifier: Apache-2.0
// Does a failure carry what it must, and does it reach the caller whole?
#include "coli/core/error.hpp"

#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "coli/core/fixed_name.hpp"
#include "coli/core/ids.hpp"

namespace coli {
namespace {

BOOST_AUTO_TEST_SUITE(error)

BOOST_AUTO_TEST_CASE(codes_are_the_exit_codes) {
  static_assert(static_cast<int>(Errc::internal) == 1 && static_cast<int>(Errc::usage) == 2 && static_cast<int>(Errc::unavailable) == 3);
  static_assert(static_cast<int>(Errc::over_budget) == 4 && static_cast<int>(Errc::bad_input) == 5 && static_cast<int>(Errc::mismatch) == 6);
  static_assert(static_cast<int>(Errc::nothing_compared) == 7 && static_cast<int>(Errc::io) == 8 && static_cast<int>(Errc::interrupted) == 130);
}

BOOST_AUTO_TEST_CASE(a_line_for_people) {
  BOOST_TEST((Error{Errc::usage, "what"}.line()) == "what");
  BOOST_TEST((Error{Errc::usage, "what", "--temp"}.line()) == "--temp: what");
  BOOST_TEST((Error{Errc::io, "what", "", "a.gguf"}.line()) == "a.gguf: what");
  BOOST_TEST((Error{Errc::io, "what", "blk.0", "a.gguf"}.line()) == "a.gguf: blk.0: what");
}

BOOST_AUTO_TEST_CASE(the_first_that_knows_the_file_names_it) {
  const Error named = Error{Errc::io, "what"}.in_file("shard.gguf");
  BOOST_TEST(named.file == "shard.gguf");
  BOOST_TEST(Error(named).in_file("other.gguf").file == "shard.gguf");
  BOOST_TEST((named.code == Errc::io));
}

Result<int> half(int n) {
  if (n % 2 != 0) return Error{Errc::usage, std::to_string(n) + " is odd", "n"};
  return n / 2;
}
Result<void> must_be_even(int n) {
  COLI_CHECK(half(n));
  return {};
}
Result<std::string> quarter(int n, int& reached) {
  COLI_TRY(first, half(n));
  ++reached;
  COLI_TRY(second, half(first));
  ++reached;
  return std::to_string(second);
}

BOOST_AUTO_TEST_CASE(either_a_value_or_an_error) {
  const Result<int> two = half(4);
  BOOST_TEST_REQUIRE(two.has_value());
  BOOST_TEST(static_cast<bool>(two));
  BOOST_TEST(*two == 2);
  const Result<int> none = half(3);
  BOOST_TEST(!none.has_value());
  BOOST_TEST(none.error().line() == "n: 3 is odd");
  BOOST_TEST(must_be_even(2).has_value());
  BOOST_TEST(must_be_even(5).error().message == "5 is odd");
}

BOOST_AUTO_TEST_CASE(try_returns_at_the_first_error) {
  int reached = 0;
  BOOST_TEST(*quarter(8, reached) == "2");
  BOOST_TEST(reached == 2);
  reached = 0;
  BOOST_TEST(quarter(6, reached).error().message == "3 is odd");
  BOOST_TEST(reached == 1);
  reached = 0;
  BOOST_TEST(quarter(7, reached).error().message == "7 is odd");
  BOOST_TEST(reached == 0);
}

Result<std::unique_ptr<int>> boxed(int n) {
  COLI_TRY(value, half(n));
  return std::make_unique<int>(value);
}
Result<int> unboxed(int n) {
  COLI_TRY(box, boxed(n));  // moves what can't be copied
  return *box;
}

BOOST_AUTO_TEST_CASE(values_that_only_move) {
  BOOST_TEST(*unboxed(10) == 5);
  BOOST_TEST(!unboxed(11).has_value());
  auto owner = boxed(6);
  const std::unique_ptr<int> taken = *std::move(owner);
  BOOST_TEST(*taken == 3);
  Result<std::vector<int>> list = std::vector<int>{1, 2, 3};
  list->push_back(4);
  BOOST_TEST(list->size() == 4U);
}

BOOST_AUTO_TEST_CASE(names_and_ids_know_their_kind) {
  constexpr FixedName name{"scalar"};
  static_assert(name.view() == "scalar" && std::string_view(name).size() == 6 && FixedName{""}.view().empty());
  static_assert(std::is_same_v<std::integral_constant<int, []<FixedName N> { return static_cast<int>(N.view().size()); }.template operator()<"abc">()>,
                               std::integral_constant<int, 3>>);
  static_assert(!std::is_convertible_v<int, TokenId> && !std::is_convertible_v<LayerId, ExpertId> && !std::is_convertible_v<TokenId, int>);
  static_assert(TokenId{3} < TokenId{4} && TokenId{} == TokenId{0});
  static_assert(ExpertKey{LayerId{1}, ExpertId{9}} < ExpertKey{LayerId{2}, ExpertId{0}});
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace coli
