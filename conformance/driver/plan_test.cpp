// SPDX-License-Identifier: Apache-2.0
// colidrv plan, doctor and profiles, and what run chooses by itself.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "fake_root.hpp"
#include "process.hpp"

namespace colidrv::test {
namespace {

using Json = nlohmann::json;
const std::string kModel = fixture("tiny_q4_k_m.gguf");
const std::string kHeader = fixture("plan/30b-a3b.gguf");  // no tensor data behind it

Json plan_of(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "plan");
  arguments.insert(arguments.end(), {"--json", "-"});
  return Json::parse(expect_success(arguments).out);
}

BOOST_AUTO_TEST_CASE(plan_says_what_fits_from_a_header_alone) {
  const Json plan = plan_of({kHeader, "--memory", "6G"});
  BOOST_TEST(plan.at("verdict") == "runs");
  BOOST_TEST(plan.at("limit").at("bytes") == 6ULL << 30);
  BOOST_TEST(plan.at("total_bytes") <= 6ULL << 30);
  BOOST_TEST(plan.at("token_cycle_bytes") == 1097072640);
  BOOST_TEST(plan.at("memory").at("trunk") == 997554176);
  BOOST_TEST(plan.at("runs_here") == false);  // its data is not there
  BOOST_TEST(contains(plan.at("why_not").get<std::string>(), "are not there"));
  BOOST_TEST(contains(plan.at("disk_rate").at("source").get<std::string>(), "default"));
  // Each figure of the machine says where it is from.
  for (const char* reading : {"memory", "cores", "memory_rate", "disk_rate"}) BOOST_TEST(!plan.at("machine").at(reading).at("source").get<std::string>().empty());
  // People get a screen.
  const std::string text = expect_success({"plan", kHeader, "--memory", "6G"}).out;
  for (const char* part : {"trunk", "kv", "experts,", "in all", "expected decode", "first token", "not here"}) BOOST_TEST(contains(text, part), part);
  BOOST_TEST(std::count(text.begin(), text.end(), '\n') <= 24);
}

BOOST_AUTO_TEST_CASE(wishes_and_rates_are_taken) {
  const Json base = plan_of({kHeader, "--memory", "6G"});
  const Json wished = plan_of({kHeader, "--memory", "6G", "--ctx", "1000", "--chunk", "100", "--kv", "f32", "--threads", "3", "--profile", "scalar"});
  BOOST_TEST(wished.at("context") == 1000);
  BOOST_TEST(wished.at("chunk") == 100);
  BOOST_TEST(wished.at("kv") == "f32");
  BOOST_TEST(wished.at("threads") == 3);
  BOOST_TEST(wished.at("profile") == "scalar");
  const Json fast = plan_of({kHeader, "--memory", "6G", "--disk-rate", "100G", "--memory-rate", "100G"});
  BOOST_TEST(fast.at("disk_rate").at("source") == "--disk-rate");
  BOOST_TEST(fast.at("decode").at("tokens_per_second") > base.at("decode").at("tokens_per_second"));
  const Json card = plan_of({kHeader, "--memory", "64G", "--vram", "24G"});
  BOOST_TEST(card.at("profile") == "cuda");
  BOOST_TEST(card.at("device").at("total_bytes") <= 24ULL << 30);
  BOOST_TEST(card.at("runs_here") == false);
}

BOOST_AUTO_TEST_CASE(the_quantisation_is_chosen) {
  const auto formats = [&](const std::string& memory) { return plan_of({kHeader, "--memory", memory, "--formats", "Q8_0,Q4_K,Q2_K", "--memory-rate", "40G", "--disk-rate", "3G"}).at("formats"); };
  BOOST_TEST(formats("64G") == "Q8_0");
  BOOST_TEST(formats("3G") != "Q8_0");
  const Json two = plan_of({fixture("plan/235b-a22b-like.gguf"), fixture("plan/olmoe-like.gguf"), "--memory", "8G"});
  BOOST_TEST(contains(two.at("model").get<std::string>(), "olmoe-like"));
  expect_error({"plan", kHeader, "--formats", "Q9_X"}, 2, {"Q9_X", "Q4_K", "--formats"});
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_one_screen_and_exit_4) {
  const Outcome outcome = colidrv({"plan", kHeader, "--memory", "1G"});
  BOOST_TEST(outcome.code == 4);
  for (const char* part : {"trunk", "needed", "allowed", "short by", "would work", "--memory "}) BOOST_TEST(contains(outcome.out, part), part);
  BOOST_TEST(std::count(outcome.out.begin(), outcome.out.end(), '\n') <= 24);
  BOOST_TEST(contains(last_line(outcome.err), "bytes short"));
  // What it says would work does, and a byte less does not. (The process itself is part of the bill: leave it some room.)
  const Outcome refused = colidrv({"plan", kHeader, "--memory", "1G", "--json", "-"});
  BOOST_TEST(refused.code == 4);
  const Json json = Json::parse(refused.out);
  BOOST_TEST(json.at("verdict") == "refused");
  const std::uint64_t needed = json.at("needed_bytes");
  BOOST_TEST(needed - (1ULL << 30) == json.at("short_bytes"));
  BOOST_TEST(plan_of({kHeader, "--memory", std::to_string(needed + (2U << 20))}).at("verdict") == "runs");
  BOOST_TEST(colidrv({"plan", kHeader, "--memory", std::to_string(needed - (2U << 20))}).code == 4);
  const Outcome disk = colidrv({"plan", kHeader, "--disk", "4G"});
  BOOST_TEST(disk.code == 4);
  BOOST_TEST(contains(last_line(disk.err), "--disk: 4.00 GiB is not enough"));
  expect_error({"plan", kHeader, "--profile", "cuda"}, 3, {"cuda", "not"});
  expect_error({"plan", kHeader, "--ctx", "50000"}, 2, {"--ctx", "40960"});
}

BOOST_AUTO_TEST_CASE(plan_and_doctor_read_headers_only) {
  // A file of the true size, all holes behind its header.
  coli::conformance::FakeRoot folder;
  const std::string whole = folder.path() + "/whole.gguf";
  std::filesystem::copy_file(kHeader, whole);
  const auto header = std::filesystem::file_size(kHeader);
  std::filesystem::resize_file(whole, 18550753472);
  const Json report = Json::parse(colidrv({"doctor", whole, "--no-measure", "--memory", "8G", "--json", "-"}).out);
  BOOST_TEST(report.at("header_bytes_read") >= header);
  BOOST_TEST(report.at("header_bytes_read") <= header + (64U << 10) + 64);
}

BOOST_AUTO_TEST_CASE(doctor_passes_what_runs_and_names_what_does_not) {
  const auto report = [&](std::vector<std::string> arguments, int code) {
    arguments.insert(arguments.begin(), "doctor");
    arguments.insert(arguments.end(), {"--no-measure", "--json", "-"});
    const Outcome outcome = colidrv(arguments);
    BOOST_TEST(outcome.code == code, outcome.err);
    return Json::parse(outcome.out);
  };
  const auto verdict_of = [](const Json& json, const std::string& name) {
    for (const Json& check : json.at("checks"))
      if (check.at("name") == name) return check.at("verdict").get<std::string>();
    return std::string("no such check");
  };
  const Json good = report({kModel}, 0);
  BOOST_TEST(good.at("runs_here") == true);
  for (const Json& check : good.at("checks")) {
    BOOST_TEST(check.at("verdict") != "fail", check.dump());
    if (check.at("verdict") == "warn") BOOST_TEST(!check.at("fix").get<std::string>().empty(), check.dump());
  }
  for (const char* name : {"memory", "cores", "io_uring", "huge pages", "locked memory", "file", "tensors", "plan"}) BOOST_TEST(verdict_of(good, name) != "no such check", name);

  const Json truncated = report({kHeader}, 5);
  BOOST_TEST(verdict_of(truncated, "file") == "fail");
  BOOST_TEST(truncated.at("runs_here") == false);
  BOOST_TEST(verdict_of(report({fixture("split_missing_bad-00001-of-00002.gguf")}, 8), "file") == "fail");
  BOOST_TEST(verdict_of(report({fixture("missing_tensor_bad.gguf")}, 5), "tensors") == "fail");
  BOOST_TEST(verdict_of(report({kModel, "--memory", "5M"}, 4), "plan") == "fail");
  BOOST_TEST(verdict_of(report({kModel, "--profile", "cuda"}, 3), "profile") == "fail");
  BOOST_TEST(verdict_of(report({"/nonexistent.gguf"}, 8), "file") == "fail");
}

BOOST_AUTO_TEST_CASE(run_says_first_what_it_chose) {
  const Outcome outcome = expect_success({"run", fixture("bard.gguf"), "-p", "ROMEO:", "-n", "2", "--memory", "22M"});
  const std::string first = outcome.err.substr(0, outcome.err.find('\n'));
  for (const char* part : {"bard.gguf: profile ", "(auto)", "context ", "22.00 MiB (--memory)", "of the experts held", "rates that were assumed"}) BOOST_TEST(contains(first, part), first);
  BOOST_TEST(expect_success({"run", fixture("bard.gguf"), "-p", "ROMEO:", "-n", "2", "--quiet"}).err == "");
  // More than there is: it says so and goes by what there is.
  const Outcome lowered = expect_success({"run", fixture("bard.gguf"), "-p", "ROMEO:", "-n", "2", "--memory", "4000000G"});
  BOOST_TEST(contains(lowered.err, "is more than there is"));
}

BOOST_AUTO_TEST_CASE(profiles_lists_all_that_are_known) {
  const Json list = Json::parse(expect_success({"profiles", "--json", "-"}).out).at("profiles");
  std::set<std::string> names;
  for (const Json& profile : list) {
    names.insert(profile.at("name").get<std::string>());
    BOOST_TEST((profile.at("available") == true) == profile.at("why_not").get<std::string>().empty());
    if (profile.at("compiled_in") == false) BOOST_TEST(profile.at("available") == false);
    else for (const char* key : {"needs", "formats", "stores", "margin_floors", "notes", "warnings", "activation_precision"}) BOOST_TEST(profile.contains(key), key);
  }
  for (const char* name : {"cpu", "scalar", "cuda", "grid"}) BOOST_TEST(names.contains(name), name);
  // A card's profile is never picked silently, and says why it can't be had, in this build or here.
  const auto cuda = std::find_if(list.begin(), list.end(), [](const Json& profile) { return profile.at("name") == "cuda"; });
  if (cuda->at("available") == true) return;
  const std::string why_not = cuda->at("why_not");
  BOOST_TEST((contains(why_not, "not in this build") || contains(why_not, "libcuda.so.1") || contains(why_not, "cudaGetDeviceCount")), why_not);
  const Outcome named = colidrv({"run", "--profile", "cuda", "-n", "1"});
  BOOST_TEST(named.code == 3);
  BOOST_TEST(std::count(named.err.begin(), named.err.end(), '\n') == 1);
  BOOST_TEST(contains(named.err, "cuda"));
}

}  // namespace
}  // namespace colidrv::test
