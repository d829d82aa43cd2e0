// SPDX-License-Identifier: Apache-2.0
// Where do the bytes of an expert lie? (layer, expert, part) -> extent of one of the model's files.
//
// In a stacked GGUF the gate matrices of a layer's experts follow one another in one tensor, and so do up and down: an
// expert is three extents at a stride. Built once from the tensor table; every extent is checked against its file's
// size here, so that a read can't run past the end later. Immutable afterwards, O(1) look-up, 64-bit throughout.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "coli/contracts/expert_store.hpp"
#include "coli/core/bytes.hpp"
#include "coli/core/error.hpp"
#include "coli/core/ids.hpp"

namespace coli {

/// One file of the model's split set. `memory` spans the whole file where it is in memory already (an embedded model),
/// and is empty otherwise; it must outlive the index.
struct ExpertFile {
  std::string path;
  std::uint64_t bytes;
  std::span<const std::byte> memory{};
};

/// A layer's stacked tensors: the extents of all experts' gate, up and down matrices.
struct ExpertStacks {
  std::array<Extent, kParts> part;
};

class ExpertIndex {
 public:
  ExpertIndex() = default;

  /// `layers` has an entry for each layer of the model, nothing for dense ones. Errors: bad_input, naming layer and
  /// part, where a stack isn't whole experts, is empty, or leaves its file.
  static Result<ExpertIndex> make(std::vector<ExpertFile> files, std::uint32_t n_experts,
                                  std::vector<std::optional<ExpertStacks>> layers) {
    for (std::size_t layer = 0; layer < layers.size(); ++layer) {
      if (!layers[layer]) continue;
      for (std::size_t p = 0; p < kParts; ++p) {
        COLI_CHECK(check(files, n_experts, layer, static_cast<Part>(p), layers[layer]->part[p]));
      }
    }
    for (const ExpertFile& file : files) {
      if (!file.memory.empty() && file.memory.size() != file.bytes) {
        return Error{Errc::internal,
                     "the bytes in memory are " + std::to_string(file.memory.size()) + ", the file's size is " +
                         std::to_string(file.bytes),
                     "", file.path};
      }
    }
    ExpertIndex index;
    index.files_ = std::move(files);
    index.layers_ = std::move(layers);
    index.n_experts_ = n_experts;
    return index;
  }

  std::span<const ExpertFile> files() const noexcept { return files_; }
  std::uint32_t n_layers() const noexcept { return static_cast<std::uint32_t>(layers_.size()); }
  std::uint32_t n_experts() const noexcept { return n_experts_; }

  /// Does this layer have routed experts?
  bool has_experts(LayerId layer) const noexcept {
    return layer.value < layers_.size() && layers_[layer.value].has_value();
  }
  bool contains(ExpertKey key) const noexcept { return has_experts(key.layer) && key.expert.value < n_experts_; }

  /// Bytes of one expert's part; 0 in a dense layer.
  std::uint64_t part_bytes(LayerId layer, Part part) const noexcept {
    return has_experts(layer) ? layers_[layer.value]->part[static_cast<std::size_t>(part)].bytes / n_experts_ : 0;
  }

  /// Bytes of one expert, all parts; 0 in a dense layer.
  std::uint64_t expert_bytes(LayerId layer) const noexcept {
    return part_bytes(layer, Part::gate) + part_bytes(layer, Part::up) + part_bytes(layer, Part::down);
  }

  /// The largest part of any layer: what a staging buffer must hold.
  std::uint64_t largest_part_bytes() const noexcept {
    std::uint64_t largest = 0;
    for (std::uint32_t layer = 0; layer < n_layers(); ++layer) {
      for (std::size_t p = 0; p < kParts; ++p) {
        largest = std::max(largest, part_bytes(LayerId{layer}, static_cast<Part>(p)));
      }
    }
    return largest;
  }

  /// Requires contains(key).
  Extent extent(ExpertKey key, Part part) const noexcept {
    const Extent& stack = layers_[key.layer.value]->part[static_cast<std::size_t>(part)];
    const std::uint64_t stride = stack.bytes / n_experts_;
    return Extent{stack.file, stack.offset + stride * key.expert.value, stride};
  }

  /// The part's bytes where its file is in memory, else an empty span.
  std::span<const std::byte> in_memory(ExpertKey key, Part part) const noexcept {
    const Extent at = extent(key, part);
    const std::span<const std::byte> memory = files_[at.file].memory;
    return memory.empty() ? memory : memory.subspan(at.offset, at.bytes);
  }

  /// The same index over files that are in memory, `memory[i]` being all of file i.
  ExpertIndex with_memory(std::span<const std::span<const std::byte>> memory) const {
    ExpertIndex index = *this;
    for (std::size_t f = 0; f < files_.size(); ++f) index.files_[f].memory = memory[f];
    return index;
  }

  bool all_in_memory() const noexcept {
    for (const ExpertFile& file : files_) {
      if (file.memory.size() != file.bytes) return false;
    }
    return true;
  }

 private:
  static Result<void> check(const std::vector<ExpertFile>& files, std::uint32_t n_experts, std::size_t layer, Part part,
                            const Extent& stack) {
    const auto refuse = [&](std::string why) {
      return Error{Errc::bad_input, std::move(why),
                   "layer " + std::to_string(layer) + " " + std::string(name_of(part)) + " experts",
                   stack.file < files.size() ? files[stack.file].path : std::string()};
    };
    if (stack.file >= files.size()) {
      return refuse("lies in file number " + std::to_string(stack.file) + " of " + std::to_string(files.size()));
    }
    if (n_experts == 0) return refuse("the model has no experts");
    if (stack.bytes == 0 || stack.bytes % n_experts != 0) {
      return refuse(std::to_string(stack.bytes) + " bytes are not " + std::to_string(n_experts) + " equal experts");
    }
    const std::uint64_t size = files[stack.file].bytes;
    if (stack.offset > size || stack.bytes > size - stack.offset) {
      return refuse("ends at byte " + std::to_string((Bytes{stack.offset} + Bytes{stack.bytes}).value) +
                    ", the file has " + std::to_string(size));
    }
    return {};
  }

  std::vector<ExpertFile> files_;
  std::vector<std::optional<ExpertStacks>> layers_;
  std::uint32_t n_experts_ = 0;
};

/// "layer 3 expert 17 gate": how every store names what it was reading.
inline std::string text_of(ExpertKey key, Part part) {
  return "layer " + std::to_string(key.layer.value) + " expert " + std::to_string(key.expert.value) + " " +
         std::string(name_of(part));
}

}  // namespace coli
