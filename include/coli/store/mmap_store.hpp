// SPDX-License-Identifier: Apache-2.0
// The control arm: files mapped, the kernel decides what stays in memory. A read completes at once, pointing into the
// mapping; the disk is read when the bytes are touched.
//
// Its pages are not bounded by us, so a memory limit can't be promised with it. Sizes are checked at open; a file that
// is cut while mapped kills the process (SIGBUS), which is one reason more not to stream through it.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "coli/contracts/expert_store.hpp"
#include "coli/core/error.hpp"
#include "coli/core/fixed_name.hpp"
#include "coli/core/ids.hpp"
#include "coli/store/expert_index.hpp"
#include "coli/store/memory_store.hpp"
#include "coli/store/model_files.hpp"

namespace coli {

/// A read-only mapping that unmaps itself.
class FileMapping {
 public:
  FileMapping() = default;
  FileMapping(FileMapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  FileMapping& operator=(FileMapping&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~FileMapping() {
    if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }

  /// Errors: io, naming the file: it can't be opened or mapped, or hasn't the size expected.
  static Result<FileMapping> map(const std::string& path, std::uint64_t bytes) {
    const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd) return Error{Errc::io, std::string("can't be opened: ") + std::strerror(errno), "", path};
    const off_t size = ::lseek(fd.get(), 0, SEEK_END);
    if (size < 0 || static_cast<std::uint64_t>(size) != bytes) return size_error(path, size, bytes);
    FileMapping mapping;
    if (bytes == 0) return mapping;
    void* const at = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd.get(), 0);
    if (at == MAP_FAILED) return Error{Errc::io, std::string("can't be mapped: ") + std::strerror(errno), "", path};
    mapping.bytes_ = {static_cast<const std::byte*>(at), bytes};
    return mapping;
  }

  std::span<const std::byte> bytes() const noexcept { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

class MmapStore {
 public:
  static constexpr FixedName name{"mmap"};

  /// The index isn't needed afterwards.
  static Result<std::unique_ptr<MmapStore>> open(const ExpertIndex& index) {
    std::unique_ptr<MmapStore> store(new MmapStore);
    std::vector<std::span<const std::byte>> memory;
    for (const ExpertFile& file : index.files()) {
      COLI_TRY(mapping, FileMapping::map(file.path, file.bytes));
      store->mappings_.push_back(std::move(mapping));
      memory.push_back(store->mappings_.back().bytes());
    }
    store->index_ = index.with_memory(memory);
    return store;
  }

  Result<ReadTicket> submit(ExpertKey key, Part part, std::span<std::byte> destination, Urgency urgency) {
    return mapped_.submit(key, part, destination, urgency);
  }
  std::optional<Completion> poll() { return mapped_.poll(); }
  std::optional<Completion> wait(std::chrono::milliseconds patience) { return mapped_.wait(patience); }
  void cancel(ReadTicket ticket) { mapped_.cancel(ticket); }
  void promote(ReadTicket ticket) { mapped_.promote(ticket); }
  StoreAlignment alignment() const noexcept { return mapped_.alignment(); }

 private:
  MmapStore() = default;

  std::vector<FileMapping> mappings_;
  ExpertIndex index_;
  MemoryStore mapped_{index_};
};
static_assert(require_expert_store<MmapStore>());

}  // namespace coli
