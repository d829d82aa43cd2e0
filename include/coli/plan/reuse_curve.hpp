// SPDX-License-Identifier: Apache-2.0
// Which share of expert uses does a cache of this share of the experts answer? Recorded curves, and where they came from.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coli/core/error.hpp"
#include "coli/plan/small_file.hpp"

namespace coli {

/// Points of (share of all experts held, share of uses that hit), joined by straight lines; (0, 0) and (1, 1) are always
/// on it. Never falls: more slots never mean fewer hits.
class ReuseCurve {
 public:
  struct Point {
    double share;
    double hits;
  };

  /// Errors: bad_input, where points leave [0, 1], or a larger share hits less.
  static Result<ReuseCurve> make(std::vector<Point> points, std::string source) {
    std::sort(points.begin(), points.end(), [](const Point& a, const Point& b) { return std::pair(a.share, a.hits) < std::pair(b.share, b.hits); });
    double most = 0;
    for (const Point& p : points) {
      if (!(p.share >= 0 && p.share <= 1 && p.hits >= 0 && p.hits <= 1)) return Error{Errc::bad_input, "a point of a reuse curve lies outside 0 to 1", "", source};
      if (p.hits < most) return Error{Errc::bad_input, "more slots may not hit less: the curve falls at a share of " + std::to_string(p.share), "", source};
      most = p.hits;
    }
    points.insert(points.begin(), {0, 0});
    points.push_back({1, 1});
    return ReuseCurve(std::move(points), std::move(source));
  }

  /// Lines of "share,hits" (numbers from 0 to 1), after at most one line of column names. Errors: bad_input; io.
  static Result<ReuseCurve> read(const std::string& path) {
    std::string text;
    if (read_small_file(path, text) != FileState::read) return Error{Errc::io, "cannot be read", "reuse curve", path};
    std::vector<Point> points;
    std::istringstream lines(text);
    std::size_t number = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      if (line.empty() || line.front() == '#' || (number == 1 && line == "share,hits")) continue;
      Point point{};
      const char* const end = line.data() + line.size();
      const auto share = std::from_chars(line.data(), end, point.share);
      const bool comma = share.ec == std::errc{} && share.ptr != end && *share.ptr == ',';
      const auto hits = std::from_chars(comma ? share.ptr + 1 : end, end, point.hits);
      if (!comma || hits.ec != std::errc{} || hits.ptr != end) return Error{Errc::bad_input, "line " + std::to_string(number) + " is not share,hits with two numbers", "reuse curve", path};
      points.push_back(point);
    }
    return make(std::move(points), path);
  }

  /// Where nobody recorded a curve of this model: Qwen3-30B-A3B, top-8 of 128, LRU, decode of 25 prompts, as published by
  /// the moe-trace project; recorded routes of the same model with top-6 lie within 3 points of it from a share of 1/8 on.
  static ReuseCurve fallback() {
    return ReuseCurve({{0, 0}, {1.0 / 16, 0.424}, {1.0 / 8, 0.647}, {1.0 / 4, 0.810}, {1.0 / 2, 0.918}, {1, 1}}, "default: Qwen3-30B-A3B's own routes, LRU");
  }

  double hits_at(double share) const {
    const double s = std::clamp(share, 0.0, 1.0);
    std::size_t next = 1;
    while (next + 1 < points_.size() && points_[next].share < s) ++next;
    const Point &a = points_[next - 1], &b = points_[next];
    return b.share > a.share ? a.hits + (b.hits - a.hits) * (s - a.share) / (b.share - a.share) : b.hits;
  }
  const std::string& source() const noexcept { return source_; }

 private:
  ReuseCurve(std::vector<Point> points, std::string source) : points_(std::move(points)), source_(std::move(source)) {}
  std::vector<Point> points_;
  std::string source_;
};

}  // namespace coli
