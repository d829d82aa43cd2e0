// SPDX-License-Identifier: Apache-2.0
// A GGUF file spelled out field by field, so that tests can make each field wrong. Shares no code with the writer.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "coli/gguf/value_type.hpp"

namespace coli::gguf::test {

template <class T>
requires std::is_arithmetic_v<T> || std::is_enum_v<T> std::string raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}
inline std::string raw(std::string_view text) { return raw(std::uint64_t{text.size()}) + std::string(text); }

inline std::string raw_array(ValueType element, std::uint64_t count, std::string_view elements) {
  return raw(element) + raw(count) + std::string(elements);
}

struct RawKey {
  std::string key;
  std::uint32_t type;
  std::string value;
  std::optional<std::uint64_t> length{};  // of the key, where it lies

  RawKey(std::string k, ValueType t, std::string v)
      : key(std::move(k)), type(static_cast<std::uint32_t>(t)), value(std::move(v)) {}
};

struct RawTensor {
  std::string name;
  std::uint32_t type;
  std::vector<std::uint64_t> dims;
  std::uint64_t offset;
  std::optional<std::uint32_t> n_dims{};
  std::optional<std::uint64_t> length{};
};

struct RawFile {
  std::string magic = "GGUF";
  std::uint32_t version = 3;
  std::optional<std::uint64_t> n_tensors{};
  std::optional<std::uint64_t> n_keys{};
  std::vector<RawKey> keys;
  std::vector<RawTensor> tensors;
  std::uint64_t alignment = 32;
  std::string data;

  RawKey& key(std::string_view name) {
    for (RawKey& k : keys)
      if (k.key == name) return k;
    return keys.emplace_back(std::string(name), ValueType::u8, "");
  }
  void set(std::string_view name, ValueType type, std::string value) {
    RawKey& k = key(name);
    k.type = static_cast<std::uint32_t>(type);
    k.value = std::move(value);
  }

  std::string header() const {
    std::string out =
        magic + raw(version) + raw(n_tensors.value_or(tensors.size())) + raw(n_keys.value_or(keys.size()));
    for (const RawKey& k : keys) out += raw(k.length.value_or(k.key.size())) + k.key + raw(k.type) + k.value;
    for (const RawTensor& t : tensors) {
      out += raw(t.length.value_or(t.name.size())) + t.name;
      out += raw(t.n_dims.value_or(static_cast<std::uint32_t>(t.dims.size())));
      for (const std::uint64_t dim : t.dims) out += raw(dim);
      out += raw(t.type) + raw(t.offset);
    }
    return out;
  }
  std::string bytes() const {
    std::string out = header();
    while (alignment != 0 && out.size() % alignment != 0) out += '\0';
    return out + data;
  }
};

/// Every value type, an array of each kind and four tensors; its data ends aligned, so that no cut goes unseen.
inline RawFile good_file() {
  RawFile file;
  file.keys = {
      {"general.architecture", ValueType::string, raw("toy")},
      {"a.u8", ValueType::u8, raw(std::uint8_t{200})},
      {"a.i8", ValueType::i8, raw(std::int8_t{-100})},
      {"a.u16", ValueType::u16, raw(std::uint16_t{60000})},
      {"a.i16", ValueType::i16, raw(std::int16_t{-30000})},
      {"a.u32", ValueType::u32, raw(std::uint32_t{4000000000u})},
      {"a.i32", ValueType::i32, raw(std::int32_t{-2000000000})},
      {"a.u64", ValueType::u64, raw(std::uint64_t{18000000000000000000u})},
      {"a.i64", ValueType::i64, raw(std::int64_t{-9000000000000000000})},
      {"a.f32", ValueType::f32, raw(1.5f)},
      {"a.f64", ValueType::f64, raw(-2.25)},
      {"a.bool", ValueType::bool_, raw(std::uint8_t{1})},
      {"b.strings", ValueType::array, raw_array(ValueType::string, 3, raw("one") + raw("") + raw("drei"))},
      {"b.floats", ValueType::array, raw_array(ValueType::f32, 2, raw(0.5f) + raw(-1.0f))},
      {"b.ints", ValueType::array, raw_array(ValueType::i16, 2, raw(std::int16_t{-7}) + raw(std::int16_t{9}))},
      {"b.bools", ValueType::array, raw_array(ValueType::bool_, 2, std::string("\x01\x00", 2))},
  };
  file.tensors = {
      {"plain", 0, {8, 2}, 0},           // F32, 64 bytes
      {"half", 1, {3, 5}, 64},           // F16, 30 bytes and 2 of padding
      {"blocks", 8, {32, 2, 2}, 96},     // Q8_0, 136 bytes and 24 of padding
      {"last", 30, {16, 1, 1, 2}, 256},  // BF16, 64 bytes
  };
  for (int i = 0; i < 320; ++i) file.data += static_cast<char>(i * 7);
  return file;
}

inline std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

}  // namespace coli::gguf::test
