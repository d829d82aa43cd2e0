// SPDX-License-Identifier: Apache-2.0
// What does the file say about itself? Typed access to metadata; every refusal names key, expectation and finding.
//
// `get` wants a key, `find` tolerates its absence, neither tolerates a wrong type. Integers are accepted in any width
// that holds the value; floats as f32 or f64, finite. Lookup is a binary search over sorted keys: no hash that a
// crafted file could flood. Pointers and views live as long as the Metadata.
#pragma once

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "coli/core/error.hpp"
#include "coli/gguf/printable.hpp"
#include "coli/gguf/string_array.hpp"
#include "coli/gguf/value_type.hpp"

namespace coli::gguf {

/// One number or bool: its bits, zero-extended.
struct Scalar {
  ValueType type = ValueType::u8;
  std::uint64_t bits = 0;

  /// Integers: the value, sign-extended from its own width; the unsigned types as they are.
  std::int64_t as_signed() const {
    switch (type) {
      case ValueType::i8:
        return static_cast<std::int8_t>(bits);
      case ValueType::i16:
        return static_cast<std::int16_t>(bits);
      case ValueType::i32:
        return static_cast<std::int32_t>(bits);
      default:
        return static_cast<std::int64_t>(bits);
    }
  }
  double as_double() const {
    if (type == ValueType::f32) return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    return std::bit_cast<double>(bits);
  }
  template <std::integral T>
  bool fits() const {
    return is_signed_integer(type) ? std::in_range<T>(as_signed()) : std::in_range<T>(bits);
  }

  std::string text() const {
    char buffer[32];
    const auto shortest = [&](auto value) {
      return std::string(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
    };
    if (type == ValueType::bool_) return bits != 0 ? "true" : "false";
    if (type == ValueType::f32) return shortest(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    if (type == ValueType::f64) return shortest(as_double());
    return is_signed_integer(type) ? shortest(as_signed()) : shortest(bits);
  }
};

/// An array of numbers or bools, kept as the file has it.
struct NumberArray {
  ValueType element = ValueType::u8;
  std::vector<std::byte> raw;

  std::size_t size() const noexcept { return raw.size() / size_of(element); }
  Scalar operator[](std::size_t i) const {
    Scalar value{element, 0};
    std::memcpy(&value.bits, raw.data() + i * size_of(element), size_of(element));
    return value;
  }
};

/// An array of arrays: no key that matters has one, so it is checked, counted and not kept.
struct NestedArray {
  std::uint64_t count = 0;
};

template <class T>
concept MetadataInteger = std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char>;
template <class T>
concept MetadataFloat = std::same_as<T, float> || std::same_as<T, double>;
template <class T>
concept MetadataScalar = MetadataInteger<T> || MetadataFloat<T> || std::same_as<T, bool> ||
    std::same_as<T, std::string> || std::same_as<T, std::string_view>;

/// The keys and values of one file.
class Metadata {
 public:
  struct Entry {
    std::string key;
    std::variant<Scalar, std::string, StringArray, NumberArray, NestedArray> value;
  };

  /// One line of `inspect`.
  struct KeySummary {
    std::string_view key;
    ValueType type;                    // array for arrays
    std::optional<ValueType> element;  // of arrays
    std::uint64_t count;               // of arrays; otherwise 1
    std::string value;  // numbers and bools in full (shortest round trip), strings cut, arrays by their first elements
    std::string type_text() const {
      if (!element) return std::string(name_of(type));
      return std::string(name_of(*element)) + "[" + std::to_string(count) + "]";
    }
  };

  Metadata() = default;

  /// Takes entries in file order. `file` is named in errors. Errors: bad_input, for a key that stands twice.
  static Result<Metadata> from_entries(std::vector<Entry> entries, std::string file) {
    Metadata metadata;
    metadata.file_ = std::move(file);
    metadata.entries_ = std::move(entries);
    metadata.order_.resize(metadata.entries_.size());
    std::iota(metadata.order_.begin(), metadata.order_.end(), 0u);
    const auto key_of = [&](std::uint32_t i) -> const std::string& { return metadata.entries_[i].key; };
    std::ranges::stable_sort(metadata.order_, {}, key_of);
    const auto twin = std::ranges::adjacent_find(metadata.order_, {}, key_of);
    if (twin != metadata.order_.end())
      return Error{Errc::bad_input,
                   "metadata key stands twice (entries " + std::to_string(*twin) + " and " +
                       std::to_string(*(twin + 1)) + "): the file is ambiguous",
                   printable(key_of(*twin)), metadata.file_};
    return metadata;
  }

  std::size_t size() const noexcept { return entries_.size(); }
  const std::string& file() const noexcept { return file_; }
  bool contains(std::string_view key) const { return entry(key) != nullptr; }
  std::optional<ValueType> type_of(std::string_view key) const {
    const Entry* found = entry(key);
    if (found == nullptr) return std::nullopt;
    return type_of(*found);
  }

  /// The value of `key`. Errors: bad_input, where it is missing, of another type, or out of T's range.
  template <MetadataScalar T>
  Result<T> get(std::string_view key) const {
    const Entry* found = entry(key);
    if (found == nullptr) return missing(key, expectation<T>());
    return convert<T>(*found);
  }

  /// The value of `key`, if it is there. Errors: bad_input, where it is of another type or out of range.
  template <MetadataScalar T>
  Result<std::optional<T>> find(std::string_view key) const {
    const Entry* found = entry(key);
    if (found == nullptr) return std::optional<T>{};
    COLI_TRY(value, convert<T>(*found));
    return std::optional<T>{std::move(value)};
  }

  template <MetadataScalar T>
  Result<T> get_or(std::string_view key, T otherwise) const {
    const Entry* found = entry(key);
    if (found == nullptr) return otherwise;
    return convert<T>(*found);
  }

  /// The strings under `key`, never null. Errors: as get.
  Result<const StringArray*> strings(std::string_view key) const {
    COLI_TRY(found, find_strings(key));
    if (found == nullptr) return missing(key, kStrings);
    return found;
  }
  /// The strings under `key`, null where there is no such key.
  Result<const StringArray*> find_strings(std::string_view key) const {
    const Entry* found = entry(key);
    if (found == nullptr) return static_cast<const StringArray*>(nullptr);
    const StringArray* array = std::get_if<StringArray>(&found->value);
    if (array == nullptr) return mistyped(*found, kStrings);
    return array;
  }

  /// The integers under `key`, from any width. Errors: as get; a u64 beyond i64 is out of range.
  Result<std::vector<std::int64_t>> integers(std::string_view key) const {
    COLI_TRY(found, find_integers(key));
    if (!found) return missing(key, kIntegers);
    return std::move(*found);
  }
  Result<std::optional<std::vector<std::int64_t>>> find_integers(std::string_view key) const {
    using Values = std::optional<std::vector<std::int64_t>>;
    const Entry* found = entry(key);
    if (found == nullptr) return Values{};
    const NumberArray* array = std::get_if<NumberArray>(&found->value);
    if (array == nullptr || !is_integer(array->element)) return mistyped(*found, kIntegers);
    std::vector<std::int64_t> values(array->size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Scalar value = (*array)[i];
      if (!value.fits<std::int64_t>())
        return error(*found, "element " + std::to_string(i) + " is " + value.text() + ", out of the range of i64");
      values[i] = value.as_signed();
    }
    return Values{std::move(values)};
  }

  /// The floats under `key`, from f32 or f64 (rounded). Elements may be infinite or NaN: whether that matters is the
  /// reader's to say.
  Result<std::vector<float>> floats(std::string_view key) const {
    COLI_TRY(found, find_floats(key));
    if (!found) return missing(key, kFloats);
    return std::move(*found);
  }
  Result<std::optional<std::vector<float>>> find_floats(std::string_view key) const {
    using Values = std::optional<std::vector<float>>;
    const Entry* found = entry(key);
    if (found == nullptr) return Values{};
    const NumberArray* array = std::get_if<NumberArray>(&found->value);
    if (array == nullptr || !is_float(array->element)) return mistyped(*found, kFloats);
    std::vector<float> values(array->size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double value = (*array)[i].as_double();
      if (std::isfinite(value) && !(std::abs(value) <= kLargestFloat))
        return error(*found,
                     "element " + std::to_string(i) + " is " + (*array)[i].text() + ", out of the range of f32");
      values[i] = static_cast<float>(value);
    }
    return Values{std::move(values)};
  }

  /// Every key with its type and a short value, in file order.
  std::vector<KeySummary> keys(std::size_t most_chars = 80) const {
    std::vector<KeySummary> lines;
    lines.reserve(entries_.size());
    for (const Entry& e : entries_)
      lines.push_back({e.key, type_of(e), element_of(e), count_of(e), value_text(e, most_chars)});
    return lines;
  }

  /// All of it as read, in file order.
  std::span<const Entry> entries() const noexcept { return entries_; }

  /// An Error about `key` in this file, for readers that find a value unacceptable.
  Error error_at(std::string_view key, std::string message) const {
    return {Errc::bad_input, std::move(message), printable(key), file_};
  }

 private:
  static constexpr std::string_view kStrings = "an array of strings";
  static constexpr std::string_view kIntegers = "an array of integers";
  static constexpr std::string_view kFloats = "an array of floats";
  static constexpr double kLargestFloat = 3.4028234663852886e38;
  static constexpr std::size_t kShownElements = 4;

  template <class T>
  static constexpr std::string_view expectation() {
    if constexpr (std::same_as<T, bool>)
      return "bool";
    else if constexpr (std::same_as<T, float>)
      return "f32";
    else if constexpr (std::same_as<T, double>)
      return "f64";
    else if constexpr (!std::integral<T>)
      return "string";
    else if constexpr (std::signed_integral<T>)
      return sizeof(T) == 1 ? "i8" : sizeof(T) == 2 ? "i16" : sizeof(T) == 4 ? "i32" : "i64";
    else
      return sizeof(T) == 1 ? "u8" : sizeof(T) == 2 ? "u16" : sizeof(T) == 4 ? "u32" : "u64";
  }

  const Entry* entry(std::string_view key) const {
    const auto key_of = [&](std::uint32_t i) { return std::string_view(entries_[i].key); };
    const auto at = std::ranges::lower_bound(order_, key, {}, key_of);
    return at != order_.end() && key_of(*at) == key ? &entries_[*at] : nullptr;
  }

  template <class T>
  Result<T> convert(const Entry& e) const {
    if constexpr (std::same_as<T, std::string> || std::same_as<T, std::string_view>) {
      const auto* text = std::get_if<std::string>(&e.value);
      if (text == nullptr) return mistyped(e, expectation<T>());
      return T(*text);
    } else {
      const auto* scalar = std::get_if<Scalar>(&e.value);
      if (scalar == nullptr) return mistyped(e, expectation<T>());
      if constexpr (std::same_as<T, bool>) {
        if (scalar->type != ValueType::bool_) return mistyped(e, expectation<T>());
        return scalar->bits != 0;
      } else if constexpr (std::integral<T>) {
        if (!is_integer(scalar->type)) return mistyped(e, expectation<T>());
        if (!scalar->fits<T>()) return mistyped(e, expectation<T>(), ", which is out of range");
        return is_signed_integer(scalar->type) ? static_cast<T>(scalar->as_signed()) : static_cast<T>(scalar->bits);
      } else {
        if (!is_float(scalar->type)) return mistyped(e, expectation<T>());
        const double value = scalar->as_double();
        if (!std::isfinite(value)) return mistyped(e, expectation<T>(), ", which is not finite");
        if (std::same_as<T, float> && std::abs(value) > kLargestFloat)
          return mistyped(e, expectation<T>(), ", which is out of range");
        return static_cast<T>(value);
      }
    }
  }

  Error error(const Entry& e, std::string message) const { return error_at(e.key, std::move(message)); }
  Error missing(std::string_view key, std::string_view expected) const {
    return error_at(key, "required metadata key is missing (expected " + std::string(expected) + ")");
  }
  Error mistyped(const Entry& e, std::string_view expected, std::string_view why = {}) const {
    std::string found(name_of(type_of(e)));
    if (const auto element = element_of(e))
      found = std::to_string(count_of(e)) + " values of " + std::string(name_of(*element)) + " in an array";
    else
      found += " " + value_text(e, 40);
    return error(e, "expected " + std::string(expected) + ", found " + found + std::string(why));
  }

  static ValueType type_of(const Entry& e) {
    if (const auto* scalar = std::get_if<Scalar>(&e.value)) return scalar->type;
    return std::holds_alternative<std::string>(e.value) ? ValueType::string : ValueType::array;
  }
  static std::optional<ValueType> element_of(const Entry& e) {
    if (std::holds_alternative<StringArray>(e.value)) return ValueType::string;
    if (const auto* numbers = std::get_if<NumberArray>(&e.value)) return numbers->element;
    if (std::holds_alternative<NestedArray>(e.value)) return ValueType::array;
    return std::nullopt;
  }
  static std::uint64_t count_of(const Entry& e) {
    if (const auto* strings = std::get_if<StringArray>(&e.value)) return strings->size();
    if (const auto* numbers = std::get_if<NumberArray>(&e.value)) return numbers->size();
    if (const auto* nested = std::get_if<NestedArray>(&e.value)) return nested->count;
    return 1;
  }
  static std::string value_text(const Entry& e, std::size_t most_chars) {
    if (const auto* scalar = std::get_if<Scalar>(&e.value)) return scalar->text();
    if (const auto* text = std::get_if<std::string>(&e.value)) return quoted(*text, most_chars);
    const std::uint64_t count = count_of(e);
    if (std::holds_alternative<NestedArray>(e.value)) return "[" + std::to_string(count) + " arrays]";
    std::string out = "[";
    for (std::size_t i = 0; i < count && i < kShownElements; ++i) {
      if (i != 0) out += ", ";
      if (const auto* strings = std::get_if<StringArray>(&e.value))
        out += quoted((*strings)[i], most_chars / kShownElements);
      else
        out += std::get<NumberArray>(e.value)[i].text();
    }
    return out + (count > kShownElements ? ", ...]" : "]");
  }

  std::string file_;
  std::vector<Entry> entries_;        // in file order
  std::vector<std::uint32_t> order_;  // entries_ by key
};

}  // namespace coli::gguf
