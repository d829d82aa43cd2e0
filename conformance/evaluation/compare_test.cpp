// SPDX-License-Identifier: Apache-2.0
// Does a comparison see every kind of difference, name the first cause first, and never pass what it did not compare?
#include <boost/test/unit_test.hpp>
#include <functional>

#include "coli/evaluation/compare.hpp"
#include "made_up.hpp"

namespace coli::evaluation {
namespace {

CaseDecisions decided(const std::string& id) {
  CaseDecisions d;
  d.id = id, d.prompt_sha256 = "p" + id, d.token_count = 3, d.ids = test::ids({5, 6, 7});
  d.token_margin = 0.5F, d.route_margin = 0.25F, d.route_ids_sha256 = "r", d.logits_sha256 = "l";
  return d;
}
Run run_of(std::vector<CaseDecisions> cases) {
  Run run{{"model", "cases", "cpu", "avx2", "int8", "f16"}, {}};
  for (auto& c : cases) run.cases.emplace_back(c.id, Result<CaseDecisions>(c));
  return run;
}
Lane lane_of(std::vector<CaseDecisions> cases) { return {run_of({}).key, {0.4, 0.2}, std::move(cases)}; }

std::string first(const Comparison& c) { return c.failures.empty() ? "" : c.failures.front().line(); }

BOOST_AUTO_TEST_SUITE(comparing)

BOOST_AUTO_TEST_CASE(equal_is_equal) {
  const Lane lane = lane_of({decided("a"), decided("b")});
  const Comparison c = compare(run_of({decided("a"), decided("b")}), lane, lane.floors);
  BOOST_TEST(c.failures.empty());
  BOOST_TEST(c.n_compared == 2U);
  BOOST_TEST(c.same_key);
}

BOOST_AUTO_TEST_CASE(every_field_is_seen) {
  const Lane lane = lane_of({decided("a")});
  const auto with = [&](const std::function<void(CaseDecisions&)>& change) {
    CaseDecisions d = decided("a");
    change(d);
    const Comparison c = compare(run_of({d}), lane, lane.floors);
    BOOST_TEST(c.failures.size() == 1U);
    return first(c);
  };
  BOOST_TEST(with([](auto& d) { d.prompt_sha256 = "q"; }) == "case 'a': inputs: the prompt's ids hash to q, the lane's to pa");
  BOOST_TEST(with([](auto& d) { d.token_count = 4; }) == "case 'a': inputs: the prompt has 4 tokens, the lane's 3");
  BOOST_TEST(with([](auto& d) { d.ids[1] = TokenId{9}; }) == "case 'a': token ids: step 1: expected 6, got 9");
  BOOST_TEST(with([](auto& d) { d.ids.pop_back(); }) == "case 'a': token ids: 2 tokens were decided, the lane has 3");
  BOOST_TEST(with([](auto& d) { d.route_ids_sha256 = "s"; }) == "case 'a': route ids: hash to s, the lane's to r");
  BOOST_TEST(with([](auto& d) { d.token_margin = 0.39F; }).starts_with("case 'a': token margin: 0.39"));
  BOOST_TEST(with([](auto& d) { d.route_margin = 0.19F; }).starts_with("case 'a': route margin: 0.19"));
  BOOST_TEST(with([](auto& d) { d.logits_sha256 = "m"; }) == "case 'a': logits: bits hash to m, the lane's to l");
}

BOOST_AUTO_TEST_CASE(under_another_key_decisions_count_and_bits_do_not) {
  Lane lane = lane_of({decided("a")});
  lane.key.isa = "avx512vnni";
  CaseDecisions d = decided("a");
  d.route_ids_sha256 = "s", d.logits_sha256 = "m";
  const Comparison c = compare(run_of({d}), lane, lane.floors);
  BOOST_TEST(c.failures.empty());
  BOOST_TEST(!c.same_key);
  d.ids[2] = TokenId{1}, d.token_margin = 0.1F;
  BOOST_TEST(compare(run_of({d}), lane, lane.floors).failures.size() == 2U);
}

BOOST_AUTO_TEST_CASE(a_missing_case_is_no_pass) {
  BOOST_TEST(first(compare(run_of({decided("a"), decided("b")}), lane_of({decided("a")}), {})) == "case 'b': missing case: the lane does not have it: nothing says what it must decide");
  BOOST_TEST(first(compare(run_of({decided("a")}), lane_of({decided("a"), decided("b")}), {})) == "case 'b': missing case: the lane has it, the file of cases does not");
}

BOOST_AUTO_TEST_CASE(first_causes_come_first) {
  CaseDecisions a = decided("a"), b = decided("b");
  a.logits_sha256 = "m", a.token_margin = 0;
  b.prompt_sha256 = "q", b.ids[0] = TokenId{0}, b.route_ids_sha256 = "s";
  Run run = run_of({a, b});
  run.cases.emplace_back("c", Result<CaseDecisions>(Error{Errc::internal, "broke"}));
  const Comparison c = compare(run, lane_of({decided("a"), decided("b"), decided("c")}), {0.4, 0.2});
  std::vector<Cause> causes;
  for (const Failure& f : c.failures) causes.push_back(f.cause);
  const std::vector<Cause> expected{Cause::inputs, Cause::refused, Cause::token_ids, Cause::route_ids, Cause::token_margin, Cause::logits};
  BOOST_TEST((causes == expected));
  run.key.model_sha256 = "other";
  BOOST_TEST(first(compare(run, lane_of({decided("a")}), {})) == "inputs: the model is other, the lane's is model");
}

BOOST_AUTO_TEST_CASE(a_floor_of_nothing_is_off) {
  CaseDecisions d = decided("a");
  d.token_margin = 0, d.route_margin = 0;
  BOOST_TEST(compare(run_of({d}), lane_of({decided("a")}), {}).failures.empty());
  BOOST_TEST(compare(run_of({d}), lane_of({decided("a")}), {0.0, 0.0}).failures.empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace coli::evaluation
