// SPDX-License-Identifier: Apache-2.0
// Which single faults in magic, version, counts, metadata and alignment are refused, and does each get its own
// sentence?
#include "coli/gguf/header.hpp"

#include <boost/test/unit_test.hpp>

#include "expect.hpp"
#include "largest_allocation.hpp"
#include "raw_file.hpp"

namespace coli::gguf::test {
namespace {

/// good_file() with `fault` applied is refused; without it, it is not.
template <class Fault>
void plant(std::string_view subject, std::string_view says, Fault fault) {
  BOOST_TEST_CONTEXT("fault about '" << subject << "': " << says) {
    RawFile file = good_file();
    expect_accepted(file.bytes());
    fault(file);
    const std::string bytes = file.bytes();
    forget_largest_allocation();
    expect_refused(bytes, subject, says);
    BOOST_TEST(largest_allocation() < 64 * 1024u);
  }
}

BOOST_AUTO_TEST_SUITE(header)

BOOST_AUTO_TEST_CASE(other_files_are_told_apart) {
  expect_refused("", "", "the file is empty");
  expect_refused("GG", "", "ends inside its magic, after 2 bytes");
  expect_refused("GGUF", "", "version at offset 4 needs 4 bytes, but only 0 are left of 4");
  expect_refused("GGUX....................", "", "not a GGUF file: it starts with \"GGUX\"; expected \"GGUF\"");
  expect_refused("Once upon a time", "", "it starts with \"Once\"");
  expect_refused(std::string(100, '\0'), "", "it starts with \"\\x00\\x00\\x00\\x00\"");
  expect_refused("lmgg\x01", "", "a GGML file from before GGUF");
  expect_refused("fmgg\x01", "", "a GGMF file from before GGUF");
  expect_refused("tjgg\x01", "", "a GGJT file from before GGUF");
  expect_refused("FUGG\x03", "", "magic byte-swapped: wrong endianness");
  expect_refused("version https://git-lfs.github.com/spec/v1\noid sha256:00", "", "git lfs pull");
  expect_refused("<!DOCTYPE html>", "", "an HTML page");
  expect_refused("PK\x03\x04...", "", "zip archive or PyTorch checkpoint");
  expect_refused("\x1f\x8b\x08", "", "gzip data");
  expect_refused("\x28\xb5\x2f\xfd", "", "zstd data");
  expect_refused(raw(std::uint64_t{20}) + "{\"__metadata__\":{}}", "", "safetensors");
}

BOOST_AUTO_TEST_CASE(versions) {
  const auto version = [](std::uint32_t v, std::string_view says) {
    plant("", says, [v](RawFile& f) { f.version = v; });
  };
  version(0, "unknown GGUF version 0");
  version(1, "GGUF version 1 is not supported");
  version(4, "unknown GGUF version 4; versions 2 and 3");
  version(0xFFFFFFFF, "unknown GGUF version 4294967295");
  version(0x03000000, "wrong endianness: version reads 50331648, which is 3 in big-endian");
  version(0x02000000, "which is 2 in big-endian");
  RawFile two = good_file();
  two.version = 2;
  expect_accepted(two.bytes());
}

BOOST_AUTO_TEST_CASE(counts_are_held_against_the_bytes_left) {
  for (const std::uint64_t lie : {~std::uint64_t{0}, std::uint64_t{1} << 63, std::uint64_t{1} << 32,
                                  ~std::uint64_t{0} / 56 + 1, ~std::uint64_t{0} / 368 + 1, std::uint64_t{1000}}) {
    plant("", "claims " + std::to_string(lie) + " tensors", [lie](RawFile& f) { f.n_tensors = lie; });
    plant("", "claims " + std::to_string(lie) + " metadata keys", [lie](RawFile& f) { f.n_keys = lie; });
  }
  // One key too many takes the first tensor record for metadata, and so on: whatever it meets, it is refused.
  for (const std::uint64_t lie :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{15}, std::uint64_t{17}, std::uint64_t{20}}) {
    RawFile file = good_file();
    file.n_keys = lie;
    const auto model = ModelFile::parse(bytes_of(file.bytes()), "x.gguf");
    BOOST_TEST(!model.has_value(), "with " << lie << " keys");
  }
  const std::string many(static_cast<std::size_t>(kMaxMetadataKeys + 1) * kMinMetadataBytes * 2, '\0');
  RawFile bulk = good_file();
  bulk.n_keys = kMaxMetadataKeys + 1;
  bulk.data = many;
  expect_refused(bulk.bytes(), "", "at most 262144 are supported");
  bulk = good_file();
  bulk.n_tensors = kMaxTensors + 1;
  bulk.data = many;
  expect_refused(bulk.bytes(), "", "at most 262144 are supported");
}

BOOST_AUTO_TEST_CASE(keys) {
  plant("", "metadata entry 2 has an empty key", [](RawFile& f) { f.keys[2].key = ""; });
  plant("", "metadata entry 0 has a key of 281474976710655 bytes; GGUF allows 65535",
        [](RawFile& f) { f.keys[0].length = 0xFFFFFFFFFFFF; });
  plant("", "metadata entry 1 has a key of 65536 bytes", [](RawFile& f) { f.keys[1].key = std::string(65536, 'k'); });
  plant("", "metadata entry 1, key at offset", [](RawFile& f) { f.keys[1].length = 60000; });
  plant("a.\\x00u8", "not printable ASCII", [](RawFile& f) { f.keys[1].key = std::string("a.\0u8", 5); });
  plant("a\\nb", "not printable ASCII", [](RawFile& f) { f.keys[1].key = "a\nb"; });
  plant("a\\xff", "not printable ASCII", [](RawFile& f) { f.keys[1].key = "a\xff"; });
  plant("a.u8", "metadata key stands twice (entries 1 and 3)", [](RawFile& f) { f.keys[3].key = "a.u8"; });
  plant("a.u16", "metadata key stands twice (entries 3 and 16)", [](RawFile& f) { f.keys.push_back(f.keys[3]); });
  RawFile longest = good_file();
  longest.keys[1].key = std::string(65535, 'k');
  expect_accepted(longest.bytes());
}

BOOST_AUTO_TEST_CASE(values) {
  for (const std::uint32_t type : {13u, 200u, 0xFFFFFFFFu, 0x03000000u})
    plant("a.u16", "unknown metadata value type " + std::to_string(type) + "; GGUF knows 0 to 12",
          [type](RawFile& f) { f.key("a.u16").type = type; });
  plant("a.bool", "bool value is 2", [](RawFile& f) { f.key("a.bool").value = "\x02"; });
  plant("a.bool", "bool value is 255", [](RawFile& f) { f.key("a.bool").value = "\xff"; });
  plant("b.bools", "bool 1 of the array is 7", [](RawFile& f) { f.key("b.bools").value.back() = 7; });
  plant("general.architecture", "string value at offset",
        [](RawFile& f) { f.key("general.architecture").value = raw(~std::uint64_t{0} - 7) + "toy"; });
  plant("general.architecture", "needs 4000 bytes, but only",
        [](RawFile& f) { f.key("general.architecture").value = raw(std::uint64_t{4000}) + "toy"; });
}

BOOST_AUTO_TEST_CASE(arrays) {
  const auto array = [](std::string_view key, std::string_view says, std::string value) {
    plant(key, says, [&](RawFile& f) { f.key(key).value = value; });
  };
  array("b.ints", "unknown metadata value type 13", raw(std::uint32_t{13}) + raw(std::uint64_t{0}));
  array("b.ints", "array claims 1152921504606846976 values of u8", raw_array(ValueType::u8, 1ull << 60, "xy"));
  array("b.ints", "array claims 2305843009213693953 values of u64", raw_array(ValueType::u64, (1ull << 61) + 1, "xy"));
  array("b.ints", "array claims 18446744073709551615 values of i16", raw_array(ValueType::i16, ~0ull, "xy"));
  array("b.ints", "array claims 5000 values of bool", raw_array(ValueType::bool_, 5000, "xy"));
  array("b.strings", "array claims 1152921504606846976 values of string",
        raw_array(ValueType::string, 1ull << 60, raw("a")));
  array("b.strings", "string 1 of 2 at offset", raw_array(ValueType::string, 2, raw("a") + raw(~0ull)));
  array("b.strings", "needs 100000 bytes", raw_array(ValueType::string, 2, raw("a") + raw(std::uint64_t{100000})));
  array("b.ints", "array claims 1152921504606846976 values of array", raw_array(ValueType::array, 1ull << 60, ""));
}

BOOST_AUTO_TEST_CASE(nested_arrays_are_passed_over) {
  std::string deep = raw_array(ValueType::u16, 2, "abcd");
  for (int depth = 2; depth <= 5; ++depth) deep = raw_array(ValueType::array, 1, deep);  // five deep
  RawFile file = good_file();
  file.set("n.flat", ValueType::array,
           raw_array(ValueType::array, 2,
                     raw_array(ValueType::string, 2, raw("a") + raw("b")) + raw_array(ValueType::i64, 0, "")));
  file.set("n.deep", ValueType::array, deep);
  expect_accepted(file.bytes());
  const auto model = ModelFile::parse(bytes_of(file.bytes()), "x.gguf");
  expect_error(model->metadata().strings("n.flat"), Errc::bad_input, "n.flat",
               "expected an array of strings, found 2 values of array in an array", "x.gguf");

  plant("n.deep", "arrays nested more than 5 deep",
        [&](RawFile& f) { f.set("n.deep", ValueType::array, raw_array(ValueType::array, 1, deep)); });
  plant("n.flat", "array claims 9999 values of u64", [&](RawFile& f) {
    f.set("n.flat", ValueType::array, raw_array(ValueType::array, 1, raw_array(ValueType::u64, 9999, "")));
  });
  plant("n.flat", "string in a nested array", [&](RawFile& f) {
    f.set("n.flat", ValueType::array, raw_array(ValueType::array, 1, raw_array(ValueType::string, 1, raw(~0ull))));
  });
  plant("n.flat", "unknown metadata value type 99", [&](RawFile& f) {
    f.set("n.flat", ValueType::array, raw_array(ValueType::array, 1, raw(std::uint32_t{99}) + raw(std::uint64_t{0})));
  });
}

BOOST_AUTO_TEST_CASE(alignment) {
  const auto refuse = [](ValueType type, std::string value, std::string_view says) {
    plant("general.alignment", says, [&](RawFile& f) { f.set("general.alignment", type, value); });
  };
  refuse(ValueType::u32, raw(std::uint32_t{0}), "alignment 0 is not a power of two");
  refuse(ValueType::u32, raw(std::uint32_t{33}), "alignment 33 is not a power of two");
  refuse(ValueType::i32, raw(std::int32_t{-32}), "expected u64, found i32 -32, which is out of range");
  refuse(ValueType::string, raw("32"), "expected u64, found string \"32\"");
  refuse(ValueType::f32, raw(32.0f), "expected u64, found f32 32");
  refuse(ValueType::array, raw_array(ValueType::u32, 1, raw(std::uint32_t{32})), "found 1 values of u32 in an array");
  plant("plain", "data end at byte",
        [](RawFile& f) { f.set("general.alignment", ValueType::u32, raw(std::uint32_t{1u << 31})); });
  plant("plain", "data end at byte",
        [](RawFile& f) { f.set("general.alignment", ValueType::u64, raw(std::uint64_t{1} << 62)); });
  plant("plain", "data end at byte",
        [](RawFile& f) { f.set("general.alignment", ValueType::u64, raw(std::uint64_t{1} << 63)); });

  for (const std::uint32_t good : {1u, 2u, 8u, 32u, 64u, 4096u}) {
    RawFile file = good_file();
    file.set("general.alignment", ValueType::u32, raw(good));
    file.alignment = good;
    file.data = std::string(4 * 4096 + 136, 'd');
    for (std::size_t i = 0; i < file.tensors.size(); ++i) file.tensors[i].offset = i * 4096;
    expect_accepted(file.bytes());
  }
  RawFile wide = good_file();  // as a 16 and a 64 bit integer
  wide.set("general.alignment", ValueType::u16, raw(std::uint16_t{32}));
  expect_accepted(wide.bytes());
  wide.set("general.alignment", ValueType::i64, raw(std::int64_t{32}));
  expect_accepted(wide.bytes());
}

BOOST_AUTO_TEST_CASE(a_file_without_tensors_is_a_vocabulary) {
  RawFile file = good_file();
  file.tensors.clear();
  file.data.clear();
  expect_accepted(file.bytes());
  expect_accepted(file.header());  // without padding, as llama.cpp writes them
  file.set("general.alignment", ValueType::u64, raw(std::uint64_t{1} << 63));
  expect_accepted(file.header());
  file = RawFile{};  // nothing at all
  expect_accepted(file.header());
}

BOOST_AUTO_TEST_CASE(joined_files_are_refused) {
  const std::string one = good_file().bytes();
  expect_refused(one + one, "", "a second GGUF file begins at byte " + std::to_string(one.size()));
  RawFile vocabulary = good_file();
  vocabulary.tensors.clear();
  vocabulary.data.clear();
  expect_refused(vocabulary.header() + one, "", "a second GGUF file begins at byte");
  expect_refused(vocabulary.bytes() + one, "", "a second GGUF file begins at byte");
  expect_accepted(one + "trailing bytes of another kind");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace coli::gguf::test
