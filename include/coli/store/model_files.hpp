// SPDX-License-Identifier: Apache-2.0
// The model's files, open for reading: sizes checked, direct I/O where the file system offers it.
//
// Alignment of direct I/O comes from statx (STATX_DIOALIGN, Linux 6.1 and later); where the kernel doesn't say, a read
// of 512 bytes is tried, then one of 4096. Each file may turn direct I/O down later, once (then it is read buffered).
#pragma once

#include <fcntl.h>
#include <linux/stat.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "coli/core/error.hpp"
#include "coli/store/expert_index.hpp"
#include "coli/store/part_read.hpp"

namespace coli {

/// A file descriptor that closes itself.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) noexcept : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }

 private:
  int fd_;
};

inline Error size_error(const std::string& path, off_t found, std::uint64_t expected) {
  return Error{Errc::io,
               "has " + std::to_string(found) + " bytes, had " + std::to_string(expected) + " when its header was read",
               "", path};
}

/// What can be said about direct I/O on one open file. `block` is 0 where there is none.
struct DirectAlignment {
  std::uint64_t block = 0;
  std::string how;  // "statx", "probed", or why there is none
};

inline DirectAlignment direct_alignment(int direct_fd) {
#ifdef STATX_DIOALIGN
  struct statx about {};
  if (::syscall(SYS_statx, direct_fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &about) == 0 &&
      (about.stx_mask & STATX_DIOALIGN) != 0) {
    if (about.stx_dio_offset_align == 0) return {0, "the file system has no direct I/O for it"};
    return {std::max<std::uint64_t>({about.stx_dio_offset_align, about.stx_dio_mem_align, 512}), "statx"};
  }
#endif
  void* page = ::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return {0, "no memory to probe with"};
  DirectAlignment found{0, "reads of 512 and 4096 aligned bytes are refused"};
  for (const std::uint64_t block : {std::uint64_t{512}, std::uint64_t{4096}}) {
    // Start at `block`, so that nothing is aligned more than it must be; an empty answer (a tiny file) is one too.
    if (::pread(direct_fd, static_cast<std::byte*>(page) + block % 4096, block, static_cast<off_t>(block)) >= 0) {
      found = {block, "probed"};
      break;
    }
  }
  ::munmap(page, 8192);
  return found;
}

/// All files of the set, each opened buffered and, when asked, direct as well.
class ModelFiles {
 public:
  /// Errors: io, naming the file: it can't be opened, or its size isn't what the index was built from.
  static Result<std::unique_ptr<ModelFiles>> open(const ExpertIndex& index, bool direct) {
    auto files = std::make_unique<ModelFiles>();
    for (const ExpertFile& about : index.files()) {
      auto file = std::make_unique<File>();
      file->path = about.path;
      file->buffered = FileDescriptor(::open(about.path.c_str(), O_RDONLY | O_CLOEXEC));
      if (!file->buffered)
        return Error{Errc::io, std::string("can't be opened: ") + std::strerror(errno), "", about.path};
      const off_t size = ::lseek(file->buffered.get(), 0, SEEK_END);
      if (size < 0 || static_cast<std::uint64_t>(size) != about.bytes) {
        return size_error(about.path, size, about.bytes);
      }
      // Experts are read as wholes and in no order: read-ahead (8 MiB on some disks) would read what nobody asked for.
      (void)::posix_fadvise(file->buffered.get(), 0, 0, POSIX_FADV_RANDOM);
      if (direct) files->open_direct(*file);
      files->files_.push_back(std::move(file));
    }
    return files;
  }

  std::size_t size() const noexcept { return files_.size(); }
  const std::string& path(std::uint32_t file) const noexcept { return files_[file]->path; }
  int buffered_fd(std::uint32_t file) const noexcept { return files_[file]->buffered.get(); }
  int direct_fd(std::uint32_t file) const noexcept { return files_[file]->direct.get(); }

  /// The alignment that reads of this file go by; 0: buffered.
  std::uint64_t block(std::uint32_t file) const noexcept { return files_[file]->block.load(std::memory_order_relaxed); }
  /// The strictest alignment over the files: what destinations are laid out for. Doesn't change after open.
  std::uint64_t largest_block() const noexcept { return largest_block_; }
  bool any_direct() const noexcept { return largest_block_ != 0; }
  StoreAlignment alignment() const noexcept {
    return largest_block_ == 0 ? StoreAlignment{64, 0} : StoreAlignment{largest_block_, 2 * largest_block_};
  }
  /// Can this destination take what a read of that extent brings?
  bool suits(const Extent& at, std::span<const std::byte> destination) const noexcept {
    return destination.size() >= PartRead::cover_bytes(at, block(at.file)) &&
           reinterpret_cast<std::uintptr_t>(destination.data()) % std::max<std::uint64_t>(largest_block_, 1) == 0;
  }

  /// The kernel refused a direct read that should have worked: read this file buffered from now on, say so once.
  void give_up_direct(std::uint32_t file) {
    if (files_[file]->block.exchange(0) != 0)
      note(files_[file]->path + ": direct reads are refused (EINVAL), going on buffered");
  }

  void note(std::string text) {
    const std::lock_guard lock(mutex_);
    notes_.push_back(std::move(text));
  }
  /// What a person should be told: why something slower than asked for is in use.
  std::vector<std::string> notes() const {
    const std::lock_guard lock(mutex_);
    return notes_;
  }

 private:
  struct File {
    std::string path;
    FileDescriptor buffered;
    FileDescriptor direct;
    std::atomic<std::uint64_t> block{0};
  };

  void open_direct(File& file) {
    file.direct = FileDescriptor(::open(file.path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT));
    if (!file.direct) {
      note(file.path + ": no direct reads (" + std::strerror(errno) + "), going on buffered");
      return;
    }
    const DirectAlignment alignment = direct_alignment(file.direct.get());
    if (alignment.block == 0) note(file.path + ": no direct reads (" + alignment.how + "), going on buffered");
    file.block = alignment.block;
    largest_block_ = std::max(largest_block_, alignment.block);
  }

  std::vector<std::unique_ptr<File>> files_;
  std::uint64_t largest_block_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::string> notes_;
};

inline Error destination_error(const ModelFiles& files, ExpertKey key, Part part, Extent at,
                               std::span<const std::byte> destination) {
  return Error{Errc::internal,
               "a destination of " + std::to_string(destination.size()) + " bytes is too small or not aligned for " +
                   std::to_string(at.bytes),
               text_of(key, part), files.path(at.file)};
}

/// The one form of a failed read's error: file, what was read, where, how it failed.
inline Error read_error(const ModelFiles& files, ExpertKey key, Part part, Extent at, const std::string& why) {
  return Error{Errc::io,
               "reading " + std::to_string(at.bytes) + " bytes at offset " + std::to_string(at.offset) + ": " + why,
               text_of(key, part), files.path(at.file)};
}

}  // namespace coli
