// SPDX-License-Identifier: Apache-2.0
// How is a GGUF file made? Metadata and shapes first, then tensor data streamed in order; for fixtures and tests.
//
// Version 3, little-endian. Metadata keeps its order. The file appears under its name only when it is complete: it is
// written beside it and renamed, so a killed writer leaves no half model. Memory: the header, never the data.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

#include "coli/core/error.hpp"
#include "coli/gguf/header.hpp"
#include "coli/gguf/tensor_info.hpp"
#include "coli/gguf/tensor_reader.hpp"
#include "coli/gguf/value_type.hpp"

namespace coli::gguf {

/// The metadata type that stands for a C++ number or bool.
template <class T>
requires std::integral<T> || std::floating_point<T>
constexpr ValueType value_type_of() {
  if constexpr (std::same_as<T, bool>)
    return ValueType::bool_;
  else if constexpr (std::floating_point<T>)
    return sizeof(T) == 4 ? ValueType::f32 : ValueType::f64;
  else if constexpr (sizeof(T) == 1)
    return std::unsigned_integral<T> ? ValueType::u8 : ValueType::i8;
  else if constexpr (sizeof(T) == 2)
    return std::unsigned_integral<T> ? ValueType::u16 : ValueType::i16;
  else if constexpr (sizeof(T) == 4)
    return std::unsigned_integral<T> ? ValueType::u32 : ValueType::i32;
  else
    return std::unsigned_integral<T> ? ValueType::u64 : ValueType::i64;
}

/// Builds one file: set(), declare(), then create(), write() every tensor in declared order, finish().
/// Mistakes in the calls (a key twice, an unknown type, too many bytes) are remembered and returned by create(), or at
/// once from there on. Move-only; an unfinished file is removed by the destructor.
class Writer {
 public:
  explicit Writer(std::uint32_t alignment = kDefaultAlignment) : alignment_(alignment) {
    if (!std::has_single_bit(alignment))
      fail("alignment " + std::to_string(alignment) + " is not a power of two");
    else if (alignment != kDefaultAlignment)
      set("general.alignment", alignment);
  }

  Writer(Writer&& other) noexcept { swap(other); }
  Writer& operator=(Writer&& other) noexcept {
    Writer(std::move(other)).swap(*this);
    return *this;
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer() { discard(); }

  template <class T>
  requires std::integral<T> || std::floating_point<T> Writer& set(std::string_view key, T value) {
    begin_key(key, value_type_of<T>());
    put(metadata_, value);
    return *this;
  }
  Writer& set(std::string_view key, std::string_view text) {
    begin_key(key, ValueType::string);
    put_string(metadata_, text);
    return *this;
  }
  Writer& set(std::string_view key, const char* text) { return set(key, std::string_view(text)); }

  /// Arrays of numbers (from any contiguous range; use span<const bool> for bools) ...
  template <class T>
  requires std::integral<T> || std::floating_point<T> Writer& set_array(std::string_view key,
                                                                        std::span<const T> values) {
    begin_array(key, value_type_of<T>(), values.size());
    const auto bytes = std::as_bytes(values);
    metadata_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return *this;
  }
  template <class T>
  Writer& set_array(std::string_view key, std::initializer_list<T> values) {
    return set_array(key, std::span<const T>(values.begin(), values.size()));
  }
  /// ... and of strings (string, string_view or char pointers).
  template <class Strings>
  requires std::convertible_to<decltype(*std::declval<const Strings&>().begin()), std::string_view> Writer& set_strings(
      std::string_view key, const Strings& strings) {
    begin_array(key, ValueType::string, static_cast<std::uint64_t>(strings.size()));
    for (const auto& text : strings) put_string(metadata_, text);
    return *this;
  }
  Writer& set_strings(std::string_view key, std::initializer_list<std::string_view> strings) {
    return set_strings<std::initializer_list<std::string_view>>(key, strings);
  }

  /// Declares the next tensor: `type` as in kTensorTypes ("Q4_K"), dims in ggml order (row length first).
  Writer& declare(std::string_view name, std::string_view type, std::span<const std::uint64_t> dims) {
    const auto refuse = [&](std::string why) -> Writer& {
      fail(std::move(why), name);
      return *this;
    };
    if (name.empty() || name.size() > kMaxTensorNameBytes) return refuse("tensor names take 1 to 64 bytes");
    if (!names_.insert(std::string(name)).second) return refuse("tensor is declared twice");
    if (dims.size() > kMaxDims) return refuse("a tensor has at most 4 dimensions");
    const TensorType* known = find_tensor_type(type);
    if (known == nullptr) return refuse("unknown tensor type \"" + std::string(type) + "\"");
    TensorInfo tensor;
    tensor.name = name;
    tensor.type_id = known->id;
    tensor.type = known;
    tensor.n_dims = static_cast<std::uint32_t>(dims.size());
    std::uint64_t values = 1;
    for (std::size_t i = 0; i < dims.size(); ++i) {
      tensor.dims[i] = dims[i];
      if (dims[i] == 0 || __builtin_mul_overflow(values, dims[i], &values))
        return refuse("impossible shape " + tensor.shape_text());
    }
    if (tensor.dims[0] % known->values_per_block != 0)
      return refuse("row length " + std::to_string(tensor.dims[0]) + " is not a multiple of " +
                    std::to_string(known->values_per_block));
    std::uint64_t end = 0;
    if (__builtin_mul_overflow(values / known->values_per_block, std::uint64_t{known->bytes_per_block},
                               &tensor.bytes) ||
        __builtin_add_overflow(data_bytes_, tensor.bytes, &end) || !aligned_up(end, alignment_))
      return refuse("impossible shape " + tensor.shape_text());
    tensor.offset = data_bytes_;
    data_bytes_ = *aligned_up(end, alignment_);
    tensors_.push_back(std::move(tensor));
    return *this;
  }
  Writer& declare(std::string_view name, std::string_view type, std::initializer_list<std::uint64_t> dims) {
    return declare(name, type, std::span(dims.begin(), dims.size()));
  }

  /// What has been declared; offsets count from the start of the data.
  std::span<const TensorInfo> tensors() const noexcept { return tensors_; }

  /// The file's bytes up to its data, padding included.
  std::string header() const {
    std::string out(kMagic);
    put(out, std::uint32_t{3});
    put(out, std::uint64_t{tensors_.size()});
    put(out, n_keys_);
    out += metadata_;
    for (const TensorInfo& tensor : tensors_) {
      put_string(out, tensor.name);
      put(out, tensor.n_dims);
      for (std::uint32_t i = 0; i < tensor.n_dims; ++i) put(out, tensor.dims[i]);
      put(out, tensor.type_id);
      put(out, tensor.offset);
    }
    out.append(static_cast<std::size_t>(*aligned_up(out.size(), alignment_) - out.size()), '\0');
    return out;
  }

  /// Starts the file: writes the header beside `path`. Errors: usage (a mistake in what was set); io.
  Result<void> create(const std::string& path) {
    if (broken_) return *broken_;
    if (fd_ >= 0) return Error{Errc::usage, "create() was called before", {}, path};
    path_ = path;
    // Beside the target, because rename works within one file system only; the process id keeps two writers apart.
    temporary_ = path + ".partial." + std::to_string(::getpid());
    fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd_ < 0) return io_error("cannot create");
    const std::string head = header();
    return put_bytes(std::as_bytes(std::span(head)));
  }

  /// Adds bytes to the next unfinished tensor, which must be `name`; pads behind it when it is full. May be called with
  /// parts. Errors: usage (another tensor is next, or more bytes than it has); io.
  Result<void> write(std::string_view name, std::span<const std::byte> bytes) {
    if (fd_ < 0) return Error{Errc::usage, "create() comes before write()", std::string(name)};
    if (next_ == tensors_.size())
      return Error{Errc::usage, "all declared tensors are written", std::string(name), path_};
    const TensorInfo& tensor = tensors_[next_];
    if (tensor.name != name) return Error{Errc::usage, "tensor " + tensor.name + " is next", std::string(name), path_};
    if (bytes.size() > tensor.bytes - written_)
      return Error{Errc::usage,
                   "has " + std::to_string(tensor.bytes) + " bytes, not " + std::to_string(written_ + bytes.size()),
                   tensor.name, path_};
    COLI_CHECK(put_bytes(bytes));
    written_ += bytes.size();
    if (written_ < tensor.bytes) return {};
    const std::uint64_t end = tensor.offset + tensor.bytes;
    const std::vector<std::byte> padding(static_cast<std::size_t>(*aligned_up(end, alignment_) - end));
    COLI_CHECK(put_bytes(padding));
    ++next_;
    written_ = 0;
    return {};
  }
  template <class T>
  requires std::is_trivially_copyable_v<T> &&
      (!std::same_as<T, std::byte>)Result<void> write(std::string_view name, std::span<const T> values) {
    return write(name, std::as_bytes(values));
  }

  /// Completes the file and gives it its name. Errors: usage (a tensor lacks data); io.
  Result<void> finish() {
    if (fd_ < 0) return Error{Errc::usage, "create() comes before finish()"};
    if (next_ != tensors_.size()) return Error{Errc::usage, "tensor lacks data", tensors_[next_].name, path_};
    const int closed = ::close(std::exchange(fd_, -1));
    if (closed != 0 || std::rename(temporary_.c_str(), path_.c_str()) != 0) {
      Error error = io_error("cannot complete");
      discard();
      return error;
    }
    temporary_.clear();
    return {};
  }

 private:
  template <class T>
  static void put(std::string& out, T value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  static void put_string(std::string& out, std::string_view text) {
    put(out, std::uint64_t{text.size()});
    out += text;
  }

  void begin_key(std::string_view key, ValueType type) {
    if (key.empty()) fail("empty metadata key");
    if (!keys_.insert(std::string(key)).second) fail("metadata key is set twice", key);
    put_string(metadata_, key);
    put(metadata_, type);
    ++n_keys_;
  }
  void begin_array(std::string_view key, ValueType element, std::uint64_t count) {
    begin_key(key, ValueType::array);
    put(metadata_, element);
    put(metadata_, count);
  }

  /// Keeps the first mistake.
  void fail(std::string why, std::string_view subject = {}) {
    if (!broken_) broken_ = Error{Errc::usage, std::move(why), std::string(subject)};
  }

  Result<void> put_bytes(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ::ssize_t done = ::write(fd_, bytes.data(), bytes.size());
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) return io_error("cannot write");
      bytes = bytes.subspan(static_cast<std::size_t>(done));
    }
    return {};
  }
  Error io_error(std::string what) const {
    return {Errc::io, std::move(what) + ": " + std::generic_category().message(errno), {}, path_};
  }

  void discard() noexcept {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
    temporary_.clear();
  }
  void swap(Writer& other) noexcept {
    std::swap(alignment_, other.alignment_);
    std::swap(metadata_, other.metadata_);
    std::swap(n_keys_, other.n_keys_);
    std::swap(keys_, other.keys_);
    std::swap(names_, other.names_);
    std::swap(tensors_, other.tensors_);
    std::swap(data_bytes_, other.data_bytes_);
    std::swap(broken_, other.broken_);
    std::swap(path_, other.path_);
    std::swap(temporary_, other.temporary_);
    std::swap(fd_, other.fd_);
    std::swap(next_, other.next_);
    std::swap(written_, other.written_);
  }

  std::uint64_t alignment_ = kDefaultAlignment;
  std::string metadata_;  // serialised
  std::uint64_t n_keys_ = 0;
  std::unordered_set<std::string> keys_;
  std::unordered_set<std::string> names_;
  std::vector<TensorInfo> tensors_;
  std::uint64_t data_bytes_ = 0;
  std::optional<Error> broken_;
  std::string path_;
  std::string temporary_;
  int fd_ = -1;
  std::size_t next_ = 0;       // the tensor that write() is at
  std::uint64_t written_ = 0;  // bytes of it
};

}  // namespace coli::gguf
