// The few shapes of which the charts consist, as SVG text. Every text is escaped.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace longhaul::frontend {

class Svg {
 public:
  // A light picture of this size, readable by itself; screen readers read out `title`.
  Svg(double width, double height, std::string_view title);

  enum class Anchor { kStart, kMiddle, kEnd };
  struct Font {
    double size = 12;
    std::string_view color = "#1f2937";
    Anchor anchor = Anchor::kStart;
    bool bold = false;
  };

  void Rectangle(double x, double y, double width, double height, std::string_view fill,
                 std::string_view tooltip = "");
  void Line(double x1, double y1, double x2, double y2, std::string_view color, double width = 1,
            bool dashed = false);
  void Polyline(const std::vector<std::pair<double, double>>& points, std::string_view color,
                double width);
  void Circle(double x, double y, double radius, std::string_view fill,
              std::string_view tooltip = "");
  // A triangle with its tip at (x, y).
  void Marker(double x, double y, double size, std::string_view fill,
              std::string_view tooltip = "");
  void Text(double x, double y, std::string_view text, const Font& font);

  std::string Take();

 private:
  std::string body_;
};

// Round numbers that divide [low, high] in about `wanted` parts, from the first at or above `low`.
// Requires low < high.
std::vector<double> Ticks(double low, double high, int wanted);

// A tick's number, with as many decimals as the distance of ticks needs.
std::string TickText(double number, double distance);

}  // namespace longhaul::frontend
