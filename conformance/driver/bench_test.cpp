// SPDX-License-Identifier: Apache-2.0
// colidrv bench: are its keys there and consistent, and are the bytes a token those that the tensors' sizes give?
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "process.hpp"

namespace colidrv::test {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--quiet", "--json", "-"});
  return Json::parse(expect_success(arguments).out);
}

void check_rates(const Json& list, std::vector<int> tokens, std::size_t n) {
  BOOST_TEST_REQUIRE(list.size() == tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const Json& entry = list[i];
    BOOST_TEST(entry.at("tokens") == tokens[i]);
    BOOST_TEST(entry.at("n") == n);
    BOOST_TEST(entry.at("samples").size() == n);
    BOOST_TEST(entry.at("tps_min").get<double>() > 0);
    BOOST_TEST(entry.at("tps_min").get<double>() <= entry.at("tps_median").get<double>());
    BOOST_TEST(entry.at("tps_median").get<double>() <= entry.at("tps_max").get<double>());
    for (const Json& sample : entry.at("samples")) BOOST_TEST((sample >= entry.at("tps_min") && sample <= entry.at("tps_max")));
  }
}

/// Every matrix that one token multiplies, experts by how many of them it meets; from the file's own list of tensors.
double bytes_per_token(const std::string& model, double experts_used, double experts) {
  const Json inspected = Json::parse(expect_success({"inspect", model, "--json", "-"}).out);
  double bytes = 0;
  bool has_output = false;
  for (const Json& tensor : inspected.at("tensors")) has_output = has_output || tensor.at("name") == "output.weight";
  for (const Json& tensor : inspected.at("tensors")) {
    const std::string name = tensor.at("name");
    const double size = tensor.at("bytes");
    if (name.find("_norm") != std::string::npos || (name == "token_embd.weight" && has_output)) continue;
    bytes += name.find("_exps.") != std::string::npos ? size * experts_used / experts : size;
  }
  return bytes;
}

BOOST_AUTO_TEST_SUITE(bench)

BOOST_AUTO_TEST_CASE(keys_are_there_and_agree) {
  const std::string model = fixture("tiny_min.gguf");
  const Json json = json_of({"bench", model, "--profile", "auto", "--prefill", "3,16", "--decode", "5", "--repeat", "2", "--threads", "2"});
  check_rates(json.at("prefill"), {3, 16}, 2);
  check_rates(json.at("decode"), {5}, 2);
  BOOST_TEST(json.at("threads") == 2);
  BOOST_TEST(json.at("isa").get<std::string>() != "");
  BOOST_TEST(json.at("commit").get<std::string>() != "");
  const Json inspected = Json::parse(expect_success({"inspect", model, "--json", "-"}).out).at("geometry");
  BOOST_TEST(json.at("bytes_per_token").get<double>() == bytes_per_token(model, inspected.at("top_k"), inspected.at("experts")));
  for (const Json& kernel : json.at("kernels")) BOOST_TEST(contains(kernel.get<std::string>(), "/" + json.at("isa").get<std::string>()));
  BOOST_TEST(json.at("generic_tensors").empty());

  // The weights are smaller than any cache: only the loops over memory of the bench's own count, if there is room for it.
  BOOST_TEST(json.at("read_loops").size() >= 4U);
  double best = 0;
  for (const Json& loop : json.at("read_loops")) best = std::max(best, loop.at("gbs").get<double>());
  if (best > 0) {
    BOOST_TEST(json.at("read_bandwidth_best_gbs").get<double>() == best);
    BOOST_TEST(json.at("read_bandwidth_rounds_gbs").size() == 2U);
    for (const Json& round : json.at("read_bandwidth_rounds_gbs")) BOOST_TEST(round.get<double>() <= best);
    BOOST_TEST(json.at("read_bandwidth_gbs").get<double>() <= best);
    BOOST_TEST(json.at("decode")[0].contains("bandwidth_fraction"));
  } else {
    BOOST_TEST(json.at("read_bandwidth_gbs").is_null());
  }
}

BOOST_AUTO_TEST_CASE(tensors_on_the_generic_path_are_named) {
  const Json json = json_of({"bench", fixture("tiny_mixed.gguf"), "--prefill", "2", "--decode", "1", "--repeat", "1", "--no-bandwidth"});
  BOOST_TEST(json.at("read_bandwidth_gbs").is_null());
  if (json.at("profile") != "cpu") return;  // scalar has one path
  std::vector<std::string> formats;
  for (const Json& generic : json.at("generic_tensors")) {
    formats.push_back(generic.at("format"));
    BOOST_TEST(generic.at("tensors").get<int>() > 0);
    BOOST_TEST(generic.at("bytes").get<double>() > 0);
  }
  for (const char* covered : {"Q4_K", "Q5_K", "Q6_K", "Q8_0", "Q4_0", "F32"}) BOOST_TEST(std::count(formats.begin(), formats.end(), covered) == 0, covered);
  std::size_t decoded = 0;
  for (const Json& kernel : json.at("kernels")) decoded += kernel.get<std::string>().ends_with("/decoded") ? 1 : 0;
  BOOST_TEST(formats.size() == decoded);
}

BOOST_AUTO_TEST_CASE(a_cold_start_can_be_measured) {
  const Json json = json_of({"bench", fixture("tiny_min.gguf"), "--no-prefill", "--prompt", "4", "--discard", "3", "--decode", "2", "--warm-up", "0", "--repeat", "1", "--no-bandwidth"});
  BOOST_TEST(json.at("prefill").empty());
  check_rates(json.at("decode"), {2}, 1);
}

BOOST_AUTO_TEST_CASE(a_device_says_what_a_token_asks_of_it) {
  const Json profiles = Json::parse(expect_success({"profiles", "--json", "-"}).out).at("profiles");
  if (std::none_of(profiles.begin(), profiles.end(), [](const Json& p) { return p.at("name") == "grid" && p.at("compiled_in") == true; })) {
    BOOST_TEST_MESSAGE("SKIP: the profile grid is not in this build");
    return;
  }
  double all = 0;  // of a token, recorded or not
  for (const bool recorded : {true, false}) {
    std::vector<std::string> arguments{"bench", fixture("tiny_q4_k_m.gguf"), "--profile", "grid", "--no-prefill", "--decode", "3", "--repeat", "2", "--no-bandwidth", "--bodies"};
    if (!recorded) arguments.insert(arguments.end(), {"--parked", "plain-passes"});
    const Json json = json_of(arguments);
    const Json& use = json.at("decode")[0].at("device");
    const double nodes = use.at("nodes_per_token"), launches = use.at("launches_per_token");
    BOOST_TEST(use.at("replays_per_token").get<double>() == (recorded ? 1 : 0));
    BOOST_TEST((recorded ? launches < nodes : nodes == 0), launches << " and " << nodes);
    double runs = 0;
    for (const Json& body : use.at("bodies")) {
      runs += body.at("runs_per_token").get<double>();
      BOOST_TEST(body.at("microseconds_per_token").get<double>() > 0);
    }
    BOOST_TEST(runs == nodes + launches, boost::test_tools::tolerance(1e-9));
    if (recorded) all = runs;
    BOOST_TEST(runs == all, boost::test_tools::tolerance(1e-9));
    BOOST_TEST(use.at("uploaded_bytes_per_token") == 0);
    const Json& device = json.at("device");
    BOOST_TEST(device.at("device_slots") == device.at("device_experts"));
    BOOST_TEST(device.at("device_held_bytes").get<double>() > device.at("device_slot_bytes").get<double>());
  }
}

BOOST_AUTO_TEST_CASE(a_cpu_has_no_device_to_time) {
  expect_error({"bench", fixture("tiny_min.gguf"), "--profile", "scalar", "--bodies", "--quiet"}, 2, {"--bodies", "runs on the CPU"});
  expect_error({"bench", fixture("tiny_min.gguf"), "--profile", "scalar", "--parked", "plain-passes", "--quiet"}, 2, {"--parked", "runs on the CPU"});
}

BOOST_AUTO_TEST_CASE(lengths_that_do_not_fit_are_usage) {
  const std::string model = fixture("tiny_min.gguf");
  expect_error({"bench", model, "--prefill", "0", "--quiet"}, 2, {"--prefill", "expected 1 to the context"});
  expect_error({"bench", model, "--ctx", "16", "--prefill", "17", "--quiet"}, 2, {"--prefill", "17 tokens", "16"});
  expect_error({"bench", model, "--ctx", "16", "--prefill", "8", "--decode", "5", "--discard", "4", "--quiet"}, 2, {"--decode", "5 tokens", "less 12"});
  expect_error({"bench", model, "--repeat", "0"}, 2, {"--repeat"});
  expect_error({"bench", model, "--json", ""}, 2, {"--json"});
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace colidrv::test
