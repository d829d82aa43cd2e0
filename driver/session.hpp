// SPDX-License-Identifier: Apache-2.0
// An opened engine without its type: the one place where a profile's name becomes an engine at run time.
// One virtual call a token or a prompt; nothing inside an engine is virtual.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "coli/core/accountant.hpp"
#include "coli/core/error.hpp"
#include "coli/engine_options.hpp"
#include "coli/gguf/model_file.hpp"
#include "coli/model/hyperparams.hpp"
#include "coli/model/tensors.hpp"
#include "coli/text/tokenizer.hpp"

namespace colidrv {

class Session {
 public:
  Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  virtual ~Session() = default;

  virtual std::span<const coli::TokenId> tokens() const = 0;
  virtual std::uint32_t context() const = 0;
  virtual coli::Result<void> truncate(std::uint32_t position) = 0;
  virtual coli::Result<std::span<const float>> prefill(std::span<const coli::TokenId> tokens) = 0;
  /// The same; `each(position, logits)` sees the logits after every token.
  using EachLogits = std::function<void(std::uint32_t, std::span<const float>)>;
  virtual coli::Result<std::span<const float>> prefill(std::span<const coli::TokenId> tokens, const EachLogits& each) = 0;
  virtual coli::Result<std::span<const float>> step(coli::TokenId token) = 0;
  virtual void warm(std::vector<coli::ExpertKey> keys) = 0;
  virtual void cancel() noexcept = 0;

  virtual coli::Result<const coli::Tokenizer*> tokenizer() const = 0;
  virtual const coli::gguf::ModelFile& file() const = 0;
  virtual const coli::Hyperparams& hyperparams() const = 0;
  virtual const coli::Accountant& memory() const = 0;
  virtual coli::EngineStats stats(bool per_layer = false) const = 0;
  virtual const coli::ModelTensors& tensors() const = 0;
  virtual std::vector<std::span<const std::byte>> weight_memory() const = 0;
  virtual unsigned threads() const = 0;
  virtual std::vector<std::string> notes() const = 0;
  virtual std::string isa() const = 0;
  virtual coli::KvFormat kv_format() const = 0;
  virtual coli::EngineObserver& observer() = 0;
};

}  // namespace colidrv
