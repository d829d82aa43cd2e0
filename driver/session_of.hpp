// SPDX-License-Identifier: Apache-2.0
// The session over one profile's engine; included by driver/profiles/*.cpp alone, so that engines compile once.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>

#include "coli/engine.hpp"
#include "driver/session.hpp"

namespace colidrv {

template <coli::Profile P>
class SessionOf final : public Session {
 public:
  explicit SessionOf(coli::engine<P> engine) : engine_(std::move(engine)) {}

  std::span<const coli::TokenId> tokens() const override { return engine_.tokens(); }
  std::uint32_t context() const override { return engine_.context(); }
  coli::Result<void> truncate(std::uint32_t position) override { return engine_.truncate(position); }
  coli::Result<std::span<const float>> prefill(std::span<const coli::TokenId> tokens) override { return engine_.prefill(tokens); }
  coli::Result<std::span<const float>> prefill(std::span<const coli::TokenId> tokens, const EachLogits& each) override {
    return engine_.prefill(tokens, [&](std::uint32_t position, std::span<const float> logits) { each(position, logits); });
  }
  coli::Result<std::span<const float>> step(coli::TokenId token) override { return engine_.step(token); }
  void warm(std::vector<coli::ExpertKey> keys) override { engine_.warm(std::move(keys)); }
  void cancel() noexcept override { engine_.cancel(); }

  coli::Result<const coli::Tokenizer*> tokenizer() const override { return engine_.tokenizer(); }
  const coli::gguf::ModelFile& file() const override { return engine_.file(); }
  const coli::Hyperparams& hyperparams() const override { return engine_.hyperparams(); }
  const coli::Accountant& memory() const override { return engine_.memory(); }
  coli::EngineStats stats(bool per_layer) const override { return engine_.stats(per_layer); }
  const coli::ModelTensors& tensors() const override { return engine_.tensors(); }
  std::vector<std::span<const std::byte>> weight_memory() const override { return engine_.weight_memory(); }
  std::vector<std::string> notes() const override { return engine_.notes(); }
  unsigned threads() const override { return engine_.threads(); }
  std::string isa() const override { return std::string(engine_.kernels().isa()); }
  coli::KvFormat kv_format() const override { return engine_.kv_format(); }
  coli::EngineObserver& observer() override { return engine_.observer(); }

 private:
  coli::engine<P> engine_;
};

template <coli::Profile P>
coli::Result<std::unique_ptr<Session>> open_session(coli::gguf::ModelFile file, const coli::EngineOptions& options,
                                                    typename P::Backend::KernelSet kernels) {
  COLI_TRY(engine, coli::engine<P>::open(std::move(file), options, std::move(kernels)));
  return std::unique_ptr<Session>(std::make_unique<SessionOf<P>>(std::move(engine)));
}

}  // namespace colidrv
