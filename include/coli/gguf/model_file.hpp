// SPDX-License-Identifier: Apache-2.0
// A model on disk, opened: metadata, tensors and the files they lie in, all verified, no tensor data read.
//
// One GGUF file or a split set (from any of its shards), on disk or in memory. Immutable once open; reading from
// several threads is safe. File handles are closed again: stores open their own from `shards()`.
#pragma once

#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coli/core/error.hpp"
#include "coli/gguf/byte_source.hpp"
#include "coli/gguf/header.hpp"
#include "coli/gguf/metadata.hpp"
#include "coli/gguf/split.hpp"
#include "coli/gguf/tensor_info.hpp"

namespace coli::gguf {

/// A file held in memory by someone else, under the name that errors (and split sets) know it by.
struct MemoryFile {
  std::string name;
  std::span<const std::byte> bytes;
};

class ModelFile {
 public:
  struct Shard {
    std::string path;
    std::uint64_t size = 0;          // of the whole file, also of what is missing
    std::uint64_t missing = 0;       // bytes that the file lacks at its end; not 0 only after open(..., may_be_missing)
    std::uint32_t version = 0;
    std::uint64_t alignment = 0;
    std::uint64_t data_offset = 0;
    std::span<const std::byte> memory;  // the whole file where it lives in memory, otherwise empty
  };

  /// Opens the file at `path`, and its siblings if it is a shard. Errors: io (missing, unreadable); bad_input, with
  /// file and tensor or key. With Data::may_be_missing a header is enough: `missing_bytes()` says what isn't there.
  static Result<ModelFile> open(const std::string& path, Data data = Data::present) {
    return assemble(
        path, [](const std::string& name) { return ByteSource::open(name); },
        [](const std::string& name) {
          struct stat info {};
          return ::stat(name.c_str(), &info) == 0;
        },
        data);
  }

  /// The same for one file in memory, which must outlive the ModelFile. Errors: bad_input.
  static Result<ModelFile> parse(std::span<const std::byte> bytes, std::string name) {
    const MemoryFile file{std::move(name), bytes};
    return parse(std::span(&file, 1), file.name);
  }

  /// The same for a split set in memory, opened from the shard called `path`. Errors: bad_input; io where `files` lacks
  /// one.
  static Result<ModelFile> parse(std::span<const MemoryFile> files, const std::string& path) {
    const auto named = [files](const std::string& name) { return std::ranges::find(files, name, &MemoryFile::name); };
    return assemble(
        path,
        [&](const std::string& name) -> Result<ByteSource> {
          const auto at = named(name);
          if (at == files.end()) return Error{Errc::io, "no such file in memory", {}, name};
          return ByteSource::over(at->bytes);
        },
        [&](const std::string& name) { return named(name) != files.end(); }, Data::present);
  }

  /// The first shard's.
  const Metadata& metadata() const noexcept { return metadata_; }
  /// All shards', in file order.
  std::span<const TensorInfo> tensors() const noexcept { return tensors_; }
  std::span<const Shard> shards() const noexcept { return shards_; }
  /// Bytes read to open, over all shards: at most one window (64 KiB) and 32 bytes a shard beyond the headers
  /// themselves.
  std::uint64_t header_bytes_read() const noexcept { return header_bytes_read_; }

  /// Bytes of the set's files together, and those of them that are not there.
  std::uint64_t total_bytes() const noexcept {
    std::uint64_t sum = 0;
    for (const Shard& shard : shards_) sum += shard.size;
    return sum;
  }
  std::uint64_t missing_bytes() const noexcept {
    std::uint64_t sum = 0;
    for (const Shard& shard : shards_) sum += shard.missing;
    return sum;
  }

  /// The tensor of that name, or null. O(log n).
  const TensorInfo* find(std::string_view name) const {
    const auto name_of = [&](std::uint32_t i) { return std::string_view(tensors_[i].name); };
    const auto at = std::ranges::lower_bound(by_name_, name, {}, name_of);
    return at != by_name_.end() && name_of(*at) == name ? &tensors_[*at] : nullptr;
  }

  /// An Error about `tensor`, for readers that find it unacceptable.
  Error error_at(const TensorInfo& tensor, std::string message) const {
    return {Errc::bad_input, std::move(message), printable(tensor.name), shards_[tensor.file].path};
  }

 private:
  struct Part {
    Header header;
    SplitKeys split;
    Shard shard;
    std::uint64_t bytes_read = 0;
  };

  template <class Open>
  static Result<Part> read_part(const std::string& path, Open& open_source, Data data) {
    COLI_TRY(source, open_source(path));
    COLI_TRY(header, read_header(source, path, data));
    COLI_TRY(split, read_split_keys(header.metadata));
    Part part{std::move(header), split, {}, source.bytes_read()};
    const std::uint64_t size = std::max(source.size(), part.header.data_end);
    part.shard = {path,          size, size - source.size(), part.header.version, part.header.alignment, part.header.data_offset,
                  source.memory()};
    return part;
  }

  template <class Open, class Exists>
  static Result<ModelFile> assemble(const std::string& path, Open open_source, Exists exists, Data data) {
    COLI_TRY(opened, read_part(path, open_source, data));
    const auto name = parse_split_name(path);
    COLI_CHECK(check_place(opened, name));
    ModelFile model;
    if (!opened.split.split()) {
      model.add(std::move(opened));
      COLI_CHECK(model.index());
      return model;
    }
    // All siblings must be there before any of them is read.
    for (std::uint32_t number = 1; number <= name->count; ++number)
      if (const std::string shard = name->path(number); !exists(shard))
        return Error{Errc::io,
                     "shard " + std::to_string(number) + " of " + std::to_string(name->count) +
                         " is missing: this split set needs all of them in one folder",
                     {},
                     shard};
    std::optional<std::uint64_t> n_tensors = opened.split.n_tensors;
    for (std::uint32_t number = 1; number <= name->count; ++number) {
      if (number == name->number) {
        model.add(std::move(opened));
        continue;
      }
      const std::string shard = name->path(number);
      COLI_TRY(part, read_part(shard, open_source, data));
      COLI_CHECK(check_place(part, parse_split_name(shard)));
      const auto& told = part.split.n_tensors;
      if (told && n_tensors && *told != *n_tensors)
        return part.header.metadata.error_at(kSplitTensors, "the set has " + std::to_string(*told) +
                                                                " tensors, but another shard says " +
                                                                std::to_string(*n_tensors) + ": wrong file in the set");
      if (told) n_tensors = told;
      model.add(std::move(part));
    }
    if (!n_tensors) return model.metadata_.error_at(kSplitTensors, "required metadata key is missing (expected u64)");
    if (*n_tensors != model.tensors_.size())
      return model.metadata_.error_at(kSplitTensors, "the set should have " + std::to_string(*n_tensors) +
                                                         " tensors, but its shards hold " +
                                                         std::to_string(model.tensors_.size()));
    COLI_CHECK(model.index());
    return model;
  }

  /// Does a file's name agree with its split keys?
  static Result<void> check_place(const Part& part, const std::optional<SplitName>& name) {
    const auto bad = [&](std::string_view key, std::string message) -> Result<void> {
      return Error{Errc::bad_input, std::move(message), std::string(key), part.shard.path};
    };
    const SplitKeys& keys = part.split;
    if (!keys.split()) {
      if (part.header.metadata.contains("general.split_count"))
        return bad("general.split_count",
                   "split with the keys that GGUF had before split.count; split or convert it again");
      if (!name || name->count <= 1) return {};
      return bad(kSplitCount, "the name says shard " + std::to_string(name->number) + " of " +
                                  std::to_string(name->count) + ", but the file is not part of a split set");
    }
    const std::string place = "shard " + std::to_string(*keys.number + 1) + " of " + std::to_string(keys.count);
    if (!name)
      return bad(kSplitCount, "this is " + place +
                                  ", but its name does not end in -00001-of-00002.gguf style, so the others "
                                  "cannot be found; restore the name, or merge the set with llama-gguf-split --merge");
    if (name->count != keys.count || name->number != *keys.number + 1)
      return bad(kSplitNumber, "the name says shard " + std::to_string(name->number) + " of " +
                                   std::to_string(name->count) + ", but the file is " + place +
                                   ": wrong file in the set");
    return {};
  }

  void add(Part part) {
    const auto file = static_cast<std::uint32_t>(shards_.size());
    if (file == 0) metadata_ = std::move(part.header.metadata);
    for (TensorInfo& tensor : part.header.tensors) {
      tensor.file = file;
      tensors_.push_back(std::move(tensor));
    }
    shards_.push_back(std::move(part.shard));
    header_bytes_read_ += part.bytes_read;
  }

  /// Sorts names for find(). Errors: bad_input, for a tensor that two shards hold.
  Result<void> index() {
    by_name_.resize(tensors_.size());
    std::iota(by_name_.begin(), by_name_.end(), 0u);
    const auto name_of = [&](std::uint32_t i) -> const std::string& { return tensors_[i].name; };
    std::ranges::stable_sort(by_name_, {}, name_of);
    const auto twin = std::ranges::adjacent_find(by_name_, {}, name_of);
    if (twin == by_name_.end()) return {};
    return error_at(tensors_[*(twin + 1)], "tensor is also in " + shards_[tensors_[*twin].file].path);
  }

  Metadata metadata_;
  std::vector<TensorInfo> tensors_;
  std::vector<std::uint32_t> by_name_;
  std::vector<Shard> shards_;
  std::uint64_t header_bytes_read_ = 0;
};

}  // namespace coli::gguf
