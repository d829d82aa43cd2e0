// SPDX-License-Identifier: Apache-2.0
// Which tensors does a file declare, and do they fit it? Reads the records, then verifies every range; data is not
// read.
//
// All sums and products are checked: a dimension of 2^42 + 1 must not wrap into something plausible. O(n log n).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coli/core/error.hpp"
#include "coli/gguf/cursor.hpp"
#include "coli/gguf/printable.hpp"
#include "coli/gguf/tensor_info.hpp"

namespace coli::gguf {

inline constexpr std::uint64_t kMaxTensorNameBytes = 64;  // GGUF's own limit
inline constexpr std::uint64_t kMaxTensors = 1 << 18;     // ours: five times 61 layers of 256 unstacked experts
inline constexpr std::uint64_t kMinTensorBytes =
    8 + 1 + 4 + 4 + 8;  // name length, one byte of name, dims, type, offset

/// `value` rounded up to a multiple of `alignment` (a power of two); nothing where that passes 64 bits.
constexpr std::optional<std::uint64_t> aligned_up(std::uint64_t value, std::uint64_t alignment) {
  std::uint64_t sum = 0;
  if (__builtin_add_overflow(value, alignment - 1, &sum)) return std::nullopt;
  return sum & ~(alignment - 1);
}

/// Must the tensors' data be in the file? A plan can be made from a header before the rest is downloaded.
enum class Data : std::uint8_t { present, may_be_missing };

/// Reads and verifies the tensor records of one file.
class TensorReader {
 public:
  TensorReader(Cursor& cursor, std::string file) : cursor_(&cursor), file_(std::move(file)) {}

  /// The records as declared; offsets still count from the start of the data section. Errors: bad_input naming the
  /// tensor; io.
  Result<std::vector<TensorInfo>> read(std::uint64_t count) {
    std::vector<TensorInfo> tensors;
    for (std::uint64_t i = 0; i < count; ++i) {
      COLI_TRY(tensor, read_record(i));
      tensors.push_back(std::move(tensor));
    }
    return tensors;
  }

  /// Makes offsets absolute and holds them against alignment, file size and each other. Returns where the data ends.
  Result<std::uint64_t> place(std::vector<TensorInfo>& tensors, std::uint64_t data_offset, std::uint64_t alignment,
                              std::uint64_t file_size, Data data = Data::present) const {
    COLI_CHECK(check_unique(tensors));
    std::uint64_t data_end = data_offset;
    for (TensorInfo& t : tensors) {
      if (t.offset % alignment != 0)
        return bad("data offset " + std::to_string(t.offset) + " is not a multiple of the alignment " +
                       std::to_string(alignment),
                   t.name);
      std::uint64_t begin = 0;
      std::uint64_t end = 0;
      if (__builtin_add_overflow(data_offset, t.offset, &begin) || __builtin_add_overflow(begin, t.bytes, &end))
        return bad("data offset " + std::to_string(t.offset) + " passes 64 bits", t.name);
      if (end > file_size && data == Data::present)
        return bad("its " + std::to_string(t.bytes) + " bytes of data end at byte " + std::to_string(end) +
                       ", but the file has only " + std::to_string(file_size) + ": truncated or corrupt file",
                   t.name);
      t.offset = begin;
      data_end = std::max(data_end, end);
    }
    COLI_CHECK(check_disjoint(tensors));
    // Writers pad the last tensor too (or stop right behind its data): an end inside that padding is a cut.
    const auto padded = aligned_up(data_end, alignment);
    if (data == Data::present && !tensors.empty() && padded && file_size > data_end && file_size < *padded)
      return bad("the file ends inside the padding behind its last tensor, at byte " + std::to_string(file_size) +
                 " of " + std::to_string(*padded) + ": truncated file");
    return data_end;
  }

 private:
  Result<TensorInfo> read_record(std::uint64_t index) {
    const std::string which = "tensor record " + std::to_string(index);
    TensorInfo tensor;
    std::uint64_t length = 0;
    if (!cursor_->read(length)) return truncated(which + ", name length");
    if (length == 0) return bad(which + " has an empty name");
    if (length > kMaxTensorNameBytes)
      return bad(which + " has a name of " + std::to_string(length) + " bytes; GGUF allows " +
                 std::to_string(kMaxTensorNameBytes));
    if (!cursor_->append(tensor.name, length)) return truncated(which + ", name");
    COLI_CHECK(check_name(tensor.name));
    if (!cursor_->read(tensor.n_dims)) return truncated("number of dimensions", tensor.name);
    if (tensor.n_dims > kMaxDims)
      return bad(
          "has " + std::to_string(tensor.n_dims) + " dimensions; at most " + std::to_string(kMaxDims) + " are possible",
          tensor.name);
    for (std::uint32_t i = 0; i < tensor.n_dims; ++i)
      if (!cursor_->read(tensor.dims[i])) return truncated("dimension " + std::to_string(i), tensor.name);
    if (!cursor_->read(tensor.type_id)) return truncated("type id", tensor.name);
    if (!cursor_->read(tensor.offset)) return truncated("data offset", tensor.name);
    COLI_CHECK(size_tensor(tensor));
    return tensor;
  }

  Result<void> check_name(const std::string& name) const {
    for (std::string_view rest = name; !rest.empty();) {
      const std::size_t n = utf8_length(rest);
      const auto lead = static_cast<unsigned char>(rest.front());
      if (n == 0 || lead < 0x20 || lead == 0x7F)
        return bad("tensor name holds control characters or malformed UTF-8", name);
      rest.remove_prefix(n);
    }
    return {};
  }

  /// Joins the type and derives `bytes`.
  Result<void> size_tensor(TensorInfo& t) const {
    t.type = find_tensor_type(t.type_id);
    if (t.type == nullptr)
      return bad("unknown tensor type id " + std::to_string(t.type_id) + "; known are 0 to " +
                     std::to_string(kTensorTypes.size() - 1) + " (a newer or forked writer?)",
                 t.name);
    if (t.type->removed())
      return bad("tensor type id " + std::to_string(t.type_id) + " (" + std::string(t.type->name) +
                     ") was withdrawn from GGUF; convert the model again",
                 t.name);
    std::uint64_t values = 1;
    for (std::uint32_t i = 0; i < t.n_dims; ++i) {
      if (t.dims[i] == 0) return bad("dimension " + std::to_string(i) + " of " + t.shape_text() + " is zero", t.name);
      if (__builtin_mul_overflow(values, t.dims[i], &values) || values > kMaxValues)
        return bad("shape " + t.shape_text() + " has more than 2^63 - 1 values", t.name);
    }
    if (t.dims[0] % t.type->values_per_block != 0)
      return bad("row length " + std::to_string(t.dims[0]) + " is not a multiple of " + std::string(t.type->name) +
                     "'s block of " + std::to_string(t.type->values_per_block) + " values",
                 t.name);
    if (__builtin_mul_overflow(values / t.type->values_per_block, std::uint64_t{t.type->bytes_per_block}, &t.bytes))
      return bad("shape " + t.shape_text() + " of " + std::string(t.type->name) + " takes more than 2^64 bytes",
                 t.name);
    return {};
  }

  Result<void> check_unique(const std::vector<TensorInfo>& tensors) const {
    std::vector<std::uint32_t> order(tensors.size());
    std::iota(order.begin(), order.end(), 0u);
    const auto name_of = [&](std::uint32_t i) -> const std::string& { return tensors[i].name; };
    std::ranges::stable_sort(order, {}, name_of);
    const auto twin = std::ranges::adjacent_find(order, {}, name_of);
    if (twin == order.end()) return {};
    return bad(
        "tensor is declared twice (records " + std::to_string(*twin) + " and " + std::to_string(*(twin + 1)) + ")",
        name_of(*twin));
  }

  Result<void> check_disjoint(const std::vector<TensorInfo>& tensors) const {
    std::vector<std::uint32_t> order(tensors.size());
    std::iota(order.begin(), order.end(), 0u);
    std::ranges::stable_sort(order, {}, [&](std::uint32_t i) { return tensors[i].offset; });
    for (std::size_t i = 1; i < order.size(); ++i) {
      const TensorInfo& before = tensors[order[i - 1]];
      const TensorInfo& after = tensors[order[i]];
      if (before.offset + before.bytes > after.offset)
        return bad(
            "its data " + range_text(after) + " overlaps tensor " + printable(before.name) + "'s " + range_text(before),
            after.name);
    }
    return {};
  }

  static std::string range_text(const TensorInfo& t) {
    return "[" + std::to_string(t.offset) + ", " + std::to_string(t.offset + t.bytes) + ")";
  }

  Error bad(std::string message, std::string_view tensor = {}) const {
    return {Errc::bad_input, std::move(message), printable(tensor), file_};
  }
  Error truncated(std::string_view what, std::string_view tensor = {}) const {
    return cursor_->failure(what, printable(tensor)).in_file(file_);
  }

  static constexpr std::uint64_t kMaxValues = std::numeric_limits<std::int64_t>::max();

  Cursor* cursor_;
  std::string file_;
};

}  // namespace coli::gguf
