// SPDX-License-Identifier: Apache-2.0
// colidrv inspect: what is in this file? Reads the header only.
#include <cstdio>

#include "coli/model/geometry.hpp"
#include "coli/model/kv_cache.hpp"
#include "coli/plan_report.hpp"
#include "driver/commands.hpp"
#include "driver/json_output.hpp"
#include "driver/model_options.hpp"
#include "driver/registry.hpp"

namespace colidrv {
namespace {

struct InspectOptions {
  std::string model;
  std::string json;
};

/// What the model is made of; an error where this is no model that coli runs (a vocabulary, another architecture).
coli::Result<Json> geometry_json(const coli::gguf::ModelFile& file) {
  COLI_TRY(h, coli::Hyperparams::read(file.metadata()));
  COLI_TRY(tensors, coli::ModelTensors::bind(file, h, coli::FormatSet::all()));
  const coli::ModelGeometry g = coli::ModelGeometry::of(h, tensors);
  Json layers = Json::array();
  for (const auto& layer : g.layers)
    layers.push_back({{"gate_bytes", layer.gate.value}, {"up_bytes", layer.up.value}, {"down_bytes", layer.down.value},
                      {"expert_bytes", layer.expert().value}, {"layer_bytes", (layer.expert() * g.n_experts).value}});
  return Json{{"layers", h.n_layers},        {"hidden", h.hidden},
              {"heads", h.n_heads},          {"kv_heads", h.n_kv_heads},
              {"head_dim", h.head_dim},      {"context", h.context},
              {"vocabulary", tensors.n_vocab}, {"experts", h.n_experts},
              {"top_k", h.top_k},            {"expert_ffn", h.expert_ffn},
              {"rope_base", h.rope_base},    {"trunk_bytes", g.trunk.value},
              {"expert_bytes_total", g.experts.value}, {"token_cycle_bytes", g.token_cycle.value},
              {"kv_bytes_per_position", coli::KvShape{h.n_layers, h.n_kv_heads, h.head_dim, 1, coli::KvFormat::f32}.bytes().value},
              {"per_layer", std::move(layers)}};
}

/// What a run without options would hold here, or the least that runs, where that is too much for this machine.
coli::Result<coli::PlanOutcome> plan_here(const coli::gguf::ModelFile& file) {
  COLI_TRY(profile, find_profile("auto"));
  COLI_TRY(needs, coli::model_needs(file, profile->formats));
  COLI_TRY(planned, profile->planned());
  COLI_TRY(machine, machine_for(file));
  return coli::plan_run(needs, planned, machine, {}, coli::ReuseCurve::fallback());
}

/// The bill but for what varies from minute to minute: the same file gives the same object.
Json memory_json(const coli::PlanOutcome& outcome) {
  const coli::MemoryBill& bill = outcome.plan ? outcome.plan->bill : outcome.refusal->bill;
  Json json{{"trunk", bill.trunk.value}, {"kv", bill.kv.value}, {"scratch", bill.scratch.value}, {"io", bill.io.value}, {"least_slots", bill.least_slots.value}, {"all_slots", bill.all_slots.value}};
  if (outcome.plan) json["context"] = outcome.plan->shape.context;
  return json;
}

Json shape_json(const coli::gguf::TensorInfo& tensor) {
  Json shape = Json::array();
  for (std::uint32_t d = 0; d < tensor.n_dims; ++d) shape.push_back(tensor.dims[d]);
  return shape;
}

/// A number, bool or string as JSON has it; an array by its type, length and first elements (vocabularies are long).
coli::Result<Json> value_json(const coli::gguf::Metadata& metadata, const coli::gguf::Metadata::KeySummary& entry) {
  using coli::gguf::ValueType;
  const auto as = [&]<class T>() -> coli::Result<Json> {
    COLI_TRY(value, metadata.get<T>(entry.key));
    return Json(value);
  };
  if (entry.element) return Json{{"type", coli::gguf::name_of(*entry.element)}, {"count", entry.count}, {"first", entry.value}};
  if (entry.type == ValueType::string) return as.template operator()<std::string>();
  if (entry.type == ValueType::bool_) return as.template operator()<bool>();
  if (is_signed_integer(entry.type)) return as.template operator()<std::int64_t>();
  if (is_unsigned_integer(entry.type)) return as.template operator()<std::uint64_t>();
  if (entry.type == ValueType::f64) return as.template operator()<double>();
  COLI_TRY(value, metadata.get<float>(entry.key));
  return json_number(value);
}

void print(const coli::gguf::ModelFile& file, const std::string& architecture, const coli::Result<Json>& geometry, const coli::Result<coli::PlanOutcome>& planned) {
  std::printf("architecture: %s\n", architecture.c_str());
  for (const auto& shard : file.shards()) std::printf("file: %s, %s, GGUF v%u\n", shard.path.c_str(), coli::to_text(coli::Bytes{shard.size}).c_str(), shard.version);
  std::printf("\nmetadata:\n");
  for (const auto& entry : file.metadata().keys())
    std::printf("  %-48s %-14s %s\n", std::string(entry.key).c_str(), entry.type_text().c_str(), entry.value.c_str());
  std::printf("\ntensors: %zu\n", file.tensors().size());
  for (const auto& tensor : file.tensors())
    std::printf("  %-32s %-6s %-24s %s\n", tensor.name.c_str(), std::string(tensor.type->name).c_str(), shape_json(tensor).dump().c_str(),
                coli::to_text(coli::Bytes{tensor.bytes}).c_str());
  if (!geometry) {
    std::printf("\nnot a model that coli runs: %s\n", geometry.error().line().c_str());
    return;
  }
  const auto bytes = [&](const char* key) { return coli::to_text(coli::Bytes{(*geometry)[key].get<std::uint64_t>()}); };
  std::printf("\ngeometry: %llu layers, hidden %llu, %llu experts a layer, %llu a token\n", (*geometry)["layers"].get<unsigned long long>(),
              (*geometry)["hidden"].get<unsigned long long>(), (*geometry)["experts"].get<unsigned long long>(), (*geometry)["top_k"].get<unsigned long long>());
  std::printf("  trunk (resident)        %s\n  experts, all layers     %s\n  experts of one token    %s (token cycle)\n  KV cache, f32           %s a position\n",
              bytes("trunk_bytes").c_str(), bytes("expert_bytes_total").c_str(), bytes("token_cycle_bytes").c_str(), bytes("kv_bytes_per_position").c_str());
  if (!planned) std::printf("\nno run can be planned: %s\n", planned.error().line().c_str());
  else std::printf("\n%s", (planned->plan ? coli::plan_text(*planned->plan) : coli::refusal_text(*planned->refusal)).c_str());
}

coli::Result<void> inspect(const InspectOptions& options) {
  COLI_CHECK(check_json_path(options.json));
  COLI_TRY(file, open_file(options.model));
  COLI_TRY(named, file.metadata().find<std::string>("general.architecture"));
  const std::string architecture = named.value_or("(not said)");
  const coli::Result<Json> geometry = geometry_json(file);
  const coli::Result<coli::PlanOutcome> planned = plan_here(file);
  if (options.json != "-") print(file, architecture, geometry, planned);
  if (options.json.empty()) return {};

  Json tensors = Json::array();
  for (const auto& tensor : file.tensors())
    tensors.push_back({{"name", tensor.name}, {"format", tensor.type->name}, {"shape", shape_json(tensor)}, {"bytes", tensor.bytes}, {"file", tensor.file}, {"offset", tensor.offset}});
  Json metadata = Json::object();
  for (const auto& entry : file.metadata().keys()) {
    const auto value = value_json(file.metadata(), entry);
    metadata[std::string(entry.key)] = value ? *value : Json(entry.value);  // a float that is not finite has no JSON
  }
  Json out{{"architecture", architecture}, {"tensors", std::move(tensors)}, {"metadata", std::move(metadata)}};
  out["geometry"] = geometry ? *geometry : Json(nullptr);
  if (!geometry) out["geometry_error"] = geometry.error().line();
  out["memory"] = planned ? memory_json(*planned) : Json(nullptr);
  if (!planned) out["memory_error"] = planned.error().line();
  return write_json(out, options.json);
}

}  // namespace

void add_inspect(CLI::App& app, Action& action) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App& command = *app.add_subcommand("inspect", "what is in a model file: metadata, tensors, sizes");
  command.add_option("MODEL", options->model, "GGUF file; without it, the embedded model");
  add_json_option(command, options->json);
  command.callback([&action, options] { action = [options] { return inspect(*options); }; });
}

}  // namespace colidrv
