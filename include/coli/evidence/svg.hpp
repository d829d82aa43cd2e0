// SPDX-License-Identifier: Apache-2.0
// Charts as inline SVG: lines over a logarithmic axis, bars, a heat map. No scripts, no network, readable in the dark.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace coli::svg {

inline std::string escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '&') out += "&amp;";
    else if (c == '"') out += "&quot;";
    else if (static_cast<unsigned char>(c) < 0x20) out += c == '\n' ? '\n' : ' ';
    else out += c;
  }
  return out;
}

inline std::string number(double value, int digits = 1) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

/// Distinguishable also in grey and by the colour-blind: order is fixed, marks differ as well.
inline constexpr std::array kColours{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a8a8a"};

struct Point {
  double x, y;
  std::string label;
};
struct Line {
  std::string name;
  std::vector<Point> points;
  bool dashed = false;
};
struct Mark {
  double x;
  std::string name;
};
struct LineChart {
  std::string x_title, y_title;
  std::vector<Line> lines;
  std::vector<Mark> marks;             // vertical lines
  std::vector<std::pair<double, std::string>> x_ticks;
  double y_most = 100;

  /// Logarithmic in x, linear from 0 in y, legend on the right.
  std::string text() const {
    constexpr double kWidth = 940, kHeight = 420, kLeft = 64, kRight = 210, kTop = 42, kBottom = 56;
    double least = 1e300, most = 0;
    for (const Line& line : lines)
      for (const Point& p : line.points) least = std::min(least, p.x), most = std::max(most, p.x);
    for (const Mark& mark : marks) least = std::min(least, mark.x), most = std::max(most, mark.x);
    if (!(most > 0)) return {};
    if (most <= least) least = most / 2;
    const auto x_of = [&](double x) { return kLeft + (std::log(x) - std::log(least)) / (std::log(most) - std::log(least)) * (kWidth - kLeft - kRight); };
    const auto y_of = [&](double y) { return kTop + (1 - y / y_most) * (kHeight - kTop - kBottom); };
    std::string out = "<svg viewBox=\"0 0 940 420\" role=\"img\" aria-label=\"" + escape(y_title + " by " + x_title) + "\">\n";
    for (int i = 0; i <= 5; ++i) {
      const double y = y_most * i / 5;
      out += "<line class=\"grid\" x1=\"64\" x2=\"" + number(kWidth - kRight) + "\" y1=\"" + number(y_of(y)) + "\" y2=\"" + number(y_of(y)) + "\"/><text class=\"tick\" text-anchor=\"end\" x=\"56\" y=\"" + number(y_of(y) + 4) + "\">" + number(y, y_most >= 20 ? 0 : 1) + "</text>\n";
    }
    double taken = -1e9;
    for (const auto& [x, text] : x_ticks) {
      const double at = x_of(x);
      if (at < kLeft - 1 || at > kWidth - kRight + 1 || at - taken < 44) continue;
      taken = at;
      out += "<line class=\"grid\" x1=\"" + number(at) + "\" x2=\"" + number(at) + "\" y1=\"" + number(kTop) + "\" y2=\"" + number(kHeight - kBottom) + "\"/><text class=\"tick\" text-anchor=\"middle\" x=\"" + number(at) + "\" y=\"" + number(kHeight - kBottom + 18) + "\">" + escape(text) + "</text>\n";
    }
    out += "<text class=\"title\" text-anchor=\"middle\" x=\"" + number((kLeft + kWidth - kRight) / 2) + "\" y=\"" + number(kHeight - 12) + "\">" + escape(x_title) + "</text>\n";
    out += "<text class=\"title\" x=\"8\" y=\"16\">" + escape(y_title) + "</text>\n";
    for (std::size_t i = 0; i < marks.size(); ++i) {
      const double at = x_of(marks[i].x);
      const bool left = at > (kLeft + kWidth - kRight) / 2;
      out += "<line class=\"mark\" x1=\"" + number(at) + "\" x2=\"" + number(at) + "\" y1=\"" + number(kTop - 6) + "\" y2=\"" + number(kHeight - kBottom) + "\"/><text class=\"note\" text-anchor=\"" + (left ? "end" : "start") + "\" x=\"" + number(at + (left ? -5 : 5)) + "\" y=\"" + number(kTop + 2 + 14 * static_cast<double>(i % 2)) + "\">" + escape(marks[i].name) + "</text>\n";
    }
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const std::string colour = kColours[i % kColours.size()];
      const std::string dash = lines[i].dashed ? " stroke-dasharray=\"7 5\"" : "";
      std::string path;
      for (const Point& p : lines[i].points) path += (path.empty() ? "M" : " L") + number(x_of(p.x)) + " " + number(y_of(std::min(p.y, y_most)));
      out += "<path fill=\"none\" stroke-width=\"2\" stroke=\"" + colour + "\"" + dash + " d=\"" + path + "\"/>\n";
      for (const Point& p : lines[i].points) out += shape(i, x_of(p.x), y_of(std::min(p.y, y_most)), colour, "<title>" + escape(lines[i].name + ": " + p.label) + "</title>");
      const double y = kTop + 8 + 24 * static_cast<double>(i);
      out += "<line stroke-width=\"2\" stroke=\"" + colour + "\"" + dash + " x1=\"748\" x2=\"780\" y1=\"" + number(y) + "\" y2=\"" + number(y) + "\"/>" + shape(i, 764, y, colour, "") + "<text class=\"note\" x=\"788\" y=\"" + number(y + 4) + "\">" + escape(lines[i].name) + "</text>\n";
    }
    return out + "</svg>\n";
  }

 private:
  static std::string shape(std::size_t i, double x, double y, const std::string& colour, const std::string& inside) {
    const auto polygon = [&](std::initializer_list<std::pair<double, double>> corners) {
      std::string points;
      for (const auto& [dx, dy] : corners) points += (points.empty() ? "" : " ") + number(x + dx) + "," + number(y + dy);
      return "<polygon fill=\"" + colour + "\" points=\"" + points + "\">" + inside + "</polygon>\n";
    };
    switch (i % 4) {
      case 0: return "<circle fill=\"" + colour + "\" cx=\"" + number(x) + "\" cy=\"" + number(y) + "\" r=\"4\">" + inside + "</circle>\n";
      case 1: return polygon({{-4, -4}, {4, -4}, {4, 4}, {-4, 4}});
      case 2: return polygon({{0, -5}, {5, 4}, {-5, 4}});
      default: return polygon({{0, -5}, {5, 0}, {0, 5}, {-5, 0}});
    }
  }
};

/// Bars from 0, a label under and a value over each.
inline std::string bar_chart(std::string_view title, const std::vector<std::pair<std::string, double>>& bars) {
  double most = 0;
  for (const auto& [label, value] : bars) most = std::max(most, value);
  if (bars.empty() || most <= 0) return {};
  std::string out = "<svg viewBox=\"0 0 940 260\" role=\"img\" aria-label=\"" + escape(title) + "\">\n<text class=\"title\" x=\"8\" y=\"16\">" + escape(title) + "</text>\n";
  const double step = 860.0 / static_cast<double>(bars.size());
  for (std::size_t i = 0; i < bars.size(); ++i) {
    const double x = 40 + step * static_cast<double>(i), height = 170 * bars[i].second / most;
    out += "<rect fill=\"" + std::string(kColours[0]) + "\" x=\"" + number(x + 4) + "\" y=\"" + number(220 - height) + "\" width=\"" + number(step - 8) + "\" height=\"" + number(height) + "\"/><text class=\"note\" text-anchor=\"middle\" x=\"" + number(x + step / 2) + "\" y=\"" + number(214 - height) + "\">" + number(bars[i].second) +
           " %</text><text class=\"tick\" text-anchor=\"middle\" x=\"" + number(x + step / 2) + "\" y=\"240\">" + escape(bars[i].first) + "</text>\n";
  }
  return out + "</svg>\n";
}

/// One cell an expert, one row a layer; each row's experts from the most to the least used, so that skew is seen.
inline std::string heat_map(const std::vector<std::vector<std::uint64_t>>& uses) {
  std::size_t n_experts = 0, n_rows = 0;
  for (const auto& layer : uses) n_experts = std::max(n_experts, layer.size());
  std::vector<std::string> rows;
  const double width = n_experts == 0 ? 0 : 860.0 / static_cast<double>(n_experts);
  for (std::size_t l = 0; l < uses.size(); ++l) {
    std::vector<std::pair<std::uint64_t, std::size_t>> cells;
    std::uint64_t all = 0;
    for (std::size_t e = 0; e < uses[l].size(); ++e) cells.emplace_back(uses[l][e], e), all += uses[l][e];
    if (all == 0) continue;
    std::sort(cells.begin(), cells.end(), [](const auto& a, const auto& b) { return a.first != b.first ? a.first > b.first : a.second < b.second; });
    std::string row = l % 4 != 0 ? "" : "<text class=\"tick\" text-anchor=\"end\" x=\"34\" y=\"" + number(36 + 10 * static_cast<double>(n_rows)) + "\">" + std::to_string(l) + "</text>";
    for (std::size_t i = 0; i < cells.size() && cells[i].first > 0; ++i) {
      const double strength = std::sqrt(static_cast<double>(cells[i].first) / static_cast<double>(cells[0].first));
      row += "<rect x=\"" + number(40 + width * static_cast<double>(i)) + "\" y=\"" + number(27 + 10 * static_cast<double>(n_rows)) + "\" width=\"" + number(width, 2) + "\" height=\"10\" fill-opacity=\"" + number(0.08 + 0.92 * strength, 2) + "\"><title>layer " + std::to_string(l) + ", expert " + std::to_string(cells[i].second) + ": " + std::to_string(cells[i].first) + " uses, " +
             number(100 * static_cast<double>(cells[i].first) / static_cast<double>(all)) + " %</title></rect>";
    }
    rows.push_back(std::move(row));
    ++n_rows;
  }
  if (rows.empty()) return {};
  std::string out = "<svg viewBox=\"0 0 940 " + std::to_string(40 + 10 * n_rows) + "\" role=\"img\" aria-label=\"uses by layer and expert\">\n<text class=\"title\" x=\"8\" y=\"16\">Layer (down), its experts from the most used to the least (across); darker: used more often, relative to the layer&#8217;s most used</text>\n<g fill=\"" + std::string(kColours[1]) + "\">\n";
  for (const std::string& row : rows) out += row + "\n";
  return out + "</g></svg>\n";
}

}  // namespace coli::svg
