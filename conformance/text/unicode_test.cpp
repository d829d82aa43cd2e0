// SPDX-License-Identifier: Apache-2.0
// Are letters, numbers, white space and normal forms those of the reference, for every code point?
#include <algorithm>
#include <set>

#include "coli/text/nfc.hpp"
#include "coli/text/pattern.hpp"
#include "coli/text/unicode_classes.hpp"
#include "text_support.hpp"

using namespace text_test;

namespace {

std::ifstream open_fixture(const std::string& name) {
  std::ifstream file(std::string(COLI_FIXTURES_DIR) + "/text/" + name);
  BOOST_REQUIRE_MESSAGE(file, "missing fixture " + name);
  return file;
}

std::string text_of(const std::string& hex_points) {
  std::string text;
  std::istringstream points(hex_points);
  for (std::string point; points >> point;) coli::utf8::append(text, static_cast<char32_t>(std::stoul(point, nullptr, 16)));
  return text;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(unicode)

BOOST_AUTO_TEST_CASE(classes_equal_the_reference) {
  std::ifstream file = open_fixture("unicode.ranges");
  std::size_t n_classes = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string name;
    words >> name;
    std::vector<bool> expected(0x110000);
    for (std::string range; words >> range;) {
      const std::size_t dash = range.find('-');
      const auto first = std::stoul(range, nullptr, 16), last = dash == std::string::npos ? first : std::stoul(range.substr(dash + 1), nullptr, 16);
      for (auto c = first; c <= last; ++c) expected[c] = true;
    }
    const auto pattern = coli::Pattern::compile(coli::unicode_classes::expand("[<" + name + ">]"));
    BOOST_REQUIRE(pattern);
    coli::PatternScratch scratch;
    for (char32_t c = 0; c < 0x110000; ++c) {
      if (c >= 0xD800 && c <= 0xDFFF) continue;
      std::string text;
      coli::utf8::append(text, c);
      const auto match = pattern->find(text, 0, scratch);
      BOOST_REQUIRE(match);
      if (match->has_value() != expected[c]) BOOST_ERROR("U+" << std::hex << static_cast<std::uint32_t>(c) << " in " << name);
    }
    ++n_classes;
  }
  BOOST_TEST(n_classes == 4u);
}

BOOST_AUTO_TEST_CASE(normal_forms_equal_the_reference) {
  std::ifstream file = open_fixture("nfc.golden");
  coli::NfcNormalizer nfc;
  std::set<std::string> changed;
  std::size_t n_cases = 0;
  for (std::string line; std::getline(file, line); ++n_cases) {
    if (line.empty() || line[0] == '#') continue;
    const std::size_t tab = line.find('\t');
    const std::string in = text_of(line.substr(0, tab)), out = text_of(line.substr(tab + 1));
    const auto normal = nfc.normalize(in);
    BOOST_REQUIRE(normal);
    BOOST_TEST(std::string(*normal) == out, line);
    if (coli::utf8::step(in).n_bytes == in.size()) changed.insert(in);
  }
  BOOST_TEST(n_cases > 2000u);
  for (char32_t c = 0; c < 0x110000; ++c) {  // the fixture holds every character that changes alone
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string text;
    coli::utf8::append(text, c);
    const auto normal = nfc.normalize(text);
    BOOST_REQUIRE(normal);
    if ((*normal != text) != changed.contains(text)) BOOST_ERROR("U+" << std::hex << static_cast<std::uint32_t>(c));
  }
}

BOOST_AUTO_TEST_CASE(normalisation_is_idempotent_and_stretches_do_not_interfere) {
  coli::NfcNormalizer nfc;
  const std::vector<std::string> atoms{"a", "e\u0301", "\u00e9", " ", "\u1100\u1161", "\u11a8", "\u0323", "\u0301", "\u212b", "\u4e00", "\U0001f600", "\n"};
  Random random(1);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (int i = 0; i < 12; ++i) text += random.of(atoms);
    const std::string once(*nfc.normalize(text));
    BOOST_TEST(std::string(*nfc.normalize(once)) == once);
    BOOST_TEST(std::string(*nfc.normalize("x" + text + "\n" + text)) == std::string(*nfc.normalize("x" + text)) + "\n" + std::string(*nfc.normalize(text)));
  }
}

BOOST_AUTO_TEST_CASE(a_million_marks_take_no_longer_than_they_must) {
  // utf8proc's own sorting would take 10^12 steps here; the test's time limit is the assertion.
  std::string text = "a", sorted = "\u1ea1";  // a with dot below
  for (int i = 0; i < 500000; ++i) text += i % 2 ? "\u0323" : "\u0301";
  for (int i = 0; i < 499999; ++i) sorted += i < 249999 ? "\u0323" : "\u0301";
  coli::NfcNormalizer nfc;
  BOOST_TEST((*nfc.normalize(text) == sorted));
}

BOOST_AUTO_TEST_CASE(utf8_is_strict) {
  using coli::utf8::Kind;
  const auto kind = [](std::string_view bytes) { return coli::utf8::step(bytes).kind; };
  for (const std::string_view bad : {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xED\xBF\xBF", "\xF0\x80\x80\x80", "\xF0\x8F\xBF\xBF",
                                     "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xF8\x88\x80\x80\x80", "\xFE", "\xFF", "\xC3\x28", "\xE2\x28\xA1", "\xE2\x82\x28", "\xF0\x9F\x98\x28"})
    BOOST_TEST((kind(bad) == Kind::invalid));
  for (const std::string_view open : {"\xC3", "\xE2", "\xE2\x82", "\xF0", "\xF0\x9F", "\xF0\x9F\x98", "\xE0\xA0", "\xED\x9F", "\xF4\x8F\xBF"}) BOOST_TEST((kind(open) == Kind::incomplete));
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string text;
    coli::utf8::append(text, c);
    const auto step = coli::utf8::step(text + "x");
    if (step.kind != Kind::character || step.code_point != c || step.n_bytes != text.size()) BOOST_ERROR("U+" << std::hex << static_cast<std::uint32_t>(c));
  }
}

BOOST_AUTO_TEST_SUITE_END()
