// SPDX-License-Identifier: Apache-2.0
// Does eval pass only what it compared, and say where it differs?
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "conformance/gguf/temporary_folder.hpp"
#include "process.hpp"

namespace colidrv::test {
namespace {

using Json = nlohmann::json;
using coli::gguf::test::TemporaryFolder;
const std::string kModel = fixture("tiny_min.gguf");

Json golden() {
  std::ifstream in(fixture("goldens/tiny_min.json"));
  return Json::parse(in);
}

BOOST_AUTO_TEST_SUITE(eval)

BOOST_AUTO_TEST_CASE(the_oracle_agrees) {
  const Outcome outcome = expect_success({"eval", kModel, "--golden", fixture("goldens/tiny_min.json"), "--profile", "scalar", "--quiet", "--json", "-"});
  const Json result = Json::parse(outcome.out);
  BOOST_TEST(result.at("profile") == "scalar");
  BOOST_TEST(result.at("cases").size() == golden().at("cases").size());
  for (const Json& c : result.at("cases")) BOOST_TEST(c.at("verdict") == "same");
  BOOST_TEST(outcome.err == "");
}

BOOST_AUTO_TEST_CASE(a_planted_difference_is_named) {
  const TemporaryFolder folder;
  Json changed = golden();
  const int right = changed.at("cases")[1].at("ids")[5];
  changed.at("cases")[1].at("ids")[5] = right == 3 ? 4 : 3;
  const std::string id = changed.at("cases")[1].at("id"), file = folder.write("golden.json", changed.dump()), out = folder / "out.json";
  const Outcome outcome = colidrv({"eval", kModel, "--golden", file, "--profile", "scalar", "--quiet", "--json", out});
  BOOST_TEST(outcome.code == 6);
  const std::string expected = "prompt '" + id + "', step 5: expected " + (right == 3 ? "4" : "3") + ", got " + std::to_string(right);
  BOOST_TEST(contains(last_line(outcome.err), expected), outcome.err);
  const Json result = Json::parse(TemporaryFolder::read(out));  // the evidence is written all the same
  BOOST_TEST(result.at("cases")[0].at("verdict") == "same");
  BOOST_TEST(result.at("cases")[1].at("verdict") == "DIFFERS");
  BOOST_TEST(result.at("cases")[1].at("step") == 5);
  BOOST_TEST(result.at("cases")[1].at("got") == right);
}

// The canonical lane has no excuse, whatever the golden says of itself.
BOOST_AUTO_TEST_CASE(no_near_tie_excuses_the_scalar_lane) {
  const TemporaryFolder folder;
  Json changed = golden();
  changed.at("cases")[0].at("near_tie") = true;
  const int right = changed.at("cases")[0].at("ids")[0];
  changed.at("cases")[0].at("ids")[0] = right == 3 ? 4 : 3;
  BOOST_TEST(colidrv({"eval", kModel, "--golden", folder.write("g.json", changed.dump()), "--profile", "scalar", "--quiet"}).code == 6);
}

BOOST_AUTO_TEST_CASE(nothing_compared) {
  const TemporaryFolder folder;
  expect_error({"eval", kModel, "--golden", folder.write("none.json", R"({"schema":1,"cases":[]})")}, 7, {"none.json", "nothing was compared"});
}

BOOST_AUTO_TEST_CASE(a_golden_that_is_none) {
  const TemporaryFolder folder;
  const auto bad = [&](std::string_view text, const std::vector<std::string>& says) {
    expect_error({"eval", kModel, "--golden", folder.write("bad.json", text)}, 5, says);
  };
  bad("", {"bad.json", "JSON"});
  bad("{", {"bad.json", "JSON"});
  bad("[]", {"schema"});
  bad("{}", {"schema"});
  bad(R"({"schema":2,"cases":[]})", {"schema"});
  bad(R"({"schema":"1","cases":[]})", {"schema"});
  bad(R"({"schema":1})", {"cases"});
  bad(R"({"schema":1,"cases":{}})", {"cases"});
  bad(R"({"schema":1,"cases":[7]})", {"cases[0]"});
  bad(R"({"schema":1,"cases":[{"prompt_ids":[1],"ids":[1]}]})", {"cases[0].id"});
  bad(R"({"schema":1,"cases":[{"id":"a","ids":[1]}]})", {"cases[0].prompt_ids"});
  bad(R"({"schema":1,"cases":[{"id":"a","prompt_ids":[],"ids":[1]}]})", {"cases[0].prompt_ids"});
  bad(R"({"schema":1,"cases":[{"id":"a","prompt_ids":[1],"ids":[]}]})", {"cases[0].ids"});  // would compare nothing
  bad(R"({"schema":1,"cases":[{"id":"a","prompt_ids":[1],"ids":[1]},{"id":"b","prompt_ids":[1],"ids":["x"]}]})", {"cases[1].ids"});
  bad(R"({"schema":1,"cases":[{"id":"a","prompt_ids":[1.5],"ids":[1]}]})", {"cases[0].prompt_ids"});
  bad(R"({"schema":1,"cases":[{"id":"a","prompt_ids":[-1],"ids":[1]}]})", {"cases[0].prompt_ids"});
  bad(R"({"schema":1,"cases":[{"id":"a","prompt_ids":[2147483648],"ids":[1]}]})", {"cases[0].prompt_ids"});
  bad(R"({"schema":1,"cases":[{"id":"a","prompt_ids":[18446744073709551615],"ids":[1]}]})", {"cases[0].prompt_ids"});
  bad(std::string(100'000, '['), {"JSON"});  // deep nesting must not exhaust the stack
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_names_the_prompt) {
  expect_error({"eval", kModel, "--golden", fixture("goldens/tiny_min.json"), "--ctx", "10"}, 2, {golden().at("cases")[0].at("id"), "context of 10"});
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace colidrv::test
