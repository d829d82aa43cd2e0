// SPDX-License-Identifier: Apache-2.0
// Do dialogues become the prompts that Hugging Face makes of them, and is every other template refused?
#include "coli/text/chat.hpp"

#include <algorithm>
#include <filesystem>

#include "text_support.hpp"

using namespace text_test;

namespace {

const nlohmann::json& goldens() {
  static const nlohmann::json read = [] {
    std::ifstream file(std::string(COLI_FIXTURES_DIR) + "/text/chat.json");
    BOOST_REQUIRE(file);
    return nlohmann::json::parse(file);
  }();
  return read;
}

/// The names and tokens that the goldens were made with.
MetadataMaker chat_metadata(const std::string& source) {
  MetadataMaker maker;
  maker.text("tokenizer.chat_template", source).strings("tokenizer.ggml.tokens", {"<|endoftext|>", "<|im_end|>"});
  return maker.u32("tokenizer.ggml.bos_token_id", 0).u32("tokenizer.ggml.eos_token_id", 1).u32("tokenizer.ggml.padding_token_id", 0);
}

/// A template by its name in the goldens; nothing where it belongs to a file that is not here.
std::optional<std::string> source_of(const std::string& name) {
  if (name == "@qwen3") {
    if (std::string_view(COLI_QWEN3_TOKENIZER).empty()) return std::nullopt;
    std::ifstream file(std::filesystem::path(COLI_QWEN3_TOKENIZER).parent_path() / "tokenizer_config.json");
    if (!file) return std::nullopt;
    return nlohmann::json::parse(file)["chat_template"].get<std::string>();
  }
  if (name[0] == '@') {
    if (std::string_view(COLI_VOCAB_DIR).empty()) return std::nullopt;
    auto file = coli::gguf::ModelFile::open(std::string(COLI_VOCAB_DIR) + "/ggml-vocab-" + name.substr(1) + ".gguf");
    BOOST_REQUIRE(file);
    auto source = file->metadata().get<std::string>("tokenizer.chat_template");
    BOOST_REQUIRE(source);
    return *source;
  }
  return goldens()["templates"][name].get<std::string>();
}

std::vector<coli::ChatMessage> messages_of(const nlohmann::json& json) {
  std::vector<coli::ChatMessage> messages;
  for (const auto& message : json) messages.push_back({message[0], message[1]});
  return messages;
}

/// Runs any template, ChatML or not.
coli::Result<std::string> run(const std::string& source, const std::vector<coli::ChatMessage>& messages) {
  using namespace coli::jinja;
  auto body = Parser::parse(source);
  if (!body) return std::move(body).error();
  List list;
  for (const auto& message : messages) list.emplace_back(Dict{{"role", Value(message.role)}, {"content", Value(message.content)}});
  Dict globals{{"bos_token", Value(std::string("<|endoftext|>"))}, {"eos_token", Value(std::string("<|im_end|>"))},
               {"messages", Value(std::move(list))},               {"tools", Value(None{})},
               {"add_generation_prompt", Value(true)}};
  return Evaluator(std::move(globals), 1'000'000).render(*body);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(chat)

BOOST_AUTO_TEST_CASE(prompts_equal_the_reference) {
  std::size_t compared = 0;
  for (const auto& golden : goldens()["cases"]) {
    const std::string name = golden["template"];
    const auto source = source_of(name);
    if (!source) continue;
    const auto recognised = coli::ChatTemplate::recognise(chat_metadata(*source).make());
    BOOST_REQUIRE_MESSAGE(recognised, name << ": " << (recognised ? "" : recognised.error().line()));
    coli::ChatOptions options{.add_generation_prompt = golden["generation_prompt"]};
    if (!golden["enable_thinking"].is_null()) options.enable_thinking = golden["enable_thinking"].get<bool>();
    const auto prompt = recognised->render(messages_of(golden["messages"]), options);
    BOOST_REQUIRE_MESSAGE(prompt, name << ": " << (prompt ? "" : prompt.error().line()));
    BOOST_TEST(*prompt == golden["text"].get<std::string>(), name << " " << golden["messages"] << "\n ours      " << *prompt << "\n reference " << golden["text"]);
    BOOST_TEST(recognised->knows_thinking() == (name == "@qwen3"));
    ++compared;
  }
  if (compared != goldens()["cases"].size())
    skip(std::to_string(goldens()["cases"].size() - compared) + " chat prompts whose templates are not here (COLI_QWEN3_TOKENIZER, COLI_VOCAB_DIR)");
  BOOST_TEST(compared >= 300u);
}

BOOST_AUTO_TEST_CASE(other_templates_are_refused) {
  auto refused = goldens()["refused"].get<std::map<std::string, std::string>>();
  if (const auto phi = source_of("@phi-3")) refused["@phi-3"] = *phi;
  for (const auto& [name, source] : refused) {
    const auto recognised = coli::ChatTemplate::recognise(chat_metadata(source).make());
    BOOST_TEST(!recognised, name << " is taken");
    if (recognised) continue;
    BOOST_TEST((recognised.error().code == coli::Errc::bad_input));
    const std::string line = recognised.error().line();
    BOOST_TEST(line.find("tokenizer.chat_template: the chat template is not recognised (") != std::string::npos, line);
    BOOST_TEST(line.find("raw text") != std::string::npos, line);
    BOOST_TEST(line.find('\n') == std::string::npos, line);
  }
}

BOOST_AUTO_TEST_CASE(a_file_without_a_template_says_so) {
  const auto recognised = coli::ChatTemplate::recognise(MetadataMaker().make());
  BOOST_REQUIRE(!recognised);
  BOOST_TEST((recognised.error().code == coli::Errc::usage));
  BOOST_TEST(recognised.error().line() == "made.gguf: tokenizer.chat_template: this model has no chat template; give the prompt as raw text instead");
  BOOST_TEST(!coli::ChatTemplate::recognise(MetadataMaker().u32("tokenizer.chat_template", 1).make()));
}

BOOST_AUTO_TEST_CASE(the_template_may_refuse_messages) {
  const auto recognised = coli::ChatTemplate::recognise(chat_metadata(goldens()["templates"]["strict"]).make());
  BOOST_REQUIRE(recognised);
  const auto refused = recognised->render(std::vector<coli::ChatMessage>{{"pirate", "Arr"}});
  BOOST_REQUIRE(!refused);
  BOOST_TEST((refused.error().code == coli::Errc::usage));
  BOOST_TEST(refused.error().message == "the model's chat template refuses these messages: Unknown role: pirate");
  const auto none = recognised->render({});
  BOOST_REQUIRE(!none);
  BOOST_TEST((none.error().code == coli::Errc::usage));
}

BOOST_AUTO_TEST_CASE(snippets_print_what_jinja_prints) {
  const auto messages = messages_of(goldens()["snippet_messages"]);
  for (const auto& snippet : goldens()["snippets"]) {
    const std::string source = snippet["source"];
    const auto printed = run(source, messages);
    if (snippet["text"].is_null()) {
      BOOST_TEST(!printed, source << " prints " << (printed ? *printed : ""));
    } else {
      BOOST_REQUIRE_MESSAGE(printed, source << ": " << (printed ? "" : printed.error().line()));
      BOOST_TEST(*printed == snippet["text"].get<std::string>(), source);
    }
  }
}

/// What a value's kind cannot do is refused, and the refusal says what was asked and of which kind.
BOOST_AUTO_TEST_CASE(refusals_name_the_kind) {
  const std::vector<std::pair<std::string, std::string>> refused{
      {"{{ -'a' }}", "minus str"},
      {"{{ [1][none] }}", "an item by none"},
      {"{{ [1][[]:] }}", "a slice by list"},
      {"{{ true[1:] }}", "a slice of bool"},
      {"{{ true.strip() }}", ".strip() of bool"},
      {"{{ [namespace(a=1)] }}", "a namespace in a list"},
      {"{{ namespace(a=namespace(b=1)) }}", "a namespace in a namespace"},
      {"{{ range('a') }}", "range() of str"},
      {"{{ messages[0].update() }}", ".update() of this form on a dict"},
      {"{{ true|length }}", "the length of bool"},
  };
  for (const auto& [source, why] : refused) {
    const auto printed = run(source, {{"user", "x"}});
    BOOST_REQUIRE_MESSAGE(!printed, source << " prints " << (printed ? *printed : ""));
    BOOST_TEST((printed.error().code == coli::Errc::bad_input));
    BOOST_TEST(printed.error().line().find(why) != std::string::npos, printed.error().line());
  }
  // As Jinja prints them: an item of what has none is undefined, a dict with members and any namespace are true.
  const auto printed = run("{{ true[0] }}{% if messages[0] %}d{% endif %}{% if namespace() %}n{% endif %}{{ 'a\\rb' }}", {{"user", "x"}});
  BOOST_REQUIRE(printed);
  BOOST_TEST(*printed == "dna\rb");
}

BOOST_AUTO_TEST_CASE(refusals_are_one_line_whatever_they_quote) {
  for (const std::string source : {"{{ missing['\n\x1b[31m\xff'] }}", "{{ \x01 }}", "{{ \xff }}", "{{ 'a\\\n' }}", "{% x%}", "{{ 'a'|filter_\n }}", "{{ raise_exception('a\nb') }}"}) {
    const auto printed = run(source, {{"user", "x"}});
    BOOST_REQUIRE(!printed);
    const std::string line = printed.error().line();
    BOOST_TEST(std::ranges::all_of(line, [](char c) { return c >= 0x20 && c <= 0x7E; }), line);
  }
  const auto long_name = run("{% " + std::string(100'000, 'x') + " %}", {});
  BOOST_REQUIRE(!long_name);
  BOOST_TEST(long_name.error().line().size() < 400u);
}

BOOST_AUTO_TEST_CASE(hostile_templates_end_soon) {
  const auto repeat = [](const std::string& text, std::size_t times) {
    std::string out;
    for (std::size_t i = 0; i < times; ++i) out += text;
    return out;
  };
  const std::vector<std::string> hostile{
      "{{ " + repeat("(", 50000) + "1" + repeat(")", 50000) + " }}",
      "{{ " + repeat("[", 50000) + repeat("]", 50000) + " }}",
      "{{ x" + repeat(".a", 50000) + " }}",
      "{{ 1" + repeat(" + 1", 50000) + " }}",
      "{{ " + repeat("not ", 50000) + "1 }}",
      "{{ " + repeat("-", 50000) + "1 }}",
      "{{ 'a'" + repeat("|trim", 50000) + " }}",
      "{{ 'a'" + repeat(" is string", 50000) + " }}",
      "{{ " + repeat("1 if 1 else ", 30000) + "1 }}",
      repeat("{% if 1 %}", 20000) + repeat("{% endif %}", 20000),
      repeat("{% for a in [1] %}", 20000) + repeat("{% endfor %}", 20000),
      "{% set ns = namespace(l=[]) %}{% for i in range(900000) %}{% set ns.l = [ns.l] %}{% endfor %}",
      "{% set ns = namespace(s='ab') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
      "{% set ns = namespace(s='ab') %}{% for i in range(60) %}{% set ns.s = ns.s|replace('a', ns.s) %}{% endfor %}",
      "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
      "{% set ns = namespace(l=[1]) %}{% for i in range(40) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l == ns.l }}",
      "{% set a = namespace(x=1) %}{% set a.a = a %}",
      "{% for i in range(999999999999999) %}{% endfor %}",
      "{{ 999999999999999 * 999999999999999 * 999999999999999 }}",
      "{{ (0 - 999999999999999 * 1000) // (0 - 1) }}{{ 'x'[999999999999999:-999999999999999:-999999999999999] }}{{ [1][::999999999999999] }}",
      repeat("{% set v", 1) + repeat("a", 200000) + " = 1 %}",
      std::string("{{ 'a\0b' }}", 11) + "\xff\xfe{{",
      "{{ '\xe6\xad'[0] }}{{ '\xff' | length }}{{ 'a\xff'.strip('\xff') }}",
  };
  for (const std::string& source : hostile) {
    const auto recognised = coli::ChatTemplate::recognise(chat_metadata(source).make());
    BOOST_TEST(!recognised);
    (void)run(source, {{"user", "x"}});
  }
}

/// Each of these is one cheap-looking step that moves or compares a lot, and it is done often: the work must be counted.
BOOST_AUTO_TEST_CASE(work_is_counted_wherever_it_hides) {
  const std::string text = "{% set ns = namespace(s='ab', p='a') %}{% for i in range(14) %}{% set ns.s = ns.s + ns.s %}{% endfor %}", list = "{% set l = range(20000) %}";
  const std::string texts = text + "{% set l = [ns.s, ns.s, ns.s, ns.s, ns.s, ns.s, ns.s, ns.s, ns.s] %}";
  const auto often = [](const std::string& step) { return "{% for i in range(2000) %}" + step + "{% endfor %}"; };
  std::string names, keywords;
  for (int i = 0; i < 8000; ++i) names += "{% set v" + std::to_string(i) + " = 1 %}", keywords += (i ? ", v" : "v") + std::to_string(i) + "=1";
  const std::vector<std::string> hostile{
      list + often("{% for x in l %}{% endfor %}"),
      list + often("{% set x = l|list %}"),
      list + often("{% set x = l[1:] %}"),
      list + often("{% set x = l + l %}"),
      list + often("{{ 'x' in l }}"),
      list + often("{{ l|join }}"),
      texts + often("{% set x = l|list %}"),
      texts + often("{% set x = l[1:] %}"),
      texts + often("{% for x in l %}{% endfor %}"),
      texts + often("{{ (ns.s + 'c') in l }}"),
      text + often("{% set x = ns.s|list %}"),
      text + often("{% set x = ns.s.split('a') %}"),
      text + often("{% set x = ns.s.split('ab' + ns.s) %}"),
      text + often("{% set x = ns.s.strip(ns.s) %}"),
      text + often("{% set x = ns.s[::-1] %}"),
      text + often("{{ 'c' ~ ns.s in ns.s }}"),
      names + often("{% set w = 1 %}{{ v0 }}") + names + names,
      "{% set ns = namespace(" + keywords + ") %}" + often("{{ ns.v7999 }}{{ ns.w }}{% set ns.v7999 = 2 %}"),
  };
  for (const std::string& source : hostile) {
    const auto printed = run(source, {{"user", "x"}});
    BOOST_TEST(!printed, source.substr(0, 200));
    if (!printed) BOOST_TEST(printed.error().line().find("takes too long to render") != std::string::npos, printed.error().line() << " " << source.substr(0, 200));
  }
}

BOOST_AUTO_TEST_SUITE_END()
