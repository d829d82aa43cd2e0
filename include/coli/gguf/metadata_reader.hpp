// SPDX-License-Identifier: Apache-2.0
// How do metadata bytes become values? One pass, nothing trusted: counts and lengths are held against the bytes left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coli/core/error.hpp"
#include "coli/gguf/cursor.hpp"
#include "coli/gguf/metadata.hpp"
#include "coli/gguf/printable.hpp"
#include "coli/gguf/value_type.hpp"

namespace coli::gguf {

inline constexpr std::uint64_t kMaxKeyBytes = 65535;               // GGUF's own limit
inline constexpr std::uint64_t kMaxMetadataKeys = 1 << 18;         // ours: bounds the memory that tiny entries take
inline constexpr std::uint64_t kMinMetadataBytes = 8 + 1 + 4 + 1;  // length, one byte of key, type, one byte of value

/// Reads the key-value section.
class MetadataReader {
 public:
  MetadataReader(Cursor& cursor, std::string file) : cursor_(&cursor), file_(std::move(file)) {}

  /// Errors: bad_input naming the key; io.
  Result<Metadata> read(std::uint64_t count) {
    std::vector<Metadata::Entry> entries;
    for (std::uint64_t i = 0; i < count; ++i) {
      COLI_CHECK(read_entry(i, entries));
    }
    return Metadata::from_entries(std::move(entries), file_);
  }

 private:
  // Arrays in arrays: deeper than this has no use, and the recursion needs a bound.
  static constexpr int kMaxNesting = 5;

  Result<void> read_entry(std::uint64_t index, std::vector<Metadata::Entry>& entries) {
    Metadata::Entry entry;
    const std::string which = "metadata entry " + std::to_string(index);
    std::uint64_t length = 0;
    if (!cursor_->read(length)) return truncated(which + ", key length");
    if (length == 0) return bad(which + " has an empty key");
    if (length > kMaxKeyBytes)
      return bad(which + " has a key of " + std::to_string(length) + " bytes; GGUF allows " +
                 std::to_string(kMaxKeyBytes));
    if (!cursor_->append(entry.key, length)) return truncated(which + ", key");
    for (const char c : entry.key)
      if (c < 0x20 || c > 0x7E) return bad("metadata key holds bytes that are not printable ASCII", entry.key);
    std::uint32_t type = 0;
    if (!cursor_->read(type)) return truncated("value type", entry.key);
    COLI_CHECK(check_type(type, entry.key));
    COLI_CHECK(read_value(static_cast<ValueType>(type), entry));
    entries.push_back(std::move(entry));
    return {};
  }

  Result<void> check_type(std::uint32_t type, const std::string& key) const {
    if (type < kValueTypes) return {};
    return bad(
        "unknown metadata value type " + std::to_string(type) + "; GGUF knows 0 to " + std::to_string(kValueTypes - 1),
        key);
  }

  Result<void> read_value(ValueType type, Metadata::Entry& entry) {
    if (type == ValueType::array) return read_array(entry);
    if (type == ValueType::string) {
      std::string text;
      COLI_CHECK(read_string(text, "string value", entry.key));
      entry.value = std::move(text);
      return {};
    }
    Scalar scalar{type, 0};
    // Little-endian: the low bytes of `bits` are the value's bytes.
    if (!cursor_->copy(std::as_writable_bytes(std::span(&scalar.bits, 1)).first(size_of(type))))
      return truncated("value of type " + std::string(name_of(type)), entry.key);
    if (type == ValueType::bool_ && scalar.bits > 1)
      return bad("bool value is " + std::to_string(scalar.bits) + "; only 0 and 1 are bools", entry.key);
    entry.value = scalar;
    return {};
  }

  Result<void> read_string(std::string& onto, std::string_view what, const std::string& key) {
    std::uint64_t length = 0;
    if (!cursor_->read(length)) return truncated(std::string(what) + " length", key);
    if (!cursor_->append(onto, length)) return truncated(what, key);
    return {};
  }

  struct ArrayHead {
    ValueType element = ValueType::u8;
    std::uint64_t count = 0;
  };

  Result<ArrayHead> read_array_head(const std::string& key) {
    std::uint32_t element = 0;
    ArrayHead head;
    if (!cursor_->read(element)) return truncated("array element type", key);
    COLI_CHECK(check_type(element, key));
    if (!cursor_->read(head.count)) return truncated("array length", key);
    head.element = static_cast<ValueType>(element);
    // The least an element takes: strings have a length, arrays a type and a length.
    const std::uint64_t least = head.element == ValueType::string  ? 8
                                : head.element == ValueType::array ? 12
                                                                   : size_of(head.element);
    if (head.count > cursor_->remaining() / least)
      return bad("array claims " + std::to_string(head.count) + " values of " + std::string(name_of(head.element)) +
                     ", but the remaining " + std::to_string(cursor_->remaining()) + " bytes hold at most " +
                     std::to_string(cursor_->remaining() / least) + ": truncated or corrupt file",
                 key);
    return head;
  }

  Result<void> read_array(Metadata::Entry& entry) {
    COLI_TRY(head, read_array_head(entry.key));
    if (head.element == ValueType::array) {
      entry.value = NestedArray{head.count};
      return skip_arrays(head.count, entry.key, 2);
    }
    if (head.element == ValueType::string) {
      StringArray strings;
      strings.reserve(static_cast<std::size_t>(head.count));
      for (std::uint64_t i = 0; i < head.count; ++i) {
        std::uint64_t length = 0;
        if (!cursor_->read(length) || !cursor_->append(strings.blob(), length))
          return truncated("string " + std::to_string(i) + " of " + std::to_string(head.count), entry.key);
        strings.end_string();
      }
      entry.value = std::move(strings);
      return {};
    }
    NumberArray numbers{head.element, {}};
    numbers.raw.resize(static_cast<std::size_t>(head.count) * size_of(head.element));
    if (!cursor_->copy(numbers.raw)) return truncated("array of " + std::string(name_of(head.element)), entry.key);
    if (head.element == ValueType::bool_)
      for (std::size_t i = 0; i < numbers.raw.size(); ++i)
        if (numbers.raw[i] > std::byte{1})
          return bad("bool " + std::to_string(i) + " of the array is " +
                         std::to_string(std::to_integer<int>(numbers.raw[i])) + "; only 0 and 1 are bools",
                     entry.key);
    entry.value = std::move(numbers);
    return {};
  }

  /// Checks and passes over `count` arrays at nesting level `depth`.
  Result<void> skip_arrays(std::uint64_t count, const std::string& key, int depth) {
    if (depth > kMaxNesting) return bad("arrays nested more than " + std::to_string(kMaxNesting) + " deep", key);
    for (std::uint64_t i = 0; i < count; ++i) {
      COLI_TRY(head, read_array_head(key));
      if (head.element == ValueType::array) {
        COLI_CHECK(skip_arrays(head.count, key, depth + 1));
      } else if (head.element == ValueType::string) {
        for (std::uint64_t s = 0; s < head.count; ++s) {
          std::uint64_t length = 0;
          if (!cursor_->read(length) || !cursor_->skip(length)) return truncated("string in a nested array", key);
        }
      } else if (!cursor_->skip(head.count * size_of(head.element))) {
        return truncated("nested array", key);
      }
    }
    return {};
  }

  Error bad(std::string message, std::string_view key = {}) const {
    return {Errc::bad_input, std::move(message), printable(key), file_};
  }
  Error truncated(std::string_view what, std::string_view key = {}) const {
    return cursor_->failure(what, printable(key)).in_file(file_);
  }

  Cursor* cursor_;
  std::string file_;
};

}  // namespace coli::gguf
