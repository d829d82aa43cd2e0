// SPDX-License-Identifier: Apache-2.0
// How do the trunk's tensors get from the file to where they stay? In pieces, by several threads, past the page cache.
//
// One thread that reads and lays out by turns leaves the disk idle half of the time: of what a start from a cold disk
// takes, the trunk was a third for an eighth of the bytes.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "coli/core/error.hpp"
#include "coli/gguf/byte_source.hpp"
#include "coli/model/tensors.hpp"
#include "coli/quant/format.hpp"
#include "coli/quant/matrix.hpp"

namespace coli {

template <class Backend>
class TrunkReader {
 public:
  /// Reads through `staging`, a share of it each thread. With more than one, the backend's `place` and `write` are called
  /// from all of them.
  TrunkReader(std::span<gguf::ByteSource> sources, Backend& backend, std::span<std::byte> staging, unsigned n_threads)
      : sources_(sources), backend_(backend), staging_(staging), n_threads_(std::max(n_threads, 1U)) {
    share_ = staging.size() / n_threads_ / gguf::ByteSource::kDirectBlock * gguf::ByteSource::kDirectBlock;
  }

  /// A vector becomes f32. `to` may be memory of a device.
  void add_vector(const TensorRef& ref, std::byte* to) { pieces_.push_back({ref, to, Layout::plain, 0, 1, true, passes(ref)}); }
  /// A matrix gets its layout, by pieces of whole row tiles.
  void add_matrix(const TensorRef& ref, Layout layout, std::byte* to) {
    constexpr std::uint64_t kRowTile = Backend::KernelSet::kRowTile, kSlack = 2 * gguf::ByteSource::kDirectBlock;
    const std::uint64_t stride = row_bytes(ref.format, ref.n_cols);
    const std::uint64_t room = share_ > kSlack ? share_ - kSlack : 0;
    const std::uint64_t step = std::max(room / stride / kRowTile, std::uint64_t{1}) * kRowTile;
    const bool passing = passes(ref);
    for (std::uint64_t first = 0; first < ref.n_rows; first += step)
      pieces_.push_back({ref, to + first * stride, layout, static_cast<std::uint32_t>(first),
                         static_cast<std::uint32_t>(std::min<std::uint64_t>(step, ref.n_rows - first)), false, passing});
  }

  /// Reads all that was added. Errors: io, with file and offset: the first in the file's order of those that were met.
  Result<void> run() {
    std::vector<std::thread> helpers;
    for (unsigned i = 1; i < n_threads_; ++i) helpers.emplace_back([this, i] { work(staging_.subspan(i * share_, share_)); });
    work(staging_.first(share_));
    for (std::thread& helper : helpers) helper.join();
    if (error_) return *std::move(error_);
    return {};
  }

 private:
  struct Piece {
    TensorRef ref;
    std::byte* to;
    Layout layout;
    std::uint32_t first, n;  // rows
    bool is_vector;
    bool passing;  // not in the page cache before, so not afterwards
  };

  bool passes(const TensorRef& ref) const {
    const gguf::ByteSource& source = sources_[ref.info->file];
    if (source.cached(ref.info->offset, ref.info->bytes)) return false;
    // Read-ahead of the header may have left a mark here, and each mark that is met reads ahead and leaves another.
    source.forget(ref.info->offset, ref.info->bytes);
    return true;
  }

  void work(std::span<std::byte> buffer) {
    std::vector<std::byte> wide;  // rows so long that a tile of them outgrows the buffer
    for (;;) {
      const std::size_t i = next_.fetch_add(1, std::memory_order_relaxed);
      if (i >= pieces_.size()) return;
      const std::uint64_t bytes = row_bytes(pieces_[i].ref.format, pieces_[i].ref.n_cols) * pieces_[i].n;
      if (bytes > buffer.size()) wide.resize(std::max<std::size_t>(wide.size(), bytes));
      auto done = read(pieces_[i], bytes, bytes > buffer.size() ? std::span(wide) : buffer);
      if (done) continue;
      next_.store(pieces_.size(), std::memory_order_relaxed);  // nobody begins another
      const std::lock_guard lock(mutex_);
      if (error_ && failed_ < i) return;
      failed_ = i;
      error_ = std::move(done).error();
      error_->subject = pieces_[i].ref.info->name;
      return;
    }
  }

  Result<void> read(const Piece& piece, std::uint64_t bytes, std::span<std::byte> buffer) {
    const TensorRef& ref = piece.ref;
    const gguf::ByteSource& source = sources_[ref.info->file];
    const std::uint64_t offset = ref.info->offset + row_bytes(ref.format, ref.n_cols) * piece.first;
    COLI_TRY(rows, piece.passing ? source.read_past_cache(offset, bytes, buffer) : source.read_cached(offset, bytes, buffer));
    if (!piece.is_vector) return backend_.place(ref.format, piece.layout, rows, piece.n, ref.n_cols, piece.to);
    std::vector<float> values(ref.n_cols);
    visit_format(ref.format, [&]<class F>() {
      for (std::uint32_t b = 0; b < ref.n_cols / F::kValuesPerBlock; ++b)
        F::decode(rows + b * F::kBytesPerBlock, values.data() + b * F::kValuesPerBlock);
    });
    return backend_.write(piece.to, reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(float));
  }

  std::span<gguf::ByteSource> sources_;
  Backend& backend_;
  std::span<std::byte> staging_;
  unsigned n_threads_;
  std::size_t share_;
  std::vector<Piece> pieces_;
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;
  std::optional<Error> error_;
  std::size_t failed_ = 0;
};

}  // namespace coli
