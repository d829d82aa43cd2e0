// SPDX-License-Identifier: Apache-2.0
// Every exit code, provoked: what was asked, what was found, the nearest thing that works, in one line.
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "conformance/gguf/temporary_folder.hpp"
#include "driver/nearest.hpp"
#include "process.hpp"

namespace colidrv::test {
namespace {

using coli::gguf::test::TemporaryFolder;
const std::string kModel = fixture("tiny_min.gguf");

BOOST_AUTO_TEST_SUITE(exit_codes)

BOOST_AUTO_TEST_CASE(ok) {
  BOOST_TEST(expect_success({"--version"}).out.starts_with("colidrv "));
  const std::string help = expect_success({"--help"}).out;
  for (const char* command : {"run", "inspect", "tokenize", "eval", "profiles"}) {
    BOOST_TEST(contains(help, command));
    BOOST_TEST(contains(expect_success({command, "--help"}).out, "--json"));
  }
  expect_success({"run", kModel, "-p", "hi", "-n", "1"});
}

BOOST_AUTO_TEST_CASE(usage_commands) {
  expect_error({}, 2, {"no command", "run", "inspect", "tokenize", "eval"});
  expect_error({"frobnicate"}, 2, {"there is no command frobnicate", "run", "inspect"});
  expect_error({"inspct", kModel}, 2, {"inspct", "did you mean inspect?"});
  expect_error({""}, 2, {"no command"});
  expect_error({"--frob"}, 2, {"--frob"});
  expect_error({"-p", "hi"}, 2, {"-p"});
}

BOOST_AUTO_TEST_CASE(usage_options) {
  expect_error({"run", kModel, "--frob"}, 2, {"there is no option --frob", "colidrv run --help"});
  expect_error({"run", kModel, "-p", "hi", "--temperature", "0"}, 2, {"--temperature", "did you mean --temp?"});
  expect_error({"run", kModel, "-p", "hi", "--topk", "1"}, 2, {"--topk", "did you mean --top-k?"});
  expect_error({"run", kModel, kModel, "-p", "hi"}, 2, {"one thing too many", "tiny_min.gguf"});
  expect_error({"run", kModel, "-p", "hi", "-p", "ho"}, 2, {"--prompt"});
  for (const char* needs_value : {"-p", "-f", "--tokens", "-n", "--temp", "--seed", "--ctx", "--threads", "--profile", "--stop", "--json"})
    expect_error({"run", kModel, needs_value}, 2, {});
  expect_error({"run", kModel, "-p", "hi", "--json", ""}, 2, {"--json", "file"});
  expect_error({"run", kModel, "-p", "hi", "--cpu-experts", "many"}, 2, {"--cpu-experts", "auto"});
  for (const char* n : {"1", "auto"}) expect_error({"run", kModel, "-p", "hi", "--profile", "scalar", "--cpu-experts", n}, 2, {"--cpu-experts", "runs on the CPU"});
  expect_error({"tokenize", kModel, "-p", "hi", "--temp", "1"}, 2, {"--temp"});
  expect_error({"eval", kModel}, 2, {"--golden"});
  expect_error({"eval", "--golden", "x.json"}, 2, {"MODEL"});
}

BOOST_AUTO_TEST_CASE(usage_numbers) {
  const auto run = [](const char* option, const char* value, std::vector<std::string> says) {
    says.push_back(option);
    expect_error({"run", kModel, "-p", "hi", option, value}, 2, says);
  };
  run("--temp", "-1", {"-1 is out of range; expected 0 (greedy) to 1000000"});
  run("--temp", "nan", {"out of range"});
  run("--temp", "inf", {"out of range"});
  run("--temp", "warm", {"warm"});
  run("--temp", "", {});
  run("--top-p", "0", {"expected more than 0, at most 1"});
  run("--top-p", "1.01", {"1.01"});
  run("--min-p", "-0.5", {"-0.5", "expected 0 to 1"});
  run("--repeat-penalty", "0", {"expected more than 0"});
  run("--top-k", "-3", {"-3"});
  run("--top-k", "4294967296", {"4294967296"});
  run("--seed", "-1", {"-1"});
  run("--seed", "18446744073709551616", {"18446744073709551616"});
  run("--threads", "0", {"0", "1024"});
  run("--threads", "1000000", {"1000000", "1024"});
  run("--ctx", "0", {"0"});
  run("--ctx", "513", {"513", "512"});  // beyond what the model was trained for
  run("--ctx", "99999999999", {"99999999999"});
  run("--chunk", "0", {"0"});
  run("--kv", "f8", {"f8", "f32", "f16"});
  for (const char* n : {"-1", "1.5", "x", "", "4294967296"}) expect_error({"run", kModel, "-p", "hi", "-n", n}, 2, {"-n"});
  for (const char* memory : {"12x", "-1", "1.5", "KB", ""}) run("--memory", memory, {"size", "K, M or G"});
}

BOOST_AUTO_TEST_CASE(usage_prompts) {
  expect_error({"run", kModel}, 2, {"no prompt", "-p", "-f", "--tokens"});
  expect_error({"run", kModel, "-p", "hi", "-f", "x.txt"}, 2, {"--prompt", "--file"});
  expect_error({"run", kModel, "-p", "hi", "--tokens", "1"}, 2, {"--tokens", "--prompt"});
  expect_error({"run", kModel, "-f", "x.txt", "--tokens", "1"}, 2, {"--tokens", "--file"});
  expect_error({"run", kModel, "-p", ""}, 2, {"the prompt has no tokens"});
  expect_error({"run", kModel, "--tokens", ""}, 2, {"the prompt has no tokens"});
  expect_error({"run", kModel, "-f", "-"}, 2, {"the prompt has no tokens"});
  for (const char* ids : {"a", "1,,2", "1,", ",1", ",", "1;2", "1.5", "-1", "+1", "2147483648", "99999999999999999999", "0x1", "1,2,three"})
    expect_error({"run", kModel, "--tokens", ids}, 2, {"--tokens", "is not a token id; expected numbers like 1,2,3"});
  expect_error({"run", kModel, "--tokens", "1,272"}, 2, {"272", "outside the vocabulary (0 to 271)"});
  expect_error({"run", kModel, "--tokens", "2147483647"}, 2, {"2147483647", "271"});
  expect_error({"run", kModel, "-p", "hi", "--stop", ""}, 2, {"--stop"});
  expect_error({"run", kModel, "-p", "hi", "--system", "be brief"}, 2, {"--chat"});
  expect_error({"run", kModel, "-p", "hi", "--no-think"}, 2, {"--chat"});
  expect_error({"run", kModel, "--tokens", "1", "--chat"}, 2, {"--chat", "-p"});
  expect_error({"run", kModel, "-p", "hi", "--chat"}, 2, {"chat template"});  // this model has none
}

// A mistake in the prompt is found before a model is opened, which may take minutes.
BOOST_AUTO_TEST_CASE(what_can_be_known_early_is_said_early) {
  const std::string missing = "/nonexistent/model.gguf";
  expect_error({"run", missing, "--tokens", "1,x"}, 2, {"--tokens"});
  expect_error({"run", missing, "-p", "hi", "--temp", "-1"}, 2, {"--temp"});
  expect_error({"run", missing, "-p", "hi", "--profile", "nope"}, 3, {"nope"});
  expect_error({"run", missing, "-p", "hi", "--json", "/nonexistent/out.json"}, 8, {"out.json", "--json"});
  expect_error({"run", missing, "-f", "/nonexistent/prompt.txt"}, 8, {"prompt.txt"});
}

BOOST_AUTO_TEST_CASE(usage_context) {
  expect_error({"run", kModel, "--tokens", "1,2,3,4,5", "-n", "4", "--ctx", "8"}, 2,
               {"a prompt of 5 tokens and 4 to generate", "context of 8", "at most 3", "--ctx may be up to 512"});
  expect_error({"run", kModel, "--tokens", "1,2,3,4,5", "--ctx", "5"}, 2, {"context of 5", "the prompt alone fills it", "--ctx"});
  expect_error({"run", kModel, "--tokens", "1,2,3,4,5", "--ctx", "4"}, 2, {"context of 4", "the prompt alone fills it"});
  expect_error({"run", kModel, "-p", "hi", "-n", "4294967295"}, 2, {"4294967295", "context of 512", "at most 510"});
  const auto outcome = expect_success({"run", kModel, "--tokens", "1,2,3,4,5", "-n", "3", "--ctx", "8", "--json", "-", "--ignore-eos"});
  BOOST_TEST(nlohmann::json::parse(outcome.out).at("ids").size() == 3U);  // exactly what fits
  expect_success({"run", kModel, "--tokens", "1,2,3,4,5", "-n", "0", "--ctx", "5"});
  // Without -n, as many as there is room for.
  const auto all = expect_success({"run", kModel, "--tokens", "1,2,3,4,5", "--ctx", "9", "--json", "-", "--ignore-eos"});
  BOOST_TEST(nlohmann::json::parse(all.out).at("ids").size() == 4U);
}

BOOST_AUTO_TEST_CASE(usage_tokenize) {
  expect_error({"tokenize", kModel}, 2, {"-p", "-f", "--decode"});
  expect_error({"tokenize", kModel, "-p", "x", "--decode", "1"}, 2, {"--decode"});
  expect_error({"tokenize", kModel, "--decode", "1,x"}, 2, {"'x'"});
  expect_error({"tokenize", kModel, "--decode", "1,"}, 2, {"''"});
  expect_error({"tokenize", kModel, "--decode", "272"}, 2, {"272", "0 to 271"});
  expect_error({"tokenize", kModel, "--decode", "1", "--bos"}, 2, {"--bos", "--decode"});
  expect_error({"tokenize", kModel, "--decode", "1", "--no-special"}, 2, {"--no-special", "--decode"});
  expect_error({"tokenize", kModel, "-p", "x", "--bos"}, 2, {"no beginning-of-sequence"});
}

BOOST_AUTO_TEST_CASE(not_available) {
  const auto listed = nlohmann::json::parse(expect_success({"profiles", "--json", "-"}).out);
  std::vector<std::string> says{"'nope'"};
  for (const auto& profile : listed.at("profiles")) says.push_back(profile.at("name"));
  expect_error({"run", kModel, "-p", "hi", "--profile", "nope"}, 3, says);
  expect_error({"run", kModel, "-p", "hi", "--profile", ""}, 3, {"''"});
  expect_error({"run", kModel, "-p", "hi", "--profile", "Scalar"}, 3, {"'Scalar'", "scalar"});
  expect_error({"eval", kModel, "--golden", fixture("goldens/tiny_min.json"), "--profile", "nope"}, 3, says);
  expect_error({"run", kModel, "-p", "hi", "--profile", "scalar", "--kv", "f16"}, 3, {"scalar", "f16", "--kv"});
}

BOOST_AUTO_TEST_CASE(over_budget) {
  expect_error({"run", kModel, "-p", "hi", "--memory", "1M"}, 4, {"tiny_min.gguf", "--memory", "1.00 MiB", "bytes short", "trunk", "kv"});
  expect_error({"run", kModel, "-p", "hi", "--memory", "0"}, 4, {"bytes short"});
}

BOOST_AUTO_TEST_CASE(bad_input) {
  expect_error({"run", fixture("bad.json"), "-p", "hi"}, 5, {"bad.json", "GGUF"});
  expect_error({"inspect", fixture("bad.json")}, 5, {"bad.json", "GGUF"});
  expect_error({"tokenize", fixture("bad.json"), "-p", "hi"}, 5, {"bad.json", "GGUF"});
  expect_error({"run", "/dev/null", "-p", "hi"}, 8, {"/dev/null"});
  const TemporaryFolder folder;
  expect_error({"inspect", folder.write("empty.gguf", "")}, 5, {"empty.gguf"});
  expect_error({"inspect", folder.write("short.gguf", "GGUF\x03")}, 5, {"short.gguf"});
}

BOOST_AUTO_TEST_CASE(io) {
  expect_error({"run", "/nonexistent/a.gguf", "-p", "hi"}, 8, {"/nonexistent/a.gguf", "No such file"});
  expect_error({"inspect", "/nonexistent/a.gguf"}, 8, {"No such file"});
  expect_error({"run", std::string(COLI_FIXTURES_DIR), "-p", "hi"}, 8, {"directory"});
  expect_error({"run", kModel, "-f", "/nonexistent/prompt"}, 8, {"/nonexistent/prompt", "No such file"});
  expect_error({"run", kModel, "-f", std::string(COLI_FIXTURES_DIR)}, 8, {"directory"});
  expect_error({"eval", kModel, "--golden", "/nonexistent/golden.json"}, 8, {"/nonexistent/golden.json"});
  for (const char* command : {"inspect", "profiles"}) {
    std::vector<std::string> arguments{command};
    if (std::string(command) == "inspect") arguments.push_back(kModel);
    arguments.insert(arguments.end(), {"--json", "/nonexistent/out.json"});
    expect_error(arguments, 8, {"/nonexistent/out.json"});
  }
  expect_error({"run", kModel, "-p", "hi", "--json", std::string(COLI_FIXTURES_DIR)}, 8, {"directory"});
  expect_error({"run", kModel, "-p", "hi", "--json", kModel + "/out.json"}, 8, {"out.json"});
}

// What nobody can take is not success.
BOOST_AUTO_TEST_CASE(io_standard_output) {
  if (!std::filesystem::exists("/dev/full")) {
    std::puts("SKIP: no /dev/full here");
    return;
  }
  for (const std::string& command : {"run '" + kModel + "' -p hi -n 40 --temp 0", "tokenize '" + kModel + "' -p hi", "inspect '" + kModel + "'", std::string("profiles"),
                                    "run '" + kModel + "' -p hi -n 2 --json -"}) {
    const int status = std::system((std::string("'") + COLIDRV + "' " + command + " >/dev/full 2>/dev/null").c_str());
    BOOST_TEST(WEXITSTATUS(status) == 8, command);
  }
}

// Line breaks and escape sequences in arguments stay out of the terminal.
BOOST_AUTO_TEST_CASE(one_line_whatever_was_typed) {
  expect_error({"run", "no\nsuch\x1b[31mfile", "-p", "hi"}, 8, {"no\\nsuch\\x1b[31mfile"});
  expect_error({"run", kModel, "-p", "hi", "--profile", "a\nb\tc"}, 3, {"a\\nb\\x09c"});
  expect_error({"run", kModel, "--tokens", "1,\n2"}, 2, {"\\n2"});
  expect_error({"fro\nb"}, 2, {"fro\\nb"});
  expect_error({"run", kModel, "--x\n\ny"}, 2, {"\\n"});
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_CASE(nearest_words) {
  const std::vector<std::string> known{"--temp", "--top-k", "--top-p", "--seed", "--json"};
  const auto of = [&](const char* word) { return nearest(word, known).value_or("-"); };
  BOOST_TEST(edit_distance("", "abc") == 3U);
  BOOST_TEST(edit_distance("kitten", "sitting") == 3U);
  BOOST_TEST(edit_distance("same", "same") == 0U);
  BOOST_TEST(of("--tmp") == "--temp");
  BOOST_TEST(of("--temperature") == "--temp");
  BOOST_TEST(of("--topk") == "--top-k");
  BOOST_TEST(of("--sed") == "--seed");
  BOOST_TEST(of("--quantum") == "-");
  BOOST_TEST(of("") == "-");
  BOOST_TEST(of("--") == "-");
}

}  // namespace
}  // namespace colidrv::test
