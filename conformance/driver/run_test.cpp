// SPDX-License-Identifier: Apache-2.0
// Does `run` generate what the oracle says, report it to machines exactly, and end cleanly when asked to?
#include <sys/stat.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "conformance/gguf/temporary_folder.hpp"
#include "coli/core/sha256.hpp"
#include "coli/sample/greedy.hpp"
#include "driver/json_output.hpp"
#include "driver/model_options.hpp"
#include "process.hpp"

namespace colidrv::test {
namespace {

using coli::gguf::test::TemporaryFolder;
const std::string kModel = fixture("tiny_f32.gguf");

std::vector<std::string> profile_names() {
  std::vector<std::string> names;
  const Json listed = Json::parse(expect_success({"profiles", "--json", "-"}).out);
  for (const Json& p : listed.at("profiles"))
    if (p.at("available") == true) names.push_back(p.at("name"));
  return names;
}

Json run_json(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "run");
  arguments.insert(arguments.end(), {"--json", "-", "--quiet"});
  const Outcome outcome = expect_success(arguments);
  BOOST_TEST(outcome.err == "");
  return Json::parse(outcome.out);
}

/// What must not depend on how it was computed.
Json decisions(Json json) {
  json.erase("stats"), json.erase("memory"), json.erase("seed");
  return json;
}

std::string join(const Json& ids) {
  std::string text;
  for (const Json& id : ids) text += (text.empty() ? "" : ",") + std::to_string(id.get<int>());
  return text;
}

Json golden_case(std::string_view model, std::size_t i = 0) {
  std::ifstream in(fixture("goldens/" + std::string(model) + ".json"));
  return Json::parse(in).at("cases")[i];
}

BOOST_AUTO_TEST_SUITE(run)

BOOST_AUTO_TEST_CASE(one_json_object_and_nothing_else) {
  const Outcome outcome = expect_success({"run", kModel, "-p", "if the token", "-n", "5", "--temp", "0", "--json", "-"});
  BOOST_TEST(outcome.out.ends_with("}\n"));
  const Json json = Json::parse(outcome.out);  // fails on anything before or after
  BOOST_TEST(json.at("prompt_ids").is_array());
  BOOST_TEST(json.at("ids").size() == 5U);
  BOOST_TEST(json.at("text").is_string());
  BOOST_TEST(json.at("stop") == "length");
  BOOST_TEST(json.at("margins").size() == 5U);
  BOOST_TEST(json.at("logits_hash").get<std::string>().size() == 64U);
  BOOST_TEST(json.at("profile").is_string());
  BOOST_TEST(json.at("seed").is_number_unsigned());
  const Json& stats = json.at("stats");
  for (const char* key : {"prefill_tokens", "decode_tokens", "peak_rss_bytes"}) BOOST_TEST(stats[key].is_number_unsigned(), key);
  for (const char* key : {"prefill_tps", "decode_tps", "load_seconds"}) BOOST_TEST(stats[key].is_number_float(), key);
  BOOST_TEST(stats.at("prefill_tokens") == json.at("prompt_ids").size());
  BOOST_TEST(stats.at("decode_tokens") == 4);  // the last token is not computed further
  BOOST_TEST(stats.at("peak_rss_bytes").get<std::uint64_t>() > 1'000'000U);
  BOOST_TEST(!stats.at("kernels").empty());
}

BOOST_AUTO_TEST_CASE(floats_are_the_shortest_that_read_back) {
  const Outcome outcome = expect_success({"run", kModel, "-p", "if the token", "-n", "40", "--temp", "0", "--json", "-", "--ignore-eos"});
  const auto begin = outcome.out.find("\"margins\": [") + 12, end = outcome.out.find(']', begin);
  std::size_t n = 0;
  for (std::size_t at = begin; at < end;) {
    at = outcome.out.find_first_of("-0123456789", at);
    if (at >= end) break;
    const std::size_t stop = outcome.out.find_first_of(",\n", at);
    const std::string written = outcome.out.substr(at, stop - at);
    float value = 0;
    BOOST_TEST_REQUIRE((std::from_chars(written.data(), written.data() + written.size(), value).ec == std::errc{}));
    char shortest[32];
    const std::string_view expected(shortest, static_cast<std::size_t>(std::to_chars(shortest, shortest + sizeof shortest, value).ptr - shortest));
    const auto digits = [](std::string_view text) { return std::count_if(text.begin(), text.end(), [](char c) { return c >= '1' && c <= '9'; }); };
    BOOST_TEST(digits(written) == digits(expected), written << " is not as short as " << expected);
    ++n;
    at = stop;
  }
  BOOST_TEST(n == 40U);
  BOOST_TEST(json_number(0.1F).dump() == "0.1");
  BOOST_TEST(json_number(1).dump() == "1.0");
  BOOST_TEST(json_number(16777216).dump() == "16777216.0");
  BOOST_TEST(json_number(std::numeric_limits<float>::infinity()).is_null());
  BOOST_TEST(json_number(std::numeric_limits<float>::quiet_NaN()).is_null());
}

BOOST_AUTO_TEST_CASE(ids_go_in_verbatim_and_golden_ids_come_out) {
  for (const char* model : {"tiny_f32", "tiny_q8_0", "tiny_q4_k_m", "tiny_min", "tiny_split"}) {
    const std::string path = fixture(std::string(model) == "tiny_split" ? "tiny_split-00002-of-00003.gguf" : std::string(model) + ".gguf");
    const Json c = golden_case(model);
    const Json json = run_json({path, "--tokens", join(c.at("prompt_ids")), "-n", std::to_string(c.at("ids").size()), "--temp", "0", "--ignore-eos", "--profile", "scalar"});
    BOOST_TEST(json.at("prompt_ids") == c.at("prompt_ids"));
    BOOST_TEST(json.at("ids") == c.at("ids"));
    for (std::size_t i = 0; i < c.at("margins").size(); ++i) BOOST_TEST(std::abs(json.at("margins")[i].get<double>() - c.at("margins")[i].get<double>()) < 1e-3);
  }
}

BOOST_AUTO_TEST_CASE(nothing_about_the_computation_changes_the_bits) {
  for (const std::string& profile : profile_names())
    for (const char* model : {"tiny_f32.gguf", "tiny_q4_k_m.gguf"}) {
      const std::vector<std::string> common{fixture(model), "-p", "the token of a model, if \n\n it is so, is not one", "-n", "24", "--temp", "0", "--ignore-eos", "--profile", profile};
      Json first;
      for (const auto& how : {std::vector<std::string>{}, {"--threads", "1"}, {"--threads", "2"}, {"--threads", "4"}, {"--chunk", "1"}, {"--chunk", "3"}, {"--chunk", "32"},
                              {"--chunk", "1000000"}, {"--threads", "3", "--chunk", "5", "--ctx", "64"}}) {
        std::vector<std::string> arguments = common;
        arguments.insert(arguments.end(), how.begin(), how.end());
        const Json json = decisions(run_json(arguments));
        if (first.is_null()) first = json;
        BOOST_TEST(json == first, profile << ", " << model << (how.empty() ? "" : ", " + how[0] + " " + how[1]) << ": " << json.at("logits_hash"));
      }
    }
}

// The hash is what it says: SHA-256 over the f32 bits of each step's logits, computed here through the library.
BOOST_AUTO_TEST_CASE(the_hash_is_that_of_the_logits) {
  const std::vector<int> prompt{5, 17, 3};
  const Json json = run_json({kModel, "--tokens", "5,17,3", "-n", "6", "--temp", "0", "--ignore-eos", "--profile", "scalar"});
  auto file = open_file(kModel);
  BOOST_TEST_REQUIRE(file.has_value());
  auto session = (*find_profile("scalar"))->open(*std::move(file), {});
  BOOST_TEST_REQUIRE(session.has_value());
  std::vector<coli::TokenId> tokens;
  for (const int id : prompt) tokens.push_back(coli::TokenId{id});
  coli::Sha256 hash;
  std::vector<int> ids;
  auto logits = (*session)->prefill(tokens);
  for (int step = 0; step < 6; ++step) {
    BOOST_TEST_REQUIRE(logits.has_value());
    hash.update_values(*logits);
    const auto top = *coli::top_two(*logits);
    ids.push_back(top.best.value);
    BOOST_TEST(json.at("margins")[static_cast<std::size_t>(step)] == json_number(top.margin()));
    logits = (*session)->step(top.best);
  }
  BOOST_TEST((json.at("ids").get<std::vector<int>>() == ids));
  BOOST_TEST(json.at("logits_hash") == hash.hex());
}

BOOST_AUTO_TEST_CASE(text_for_people_is_the_same_text) {
  const std::vector<std::string> common{"run", kModel, "-p", "if the", "-n", "30", "--temp", "0", "--ignore-eos"};
  std::vector<std::string> machine = common;
  machine.insert(machine.end(), {"--json", "-"});
  const Json json = Json::parse(expect_success(machine).out);
  const Outcome people = expect_success(common);
  BOOST_TEST(people.out == json.at("text").get<std::string>() + "\n");
  // Who runs, on what; then how fast, and the seed.
  BOOST_TEST(contains(people.err, "tiny_f32.gguf: profile "));
  BOOST_TEST(contains(last_line(people.err), "prefill "));
  BOOST_TEST(contains(last_line(people.err), "tok/s"));
  BOOST_TEST(contains(last_line(people.err), ", seed "));
  std::vector<std::string> quiet = common;
  quiet.push_back("--quiet");
  const Outcome silent = expect_success(quiet);
  BOOST_TEST(silent.err == "");
  BOOST_TEST(silent.out == people.out);
}

BOOST_AUTO_TEST_CASE(a_seed_repeats_and_is_printed) {
  const std::vector<std::string> common{kModel, "-p", "if the", "-n", "30", "--temp", "1.2", "--ignore-eos"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), common.begin(), common.end());
    return run_json(more);
  };
  const Json one = with({"--seed", "7"}), again = with({"--seed", "7", "--threads", "3"}), other = with({"--seed", "8"});
  BOOST_TEST(one.at("seed") == 7);
  BOOST_TEST(one.at("ids") == again.at("ids"));
  BOOST_TEST(one.at("ids") != other.at("ids"));
  const Json drawn = with({}), drawn_again = with({});
  BOOST_TEST(drawn.at("seed") != drawn_again.at("seed"));
  BOOST_TEST(with({"--seed", std::to_string(drawn.at("seed").get<std::uint64_t>())}).at("ids") == drawn.at("ids"));
  BOOST_TEST(with({"--seed", "18446744073709551615"}).at("seed").get<std::uint64_t>() == 18446744073709551615U);
  BOOST_TEST(with({"--top-k", "1"}).at("ids") == run_json({kModel, "-p", "if the", "-n", "30", "--temp", "0", "--ignore-eos"}).at("ids"));
}

BOOST_AUTO_TEST_CASE(stop_texts) {
  const Json whole = run_json({kModel, "-p", "if the", "-n", "40", "--temp", "0", "--ignore-eos"});
  const std::string text = whole.at("text");
  const auto is_letter = [](char c) { return static_cast<unsigned char>(c) >= 0x20 && static_cast<unsigned char>(c) < 0x80; };  // not within a character of several bytes
  std::size_t at = text.size() / 3;
  while (!(is_letter(text.at(at)) && is_letter(text.at(at + 1)))) ++at;
  const std::string stop = text.substr(at, 2);
  const Json json = run_json({kModel, "-p", "if the", "-n", "40", "--temp", "0", "--ignore-eos", "--stop", "never in it", "--stop", stop});
  BOOST_TEST(json.at("stop") == "stop");
  BOOST_TEST(json.at("text") == text.substr(0, text.find(stop)));
  BOOST_TEST(json.at("ids").size() < 40U);
  BOOST_TEST(run_json({kModel, "-p", "if the", "-n", "40", "--temp", "0", "--ignore-eos", "--stop", "never in it"}).at("text") == text);
}

BOOST_AUTO_TEST_CASE(prompts_from_everywhere_are_the_same) {
  const TemporaryFolder folder;
  const std::string text = "if the\n token \xF0\x9F\xA6\x89 \xFF is";
  const Json given = run_json({kModel, "-p", text, "-n", "3", "--temp", "0"});
  const Json from_file = run_json({kModel, "-f", folder.write("prompt.txt", text), "-n", "3", "--temp", "0"});
  const Json from_input = Json::parse(expect_success({"run", kModel, "-f", "-", "-n", "3", "--temp", "0", "--json", "-"}, text).out);
  const Json as_ids = run_json({kModel, "--tokens", join(given.at("prompt_ids")), "-n", "3", "--temp", "0"});
  for (const Json& other : {from_file, from_input, as_ids}) BOOST_TEST(decisions(other) == decisions(given));
  // A prompt longer than a pipe holds.
  std::string long_text;
  for (int i = 0; i < 40'000; ++i) long_text += "the ";
  const Outcome outcome = colidrv({"run", kModel, "-f", "-", "-n", "3"}, long_text);
  BOOST_TEST(outcome.code == 2);
  BOOST_TEST(contains(outcome.err, "context of 512"));
}

BOOST_AUTO_TEST_CASE(no_tokens_at_all) {
  const Json json = run_json({kModel, "-p", "if the", "-n", "0"});
  BOOST_TEST(json.at("ids").empty());
  BOOST_TEST(json.at("text") == "");
  BOOST_TEST(json.at("stop") == "length");
  BOOST_TEST(json.at("logits_hash") == coli::Sha256().hex());
}

BOOST_AUTO_TEST_CASE(the_embedded_model) {
  const bool embedded = std::filesystem::exists(fixture("bard.gguf"));
  const Outcome outcome = colidrv({"run", "-n", "8", "--temp", "0"});
  if (!embedded) {
    BOOST_TEST(outcome.code == 2);
    BOOST_TEST(contains(outcome.err, "no embedded model"));
    std::puts("SKIP: fixtures/bard.gguf is not there: no embedded model to run");
    return;
  }
  BOOST_TEST(outcome.code == 0, outcome.err);
  BOOST_TEST(outcome.out.starts_with("KING RICHARD III:\n"));  // the prompt is a part of the verse
  BOOST_TEST(outcome.out.size() > 25U);
  const Json embedded_json = run_json({"-p", "ROMEO:", "-n", "8", "--temp", "0"});
  const Json file_json = run_json({fixture("bard.gguf"), "-p", "ROMEO:", "-n", "8", "--temp", "0"});
  BOOST_TEST(decisions(embedded_json) == decisions(file_json));
  BOOST_TEST(expect_success({"tokenize", "-p", "ROMEO:"}).out == expect_success({"tokenize", fixture("bard.gguf"), "-p", "ROMEO:"}).out);
  BOOST_TEST(contains(expect_success({"inspect"}).out, "qwen3moe"));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(json_files)

BOOST_AUTO_TEST_CASE(whole_or_not_at_all) {
  const TemporaryFolder folder;
  const std::string out = folder.write("out.json", "old");
  expect_error({"run", kModel, "--tokens", "99999", "--json", out}, 2, {});
  expect_error({"run", kModel, "-p", "hi", "--temp", "-1", "--json", out}, 2, {});
  BOOST_TEST(TemporaryFolder::read(out) == "old");  // a failure leaves what was there
  expect_success({"run", kModel, "-p", "hi", "-n", "2", "--json", out});
  BOOST_TEST(Json::parse(TemporaryFolder::read(out)).at("ids").size() == 2U);
  for (const auto& command : {std::vector<std::string>{"tokenize", kModel, "-p", "hi"}, {"inspect", kModel}, {"profiles"}}) {
    std::vector<std::string> arguments = command;
    arguments.insert(arguments.end(), {"--json", out});
    BOOST_TEST(!expect_success(arguments).out.empty());  // people get their text as well
    std::vector<std::string> to_stdout = command;
    to_stdout.insert(to_stdout.end(), {"--json", "-"});
    BOOST_TEST(TemporaryFolder::read(out) == expect_success(to_stdout).out);
  }
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) files += entry.exists();
  BOOST_TEST(files == 1U);  // no temporary file is left
}

BOOST_AUTO_TEST_CASE(links_and_devices_stay_what_they_are) {
  const TemporaryFolder folder;
  const std::string target = folder.write("target.json", "old"), link = folder / "link.json";
  std::filesystem::create_symlink("target.json", link);
  expect_success({"tokenize", kModel, "-p", "hi", "--json", link});
  BOOST_TEST(std::filesystem::is_symlink(link));
  BOOST_TEST(!Json::parse(TemporaryFolder::read(target)).at("ids").empty());

  const std::string fifo = folder / "fifo";
  BOOST_TEST_REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  std::string received;
  std::thread reader([&] { received = TemporaryFolder::read(fifo); });
  expect_success({"tokenize", kModel, "-p", "hi", "--json", fifo});
  reader.join();
  BOOST_TEST(std::filesystem::is_fifo(fifo));
  BOOST_TEST(!Json::parse(received).at("ids").empty());
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(interrupt)

const std::vector<std::string> kLong{"run", kModel, "-p", "if the", "-n", "500", "--temp", "0", "--ignore-eos"};

/// Runs until a few characters are out and no more fit, then sends the signal `times` times.
Outcome interrupted(const std::vector<std::string>& arguments, int times) {
  Child child(arguments, 16);
  const int filled = 4096 - 16;
  for (int tries = 0; child.out().waiting() <= filled && tries < 6000; ++tries) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  BOOST_TEST_REQUIRE(child.out().waiting() > filled, "nothing was generated");
  for (int i = 0; i < times; ++i) {
    child.signal(SIGINT);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }
  Outcome outcome = child.finish();
  BOOST_TEST_REQUIRE(outcome.out.size() >= static_cast<std::size_t>(filled));
  outcome.out.erase(0, static_cast<std::size_t>(filled));
  return outcome;
}

BOOST_AUTO_TEST_CASE(what_was_generated_so_far_is_kept) {
  const TemporaryFolder folder;
  std::vector<std::string> arguments = kLong;
  arguments.insert(arguments.end(), {"--json", folder / "out.json"});
  const Outcome outcome = interrupted(arguments, 1);
  BOOST_TEST(outcome.code == 130);
  BOOST_TEST(!outcome.by_signal);  // it ended by itself, having put things in order
  const Json json = Json::parse(TemporaryFolder::read(folder / "out.json"));
  const std::size_t n = json.at("ids").size();
  BOOST_TEST((n > 0U && n < 500U), n);
  BOOST_TEST(json.at("stop") == "interrupted");
  BOOST_TEST(outcome.out == json.at("text").get<std::string>() + "\n");
  BOOST_TEST(last_line(outcome.err) == "colidrv: interrupted after " + std::to_string(n) + " tokens");
  BOOST_TEST(contains(outcome.err, "stop: interrupted"));
  const Json whole = run_json({kLong.begin() + 1, kLong.end()});
  BOOST_TEST((Json(std::vector<Json>(whole.at("ids").begin(), whole.at("ids").begin() + static_cast<std::ptrdiff_t>(n))) == json.at("ids")));
}

BOOST_AUTO_TEST_CASE(a_second_one_does_not_wait) {
  const Outcome outcome = interrupted(kLong, 2);
  BOOST_TEST(outcome.code == 130);
  BOOST_TEST(outcome.by_signal);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace colidrv::test
