// SPDX-License-Identifier: Apache-2.0
// A trace in another of its forms: as .csv, as .json, or else in coli's own binary form.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "coli/core/error.hpp"
#include "coli/core/replace_file.hpp"
#include "coli/evidence/load_routes.hpp"
#include "coli/evidence/route_text.hpp"
#include "coli/moe/route_trace_writer.hpp"

namespace coli {

namespace detail {

inline Result<void> export_binary(const std::string& from, const std::string& to) {
  const std::string unfinished = to + ".tmp." + std::to_string(::getpid());
  std::optional<RouteTraceWriter> writer;
  std::optional<Error> failed;
  const auto copied = [&]() -> Result<void> {
    COLI_TRY(end, for_each_route(
                      from,
                      [&](const RouteHeader& header, std::size_t) -> Result<void> {
                        COLI_TRY(created, RouteTraceWriter::create(unfinished, header));
                        writer.emplace(std::move(created));
                        return {};
                      },
                      [&](const RouteToken& token) {
                        if (failed) return;
                        if (auto written = writer->append({&token, 1}); !written) failed = std::move(written).error();
                      }));
    if (failed) return *failed;
    COLI_CHECK(writer->finish(end.counted.value_or(RouteHeader::Json::object())));
    if (std::rename(unfinished.c_str(), to.c_str()) != 0) return Error{Errc::io, "cannot rename: " + std::generic_category().message(errno), "", to};
    return {};
  }();
  if (!copied && writer) ::unlink(unfinished.c_str());
  return copied;
}

}  // namespace detail

/// Errors: io; bad_input.
inline Result<void> export_routes(const std::string& from, const std::string& to) {
  const bool csv = to.ends_with(".csv");
  if (!csv && !to.ends_with(".json")) return detail::export_binary(from, to);
  RouteHeader header;
  std::string text;
  RouteHeader::Json tree{{"coli_route_trace", 1}};
  std::uint64_t n_tokens = 0;
  COLI_TRY(end, for_each_route(
                    from,
                    [&](const RouteHeader& h, std::size_t) -> Result<void> {
                      header = h;
                      if (csv) text = csv_begin(h);
                      else tree["header"] = h.to_json(), tree["tokens"] = RouteHeader::Json::array();
                      return {};
                    },
                    [&](const RouteToken& token) {
                      ++n_tokens;
                      if (csv) csv_append(header, token, text);
                      else tree["tokens"].push_back(json_of(header, token));
                    }));
  if (!csv) text = tree.dump(2, ' ', false, RouteHeader::Json::error_handler_t::replace) + "\n";
  return replace_file(csv ? text + csv_end(n_tokens) : text, to);
}

}  // namespace coli
