// SPDX-License-Identifier: Apache-2.0
// colidrv profiles: which engines does this binary hold, and which run here?
#include <cstdio>

#include "driver/commands.hpp"
#include "driver/json_output.hpp"
#include "driver/registry.hpp"

namespace colidrv {

void add_profiles(CLI::App& app, Action& action) {
  auto json = std::make_shared<std::string>();
  CLI::App& command = *app.add_subcommand("profiles", "what this binary holds, and what of it runs here");
  add_json_option(command, *json);
  command.callback([&action, json] {
    action = [json]() -> coli::Result<void> {
      COLI_CHECK(check_json_path(*json));
      Json list = Json::array();
      for (const ProfileEntry* p : profiles()) {
        const std::string why_not = p->why_not();
        list.push_back({{"name", p->name}, {"summary", p->summary}, {"activation_precision", p->activation_precision}, {"compiled_in", true}, {"available", why_not.empty()}, {"why_not", why_not}});
        if (*json != "-")
          std::printf("%-8.*s %s\n         %.*s\n", static_cast<int>(p->name.size()), p->name.data(), why_not.empty() ? "available" : ("not here: " + why_not).c_str(),
                      static_cast<int>(p->summary.size()), p->summary.data());
      }
      return json->empty() ? coli::Result<void>{} : write_json(Json{{"profiles", std::move(list)}}, *json);
    };
  });
}

}  // namespace colidrv
