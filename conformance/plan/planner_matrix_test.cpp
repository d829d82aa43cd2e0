// SPDX-License-Identifier: Apache-2.0
// Does the planner say what the matrix says? Three geometries from headers alone, eighteen budgets each; the expected plans
// were worked out by fixtures/make_plan_matrix.py, which shares no code with the planner.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "coli/plan_report.hpp"
#include "coli/profiles.hpp"

namespace coli::conformance {
namespace {

using Json = nlohmann::ordered_json;

std::string plan_fixture(const std::string& name) { return std::string(COLI_FIXTURES_DIR) + "/plan/" + name; }

const Json& matrix() {
  static const Json json = Json::parse(std::ifstream(plan_fixture("matrix.json")));
  return json;
}

/// `found` holds everything that `expected` says, numbers to 1e-9. Returns the first place where it doesn't.
std::string first_difference(const Json& expected, const Json& found, const std::string& at) {
  if (expected.is_object()) {
    for (const auto& [key, value] : expected.items()) {
      if (!found.is_object() || !found.contains(key)) return at + "." + key + " is missing";
      if (auto difference = first_difference(value, found[key], at + "." + key); !difference.empty()) return difference;
    }
    return "";
  }
  if (expected.is_array()) {
    if (!found.is_array() || found.size() != expected.size()) return at + " has another length";
    for (std::size_t i = 0; i < expected.size(); ++i)
      if (auto difference = first_difference(expected[i], found[i], at + "[" + std::to_string(i) + "]"); !difference.empty()) return difference;
    return "";
  }
  const bool same = expected.is_number_float() ? found.is_number() && std::abs(found.get<double>() - expected.get<double>()) <= 1e-9 * std::abs(expected.get<double>()) : expected == found;
  return same ? "" : at + " is " + found.dump() + ", expected " + expected.dump();
}

PlannedProfile cpu_profile() {
  static const simd::KernelTable no_kernels{};  // sizes need none
  return planned_profile<profiles::cpu>(SimdKernels(no_kernels));
}
/// A card's profile as the matrix supposes it: 64 MiB of scratch, F16 keys and values.
PlannedProfile card_profile() {
  PlannedProfile card = cpu_profile();
  card.name = "cuda";
  card.processor = Processor::device;
  card.scratch = [](const BackendShape&, unsigned) { return Bytes{64 * kMiB}; };
  return card;
}

Machine machine_of(bool with_device, const Json& wishes) {
  const Json& about = matrix()["machine"];
  Machine machine;
  machine.memory = {Bytes{1ULL << 62}, "matrix"};
  machine.process = {Bytes{about["process"].get<std::uint64_t>()}, "matrix"};
  machine.cpus = {about["cores"].get<unsigned>(), "matrix"};
  machine.memory_rate = {about["memory_rate"].get<double>(), "matrix"};
  machine.disk_rate = {about["disk_rate"].get<double>(), "matrix"};
  machine.direct_block = about["direct_block"].get<std::uint64_t>();
  const Json& device = matrix()["device"];
  if (with_device)
    machine.device = DeviceReading{"card", Bytes{wishes["vram"].get<std::uint64_t>()}, {device["memory_rate"].get<double>(), "matrix"}, {device["link_rate"].get<double>(), "matrix"}, "matrix"};
  return machine;
}

PlanWishes wishes_of(const Json& json) {
  PlanWishes wishes;
  const auto bytes = [&](const char* key) { return json.contains(key) ? std::optional(Bytes{json[key].get<std::uint64_t>()}) : std::nullopt; };
  wishes.memory = bytes("memory");
  wishes.vram = bytes("vram");
  wishes.disk = bytes("disk");
  if (json.contains("context")) wishes.context = json["context"].get<std::uint32_t>();
  return wishes;
}

/// Cells of the matrix where what `planner(model, machine, wishes, with_device)` says isn't what is expected.
template <class Planner>
std::vector<std::string> red_cells(Planner&& planner) {
  std::vector<std::string> red;
  for (const Json& model : matrix()["models"]) {
    const auto file = gguf::ModelFile::open(plan_fixture(model["file"]), gguf::Data::may_be_missing);
    BOOST_REQUIRE_MESSAGE(file, (file ? "" : file.error().line()));
    const auto needs = model_needs(*file);
    BOOST_REQUIRE_MESSAGE(needs, (needs ? "" : needs.error().line()));
    for (const Json& cell : model["cases"]) {
      const bool with_device = cell["device"].get<bool>();
      const PlanOutcome outcome = planner(*needs, machine_of(with_device, cell["wishes"]), wishes_of(cell["wishes"]));
      Json found = outcome.plan ? plan_json(*outcome.plan) : refusal_json(*outcome.refusal);
      Json expected = cell["plan"];
      if (expected.value("memory", Json()).is_null()) expected.erase("memory");
      if (auto difference = first_difference(expected, found, ""); !difference.empty())
        red.push_back(model["file"].get<std::string>() + ", " + cell["budget"].get<std::string>() + ": " + difference);
    }
  }
  return red;
}

PlanOutcome honest(const ModelNeeds& model, const Machine& machine, const PlanWishes& wishes) {
  const std::array profiles{cpu_profile(), card_profile()};
  return choose_plan(std::span(&model, 1), profiles, machine, wishes, ReuseCurve::fallback());
}

BOOST_AUTO_TEST_CASE(every_cell_of_the_matrix) {
  std::size_t n = 0;
  for (const Json& model : matrix()["models"]) n += model["cases"].size();
  BOOST_TEST(n >= 3U * 18U);
  for (const std::string& cell : red_cells(honest)) BOOST_ERROR(cell);
}

BOOST_AUTO_TEST_CASE(a_planner_that_always_says_yes_is_caught) {
  const auto always_yes = [](const ModelNeeds& model, const Machine& machine, const PlanWishes& wishes) {
    PlanOutcome outcome = honest(model, machine, wishes);
    if (outcome.refusal && outcome.refusal->nearest) outcome = {*std::move(outcome.refusal->nearest), std::nullopt};
    return outcome;
  };
  BOOST_TEST(!red_cells(always_yes).empty());
  // One that is a byte too generous is caught at the boundary.
  const auto generous = [](const ModelNeeds& model, const Machine& machine, PlanWishes wishes) {
    wishes.memory = *wishes.memory + Bytes{1};
    return honest(model, machine, wishes);
  };
  bool at_the_boundary = false;
  for (const std::string& cell : red_cells(generous)) at_the_boundary = at_the_boundary || cell.find("one byte less than the least") != std::string::npos;
  BOOST_TEST(at_the_boundary);
}

}  // namespace
}  // namespace coli::conformance
