// SPDX-License-Identifier: Apache-2.0
// colidrv profiles: which engines are there, which does this binary hold, and which run here?
#include <cstdio>

#include "coli/profile_about.hpp"
#include "driver/commands.hpp"
#include "driver/json_output.hpp"
#include "driver/registry.hpp"

namespace colidrv {
namespace {

Json list_json(std::span<const std::string_view> texts) {
  Json list = Json::array();
  for (const std::string_view text : texts) list.push_back(text);
  return list;
}

Json compiled_in(const ProfileEntry& p) {
  const coli::ProfileAbout& about = *p.about;
  const std::string why_not = p.why_not();
  return {{"name", p.name},
          {"summary", about.summary},
          {"needs", about.needs},
          {"activation_precision", about.activations},
          {"formats", names_of(p.formats)},
          {"stores", about.stores},
          {"processor", about.processor == coli::Processor::host ? "host" : "device"},
          {"margin_floors", {{"token", json_number(about.floors.token)}, {"route", json_number(about.floors.route)}, {"source", about.floors.source}}},
          {"notes", list_json(about.notes)},
          {"warnings", list_json(about.warnings)},
          {"compiled_in", true},
          {"available", why_not.empty()},
          {"why_not", why_not}};
}

coli::Result<void> list_profiles(const std::string& json) {
  COLI_CHECK(check_json_path(json));
  Json list = Json::array();
  for (const ProfileEntry* p : profiles()) list.push_back(compiled_in(*p));
  for (const coli::KnownProfile& known : coli::kKnownProfiles) {
    const bool listed = std::any_of(list.begin(), list.end(), [&](const Json& p) { return p["name"] == known.name; });
    if (!listed)
      list.push_back({{"name", known.name}, {"summary", known.summary}, {"activation_precision", ""}, {"compiled_in", false}, {"available", false}, {"why_not", "not in this build (COLI_PROFILES)"}});
  }
  if (json != "-")
    for (const Json& p : list) {
      const std::string why_not = p["why_not"];
      std::printf("%-8s %s\n         %s\n", p["name"].get<std::string>().c_str(), why_not.empty() ? "available" : ("not here: " + why_not).c_str(), p["summary"].get<std::string>().c_str());
      if (p["compiled_in"] == true) std::printf("         needs %s\n", p["needs"].get<std::string>().c_str());
    }
  return json.empty() ? coli::Result<void>{} : write_json(Json{{"profiles", std::move(list)}}, json);
}

}  // namespace

void add_profiles(CLI::App& app, Action& action) {
  auto json = std::make_shared<std::string>();
  CLI::App& command = *app.add_subcommand("profiles", "which engines there are, and which of them run here");
  add_json_option(command, *json);
  command.callback([&action, json] { action = [json] { return list_profiles(*json); }; });
}

}  // namespace colidrv
