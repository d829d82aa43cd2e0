// SPDX-License-Identifier: Apache-2.0
// Are all tensor types known by id, name and size, and do they agree with the formats that have kernels?
#include "coli/gguf/tensor_type.hpp"

#include <boost/test/unit_test.hpp>

#include "coli/gguf/value_type.hpp"
#include "coli/quant/format.hpp"

namespace coli::gguf::test {
namespace {

BOOST_AUTO_TEST_SUITE(tensor_type)

BOOST_AUTO_TEST_CASE(ids_names_and_sizes) {
  // The figures of ggml's own block structures.
  const auto expect = [](std::uint32_t id, std::string_view name, std::uint32_t values, std::uint32_t bytes) {
    BOOST_TEST_CONTEXT(name) {
      const auto type = gguf::tensor_type(id);
      BOOST_TEST_REQUIRE(type.has_value());
      BOOST_TEST(type->name == name);
      BOOST_TEST(type->values_per_block == values);
      BOOST_TEST(type->bytes_per_block == bytes);
      BOOST_TEST(find_tensor_type(name) == find_tensor_type(id));
    }
  };
  expect(0, "F32", 1, 4);
  expect(1, "F16", 1, 2);
  expect(2, "Q4_0", 32, 2 + 16);
  expect(3, "Q4_1", 32, 2 + 2 + 16);
  expect(6, "Q5_0", 32, 2 + 4 + 16);
  expect(7, "Q5_1", 32, 2 + 2 + 4 + 16);
  expect(8, "Q8_0", 32, 2 + 32);
  expect(9, "Q8_1", 32, 2 + 2 + 32);
  expect(10, "Q2_K", 256, 16 + 64 + 2 + 2);
  expect(11, "Q3_K", 256, 32 + 64 + 12 + 2);
  expect(12, "Q4_K", 256, 2 + 2 + 12 + 128);
  expect(13, "Q5_K", 256, 2 + 2 + 12 + 32 + 128);
  expect(14, "Q6_K", 256, 128 + 64 + 16 + 2);
  expect(15, "Q8_K", 256, 4 + 256 + 2 * 16);
  expect(16, "IQ2_XXS", 256, 2 + 64);
  expect(17, "IQ2_XS", 256, 2 + 64 + 8);
  expect(18, "IQ3_XXS", 256, 2 + 96);
  expect(19, "IQ1_S", 256, 2 + 32 + 16);
  expect(20, "IQ4_NL", 32, 2 + 16);
  expect(21, "IQ3_S", 256, 2 + 64 + 8 + 32 + 4);
  expect(22, "IQ2_S", 256, 2 + 64 + 8 + 8);
  expect(23, "IQ4_XS", 256, 2 + 2 + 4 + 128);
  expect(24, "I8", 1, 1);
  expect(25, "I16", 1, 2);
  expect(26, "I32", 1, 4);
  expect(27, "I64", 1, 8);
  expect(28, "F64", 1, 8);
  expect(29, "IQ1_M", 256, 32 + 16 + 8);
  expect(30, "BF16", 1, 2);
  expect(34, "TQ1_0", 256, 2 + 4 + 48);
  expect(35, "TQ2_0", 256, 2 + 64);
  expect(39, "MXFP4", 32, 1 + 16);
  expect(40, "NVFP4", 64, 4 + 32);
  expect(41, "Q1_0", 128, 2 + 16);
  expect(42, "Q2_0", 64, 2 + 16);
}

BOOST_AUTO_TEST_CASE(withdrawn_and_unknown_ids_have_no_size) {
  for (const std::uint32_t id : {4u, 5u, 31u, 32u, 33u, 36u, 37u, 38u}) {
    BOOST_TEST(!gguf::tensor_type(id).has_value());
    BOOST_TEST_REQUIRE(find_tensor_type(id) != nullptr);
    BOOST_TEST(find_tensor_type(id)->removed());
    BOOST_TEST(find_tensor_type(find_tensor_type(id)->name) == nullptr);
  }
  for (const std::uint32_t id : {43u, 97u, 255u, 0x80000000u, 0xFFFFFFFFu}) BOOST_TEST(find_tensor_type(id) == nullptr);
  BOOST_TEST(find_tensor_type("q4_k") == nullptr);
  BOOST_TEST(find_tensor_type("") == nullptr);
}

BOOST_AUTO_TEST_CASE(formats_with_kernels_agree) {
  for (std::size_t i = 0; i < kFormats; ++i) {
    const auto format = static_cast<Format>(i);
    BOOST_TEST_CONTEXT(coli::name_of(format)) {
      const TensorType* type = find_tensor_type(coli::name_of(format));
      BOOST_TEST_REQUIRE(type != nullptr);
      BOOST_TEST(row_bytes(format, type->values_per_block) == type->bytes_per_block);
      BOOST_TEST(row_bytes(format, std::uint64_t{type->values_per_block} * 7) ==
                 std::uint64_t{type->bytes_per_block} * 7);
    }
  }
}

BOOST_AUTO_TEST_CASE(value_types) {
  BOOST_TEST(name_of(ValueType::u8) == "u8");
  BOOST_TEST(name_of(ValueType::bool_) == "bool");
  BOOST_TEST(name_of(ValueType::array) == "array");
  BOOST_TEST(name_of(ValueType::f64) == "f64");
  BOOST_TEST(static_cast<std::uint32_t>(ValueType::f64) == kValueTypes - 1);
  BOOST_TEST(size_of(ValueType::i64) == 8u);
  BOOST_TEST(size_of(ValueType::bool_) == 1u);
  BOOST_TEST(size_of(ValueType::string) == 0u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace coli::gguf::test
