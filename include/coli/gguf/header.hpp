// SPDX-License-Identifier: Apache-2.0
// What does one GGUF file hold? Reads and verifies everything before its tensor data.
//
// Layout: magic, version, two counts, metadata, tensor records, padding, data. Nothing past the header is read but what
// the last 64 KiB window happens to hold and the four bytes behind the data (is another file glued on?).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coli/core/error.hpp"
#include "coli/gguf/byte_source.hpp"
#include "coli/gguf/cursor.hpp"
#include "coli/gguf/metadata.hpp"
#include "coli/gguf/metadata_reader.hpp"
#include "coli/gguf/printable.hpp"
#include "coli/gguf/tensor_info.hpp"
#include "coli/gguf/tensor_reader.hpp"

namespace coli::gguf {

inline constexpr std::string_view kMagic = "GGUF";
inline constexpr std::uint64_t kDefaultAlignment = 32;

/// One file's header. Tensors carry file 0; a split set renumbers them.
struct Header {
  std::uint32_t version = 0;
  std::uint64_t alignment = kDefaultAlignment;
  std::uint64_t data_offset = 0;
  std::uint64_t data_end = 0;  // behind the last tensor's data, or data_offset
  Metadata metadata;
  std::vector<TensorInfo> tensors;
};

namespace detail {

/// The file starts with `head`, which is not GGUF's magic: what is it, and what would help?
inline std::string describe_foreign(std::string_view head) {
  struct Kind {
    std::string_view start, advice;
  };
  static constexpr std::array kKinds{
      Kind{"version https://git-lfs", "a Git LFS pointer; fetch the real file with git lfs pull"},
      Kind{"lmgg", "a GGML file from before GGUF; convert the original model again"},
      Kind{"fmgg", "a GGMF file from before GGUF; convert the original model again"},
      Kind{"tjgg", "a GGJT file from before GGUF; convert the original model again"},
      Kind{"FUGG", "GGUF with its magic byte-swapped: wrong endianness"},
      Kind{"PK\x03\x04", "a zip archive or PyTorch checkpoint; convert it to GGUF"},
      Kind{"\x1f\x8b", "gzip data; unpack it first"},
      Kind{"\x28\xb5\x2f\xfd", "zstd data; unpack it first"},
      Kind{"<!", "an HTML page; the download did not give the model"},
      Kind{"<html", "an HTML page; the download did not give the model"},
  };
  for (const Kind& kind : kKinds)
    if (head.starts_with(kind.start)) return "this is " + std::string(kind.advice);
  if (head.size() > 9 && head.substr(8, 1) == "{") return "this looks like safetensors; convert it to GGUF";
  return "expected " + quoted(kMagic);
}

inline Result<void> check_magic(ByteSource& source, const std::string& file) {
  const auto bad = [&](std::string message) { return Error{Errc::bad_input, std::move(message), {}, file}; };
  if (source.size() == 0) return bad("the file is empty; expected a GGUF model");
  std::array<char, 24> head{};
  const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(head.size(), source.size()));
  if (auto done = source.read(0, std::as_writable_bytes(std::span(head)).first(n)); !done)
    return std::move(done).error().in_file(file);
  const std::string_view start(head.data(), n);
  if (start.starts_with(kMagic)) return {};
  if (kMagic.starts_with(start))
    return bad("the file ends inside its magic, after " + std::to_string(n) + " bytes: truncated file");
  return bad("not a GGUF file: it starts with " + quoted(start.substr(0, 4)) + "; " + describe_foreign(start));
}

inline Result<void> check_version(std::uint32_t version, const std::string& file) {
  const auto bad = [&](std::string message) { return Error{Errc::bad_input, std::move(message), {}, file}; };
  if (version == 2 || version == 3) return {};
  // A version small enough to be real, seen through the other byte order.
  const std::uint32_t swapped = __builtin_bswap32(version);
  if (version != 0 && (version & 0xFFFF) == 0)
    return bad("wrong endianness: version reads " + std::to_string(version) + ", which is " + std::to_string(swapped) +
               " in big-endian order; convert the model for little-endian");
  if (version == 1) return bad("GGUF version 1 is not supported; convert the model again (versions 2 and 3 are)");
  return bad("unknown GGUF version " + std::to_string(version) + "; versions 2 and 3 are supported");
}

inline Result<std::uint64_t> read_alignment(const Metadata& metadata) {
  constexpr std::string_view key = "general.alignment";
  COLI_TRY(alignment, metadata.get_or<std::uint64_t>(key, kDefaultAlignment));
  if (!std::has_single_bit(alignment))
    return metadata.error_at(key, "alignment " + std::to_string(alignment) + " is not a power of two");
  return alignment;
}

/// Files joined with cat: the next one's magic stands where this one ends.
inline Result<void> check_nothing_follows(ByteSource& source, std::uint64_t data_end, std::uint64_t alignment,
                                          const std::string& file) {
  for (const auto at : {std::optional(data_end), aligned_up(data_end, alignment)}) {
    if (!at || *at > source.size() || source.size() - *at < kMagic.size()) continue;
    std::array<char, kMagic.size()> here{};
    if (auto done = source.read(*at, std::as_writable_bytes(std::span(here))); !done)
      return std::move(done).error().in_file(file);
    if (std::string_view(here.data(), here.size()) == kMagic)
      return Error{Errc::bad_input,
                   "a second GGUF file begins at byte " + std::to_string(*at) +
                       ": shards joined with cat cannot be read; keep them as separate files, or merge them with "
                       "llama-gguf-split --merge",
                   {},
                   file};
  }
  return {};
}

}  // namespace detail

/// Reads the header of `source`, called `file` in errors. Errors: bad_input naming key or tensor; io.
inline Result<Header> read_header(ByteSource& source, const std::string& file, Data data = Data::present) {
  const auto bad = [&](std::string message) { return Error{Errc::bad_input, std::move(message), {}, file}; };
  COLI_CHECK(detail::check_magic(source, file));
  Cursor cursor(source);
  Header header;
  std::uint64_t n_tensors = 0;
  std::uint64_t n_keys = 0;
  if (!cursor.skip(kMagic.size()) || !cursor.read(header.version)) return cursor.failure("version").in_file(file);
  COLI_CHECK(detail::check_version(header.version, file));
  if (!cursor.read(n_tensors)) return cursor.failure("tensor count").in_file(file);
  if (!cursor.read(n_keys)) return cursor.failure("metadata count").in_file(file);

  const auto check_count = [&](std::string_view what, std::uint64_t count, std::uint64_t least,
                               std::uint64_t most) -> Result<void> {
    const std::uint64_t room = cursor.remaining() / least;
    if (count > room)
      return bad("claims " + std::to_string(count) + " " + std::string(what) + ", but the remaining " +
                 std::to_string(cursor.remaining()) + " bytes hold at most " + std::to_string(room) +
                 ": truncated or corrupt file");
    if (count > most)
      return bad("claims " + std::to_string(count) + " " + std::string(what) + "; at most " + std::to_string(most) +
                 " are supported");
    return {};
  };
  COLI_CHECK(check_count("metadata keys", n_keys, kMinMetadataBytes, kMaxMetadataKeys));
  COLI_CHECK(check_count("tensors", n_tensors, kMinTensorBytes, kMaxTensors));

  COLI_TRY(metadata, MetadataReader(cursor, file).read(n_keys));
  header.metadata = std::move(metadata);
  COLI_TRY(alignment, detail::read_alignment(header.metadata));
  header.alignment = alignment;

  TensorReader reader(cursor, file);
  COLI_TRY(tensors, reader.read(n_tensors));
  header.tensors = std::move(tensors);
  const std::uint64_t header_end = cursor.position();
  const auto data_offset = aligned_up(header_end, alignment);
  if (!data_offset) return bad("general.alignment " + std::to_string(alignment) + " puts the data past 64 bits");
  header.data_offset = *data_offset;
  COLI_TRY(data_end, reader.place(header.tensors, header.data_offset, alignment, source.size(), data));
  header.data_end = data_end;
  COLI_CHECK(detail::check_nothing_follows(source, header.tensors.empty() ? header_end : data_end, alignment, file));
  return header;
}

}  // namespace coli::gguf
