// SPDX-License-Identifier: Apache-2.0
// Does typed access give the exact value, in any width, or an error that names key, expectation and finding?
#include "coli/gguf/metadata.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>

#include "expect.hpp"
#include "raw_file.hpp"

namespace coli::gguf::test {
namespace {

ModelFile open(const RawFile& file) {
  // Metadata owns what it gives out: the bytes may go.
  const std::string bytes = file.bytes();
  auto model = ModelFile::parse(bytes_of(bytes), "x.gguf");
  BOOST_TEST_REQUIRE(model.has_value(), (model ? "" : model.error().line()));
  return std::move(*model);
}

template <class T>
void expect_wrong(const Result<T>& result, std::string_view key, std::string_view says) {
  expect_error(result, Errc::bad_input, key, says, "x.gguf");
}

BOOST_AUTO_TEST_SUITE(metadata)

BOOST_AUTO_TEST_CASE(scalars_of_every_type) {
  const ModelFile model = open(good_file());
  const Metadata& m = model.metadata();
  BOOST_TEST(*m.get<std::string_view>("general.architecture") == "toy");
  BOOST_TEST(*m.get<std::string>("general.architecture") == "toy");
  BOOST_TEST(*m.get<std::uint32_t>("a.u8") == 200u);
  BOOST_TEST(*m.get<std::int64_t>("a.i8") == -100);
  BOOST_TEST(*m.get<std::uint64_t>("a.u16") == 60000u);
  BOOST_TEST(*m.get<std::int64_t>("a.i16") == -30000);
  BOOST_TEST(*m.get<std::uint32_t>("a.u32") == 4000000000u);
  BOOST_TEST(*m.get<std::int32_t>("a.i32") == -2000000000);
  BOOST_TEST(*m.get<std::uint64_t>("a.u64") == 18000000000000000000u);
  BOOST_TEST(*m.get<std::int64_t>("a.i64") == -9000000000000000000);
  BOOST_TEST(*m.get<float>("a.f32") == 1.5f);
  BOOST_TEST(*m.get<double>("a.f32") == 1.5);
  BOOST_TEST(*m.get<float>("a.f64") == -2.25f);
  BOOST_TEST(*m.get<double>("a.f64") == -2.25);
  BOOST_TEST(*m.get<bool>("a.bool") == true);
  BOOST_TEST(m.size() == 16u);
  BOOST_TEST(m.contains("a.u8"));
  BOOST_TEST(!m.contains("a.u"));
  BOOST_TEST(!m.contains(""));
  BOOST_TEST((m.type_of("a.i16") == ValueType::i16));
  BOOST_TEST((m.type_of("b.strings") == ValueType::array));
  BOOST_TEST((m.type_of("general.architecture") == ValueType::string));
  BOOST_TEST((m.type_of("zzz") == std::nullopt));
}

BOOST_AUTO_TEST_CASE(absence) {
  const ModelFile model = open(good_file());
  const Metadata& m = model.metadata();
  expect_wrong(m.get<std::uint32_t>("toy.block_count"), "toy.block_count",
               "required metadata key is missing (expected u32)");
  expect_wrong(m.get<std::string_view>("k"), "k", "missing (expected string)");
  expect_wrong(m.get<bool>("k"), "k", "missing (expected bool)");
  expect_wrong(m.get<float>("k"), "k", "missing (expected f32)");
  expect_wrong(m.strings("k"), "k", "missing (expected an array of strings)");
  expect_wrong(m.integers("k"), "k", "missing (expected an array of integers)");
  expect_wrong(m.floats("k"), "k", "missing (expected an array of floats)");
  BOOST_TEST(!m.find<std::uint32_t>("k")->has_value());
  BOOST_TEST(!m.find<std::string>("k")->has_value());
  BOOST_TEST(*m.get_or<std::uint32_t>("k", 7) == 7u);
  BOOST_TEST(*m.get_or<std::uint32_t>("a.u8", 7) == 200u);
  BOOST_TEST(*m.find_strings("k") == nullptr);
  BOOST_TEST(!m.find_integers("k")->has_value());
  BOOST_TEST(!m.find_floats("k")->has_value());
}

BOOST_AUTO_TEST_CASE(wrong_types_name_what_was_found) {
  const ModelFile model = open(good_file());
  const Metadata& m = model.metadata();
  expect_wrong(m.get<std::uint32_t>("general.architecture"), "general.architecture",
               "expected u32, found string \"toy\"");
  expect_wrong(m.get<std::uint32_t>("a.f32"), "a.f32", "expected u32, found f32 1.5");
  expect_wrong(m.get<std::uint32_t>("a.bool"), "a.bool", "expected u32, found bool true");
  expect_wrong(m.get<std::uint32_t>("b.ints"), "b.ints", "expected u32, found 2 values of i16 in an array");
  expect_wrong(m.get<bool>("a.u8"), "a.u8", "expected bool, found u8 200");
  expect_wrong(m.get<float>("a.u8"), "a.u8", "expected f32, found u8 200");
  expect_wrong(m.get<double>("general.architecture"), "general.architecture", "expected f64, found string");
  expect_wrong(m.get<std::string_view>("a.i8"), "a.i8", "expected string, found i8 -100");
  expect_wrong(m.get<std::string>("b.strings"), "b.strings", "expected string, found 3 values of string in an array");
  // the optional forms tolerate absence, not this
  expect_wrong(m.find<std::uint32_t>("a.f32"), "a.f32", "expected u32, found f32 1.5");
  expect_wrong(m.get_or<std::uint32_t>("a.f32", 7), "a.f32", "expected u32, found f32 1.5");
  expect_wrong(m.find_strings("b.ints"), "b.ints", "expected an array of strings, found 2 values of i16");
  expect_wrong(m.strings("general.architecture"), "general.architecture",
               "expected an array of strings, found string \"toy\"");
  expect_wrong(m.integers("b.strings"), "b.strings", "expected an array of integers, found 3 values of string");
  expect_wrong(m.integers("b.floats"), "b.floats", "expected an array of integers, found 2 values of f32");
  expect_wrong(m.integers("b.bools"), "b.bools", "expected an array of integers, found 2 values of bool");
  expect_wrong(m.find_integers("a.u8"), "a.u8", "expected an array of integers, found u8 200");
  expect_wrong(m.floats("b.ints"), "b.ints", "expected an array of floats, found 2 values of i16");
  expect_wrong(m.find_floats("b.strings"), "b.strings", "expected an array of floats");
}

BOOST_AUTO_TEST_CASE(integer_ranges) {
  const ModelFile model = open(good_file());
  const Metadata& m = model.metadata();
  expect_wrong(m.get<std::uint32_t>("a.i8"), "a.i8", "expected u32, found i8 -100, which is out of range");
  expect_wrong(m.get<std::uint64_t>("a.i64"), "a.i64",
               "expected u64, found i64 -9000000000000000000, which is out of range");
  expect_wrong(m.get<std::int64_t>("a.u64"), "a.u64",
               "expected i64, found u64 18000000000000000000, which is out of range");
  expect_wrong(m.get<std::uint32_t>("a.u64"), "a.u64", "out of range");
  expect_wrong(m.get<std::int32_t>("a.u32"), "a.u32", "out of range");
  expect_wrong(m.get<std::int8_t>("a.u8"), "a.u8", "out of range");
  expect_wrong(m.get<std::uint8_t>("a.u16"), "a.u16", "out of range");
  expect_wrong(m.get_or<std::uint32_t>("a.i32", 1), "a.i32", "out of range");

  // each width at its ends, through every accessor that can hold it
  const auto holds = [](ValueType type, auto value) {
    RawFile file = good_file();
    file.set("v", type, raw(value));
    const ModelFile one = open(file);
    const bool negative = value < decltype(value){};
    BOOST_TEST_CONTEXT(name_of(type) << " " << +value) {
      const auto as_i64 = one.metadata().get<std::int64_t>("v");
      const auto as_u64 = one.metadata().get<std::uint64_t>("v");
      BOOST_TEST(as_u64.has_value() == !negative);
      if (as_u64) BOOST_TEST(*as_u64 == static_cast<std::uint64_t>(value));
      BOOST_TEST(as_i64.has_value() == std::in_range<std::int64_t>(value));
      if (as_i64) BOOST_TEST(*as_i64 == static_cast<std::int64_t>(value));
      const auto as_u32 = one.metadata().get<std::uint32_t>("v");
      BOOST_TEST(as_u32.has_value() == std::in_range<std::uint32_t>(value));
      const auto as_i16 = one.metadata().get<std::int16_t>("v");
      BOOST_TEST(as_i16.has_value() == std::in_range<std::int16_t>(value));
    }
  };
  const auto ends = [&](ValueType type, auto zero) {
    using T = decltype(zero);
    holds(type, std::numeric_limits<T>::min());
    holds(type, std::numeric_limits<T>::max());
    holds(type, T{1});
    holds(type, static_cast<T>(-1));
  };
  ends(ValueType::u8, std::uint8_t{});
  ends(ValueType::i8, std::int8_t{});
  ends(ValueType::u16, std::uint16_t{});
  ends(ValueType::i16, std::int16_t{});
  ends(ValueType::u32, std::uint32_t{});
  ends(ValueType::i32, std::int32_t{});
  ends(ValueType::u64, std::uint64_t{});
  ends(ValueType::i64, std::int64_t{});
}

BOOST_AUTO_TEST_CASE(floats_must_be_finite_and_fit) {
  RawFile file = good_file();
  file.set("nan", ValueType::f32, raw(std::nanf("")));
  file.set("inf", ValueType::f64, raw(std::numeric_limits<double>::infinity()));
  file.set("large", ValueType::f64, raw(1e39));
  file.set("tiny", ValueType::f64, raw(1e-60));
  file.set("largest", ValueType::f64, raw(static_cast<double>(std::numeric_limits<float>::max())));
  const ModelFile model = open(file);
  const Metadata& m = model.metadata();
  expect_wrong(m.get<float>("nan"), "nan", "expected f32, found f32 nan, which is not finite");
  expect_wrong(m.get<double>("inf"), "inf", "expected f64, found f64 inf, which is not finite");
  expect_wrong(m.get<float>("large"), "large", "expected f32, found f64 1e+39, which is out of range");
  BOOST_TEST(*m.get<double>("large") == 1e39);
  BOOST_TEST(*m.get<float>("tiny") == 0.0f);
  BOOST_TEST(*m.get<float>("largest") == std::numeric_limits<float>::max());
}

BOOST_AUTO_TEST_CASE(arrays_in_any_width) {
  const ModelFile plain = open(good_file());
  const auto strings = plain.metadata().strings("b.strings");
  BOOST_TEST_REQUIRE(strings.has_value());
  BOOST_TEST((*strings)->size() == 3u);
  BOOST_TEST((**strings)[0] == "one");
  BOOST_TEST((**strings)[1] == "");
  BOOST_TEST((**strings)[2] == "drei");
  BOOST_TEST((*plain.metadata().floats("b.floats") == std::vector<float>{0.5f, -1.0f}));
  BOOST_TEST((*plain.metadata().integers("b.ints") == std::vector<std::int64_t>{-7, 9}));

  const auto integers = [](ValueType type, auto... values) {
    RawFile file = good_file();
    file.set("v", ValueType::array, raw_array(type, sizeof...(values), (raw(values) + ...)));
    return open(file).metadata().integers("v");
  };
  const std::vector<std::int64_t> one_two{1, 2};
  BOOST_TEST((*integers(ValueType::u8, std::uint8_t{1}, std::uint8_t{2}) == one_two));
  BOOST_TEST((*integers(ValueType::i8, std::int8_t{1}, std::int8_t{2}) == one_two));
  BOOST_TEST((*integers(ValueType::u32, 1u, 2u) == one_two));
  BOOST_TEST((*integers(ValueType::i32, 1, 2) == one_two));
  BOOST_TEST((*integers(ValueType::u64, std::uint64_t{1}, std::uint64_t{2}) == one_two));
  BOOST_TEST((*integers(ValueType::i64, std::int64_t{-1}, std::int64_t{2}) == std::vector<std::int64_t>{-1, 2}));
  expect_wrong(integers(ValueType::u64, std::uint64_t{1}, std::uint64_t{1} << 63), "v",
               "element 1 is 9223372036854775808, out of the range of i64");

  RawFile file = good_file();
  file.set("d", ValueType::array,
           raw_array(ValueType::f64, 2, raw(0.25) + raw(-std::numeric_limits<double>::infinity())));
  file.set("e", ValueType::array, raw_array(ValueType::f64, 1, raw(1e300)));
  file.set("none", ValueType::array, raw_array(ValueType::string, 0, ""));
  file.set("zero", ValueType::array, raw_array(ValueType::i32, 0, ""));
  const ModelFile model = open(file);
  const auto doubles = model.metadata().floats("d");
  BOOST_TEST_REQUIRE(doubles.has_value());
  BOOST_TEST((*doubles)[0] == 0.25f);
  BOOST_TEST((*doubles)[1] == -std::numeric_limits<float>::infinity());
  expect_wrong(model.metadata().floats("e"), "e", "element 0 is 1e+300, out of the range of f32");
  BOOST_TEST((*model.metadata().strings("none"))->empty());
  BOOST_TEST(model.metadata().integers("zero")->empty());
}

BOOST_AUTO_TEST_CASE(summary_for_people) {
  RawFile file = good_file();
  file.set("text", ValueType::string, raw("line\n\"two\" \xff"));
  file.set("long", ValueType::string, raw(std::string(200, 'x')));
  file.set("many", ValueType::array, raw_array(ValueType::u8, 6, "\x01\x02\x03\x04\x05\x06"));
  file.set("nest", ValueType::array, raw_array(ValueType::array, 1, raw_array(ValueType::u8, 0, "")));
  const ModelFile model = open(file);
  const auto keys = model.metadata().keys(20);
  BOOST_TEST_REQUIRE(keys.size() == 20u);
  BOOST_TEST(keys[0].key == "general.architecture");
  BOOST_TEST(keys[0].value == "\"toy\"");
  const auto line = [&](std::string_view key) {
    const auto at = std::ranges::find(keys, key, &Metadata::KeySummary::key);
    return at == keys.end() ? std::string("?") : at->type_text() + " " + at->value;
  };
  BOOST_TEST(line("a.i64") == "i64 -9000000000000000000");
  BOOST_TEST(line("a.u64") == "u64 18000000000000000000");
  BOOST_TEST(line("a.f64") == "f64 -2.25");
  BOOST_TEST(line("a.bool") == "bool true");
  BOOST_TEST(line("b.strings") == "string[3] [\"one\", \"\", \"drei\"]");
  BOOST_TEST(line("b.bools") == "bool[2] [true, false]");
  BOOST_TEST(line("text") == "string \"line\\n\\\"two\\\" \\xff\"");
  BOOST_TEST(line("long") == "string \"" + std::string(20, 'x') + "...\"");
  BOOST_TEST(line("many") == "u8[6] [1, 2, 3, 4, ...]");
  BOOST_TEST(line("nest") == "array[1] [1 arrays]");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace coli::gguf::test
