#include "frontend/svg.h"

#include <cmath>

#include "base/check.h"
#include "base/format.h"

namespace longhaul::frontend {
namespace {

std::string N(double number) {
  CHECK(std::isfinite(number));
  return Decimal(number, 2);
}

std::string_view AnchorName(Svg::Anchor anchor) {
  switch (anchor) {
    case Svg::Anchor::kStart:
      return "start";
    case Svg::Anchor::kMiddle:
      return "middle";
    case Svg::Anchor::kEnd:
      return "end";
  }
  return "start";
}

// The end of an element, with what is shown when one points at it.
std::string Close(std::string_view name, std::string_view tooltip) {
  if (tooltip.empty()) return "/>\n";
  return "><title>" + EscapeXml(tooltip) + "</title></" + std::string(name) + ">\n";
}

}  // namespace

Svg::Svg(double width, double height, std::string_view title) {
  const std::string size = N(width) + "\" height=\"" + N(height);
  body_ = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + size + "\" viewBox=\"0 0 " +
          N(width) + " " + N(height) +
          "\" font-family=\"system-ui, 'DejaVu Sans', Helvetica, Arial, sans-serif\">\n<title>" +
          EscapeXml(title) + "</title>\n";
  Rectangle(0, 0, width, height, "#ffffff");
}

void Svg::Rectangle(double x, double y, double width, double height, std::string_view fill,
                    std::string_view tooltip) {
  body_ += "<rect x=\"" + N(x) + "\" y=\"" + N(y) + "\" width=\"" + N(width) + "\" height=\"" +
           N(height) + "\" fill=\"" + std::string(fill) + "\"" + Close("rect", tooltip);
}

void Svg::Line(double x1, double y1, double x2, double y2, std::string_view color, double width,
               bool dashed) {
  body_ += "<line x1=\"" + N(x1) + "\" y1=\"" + N(y1) + "\" x2=\"" + N(x2) + "\" y2=\"" + N(y2) +
           "\" stroke=\"" + std::string(color) + "\" stroke-width=\"" + N(width) + "\"" +
           (dashed ? " stroke-dasharray=\"4 3\"" : "") + "/>\n";
}

void Svg::Polyline(const std::vector<std::pair<double, double>>& points, std::string_view color,
                   double width) {
  if (points.empty()) return;
  body_ += "<polyline fill=\"none\" stroke-linejoin=\"round\" stroke=\"" + std::string(color) +
           "\" stroke-width=\"" + N(width) + "\" points=\"";
  for (const auto& [x, y] : points) body_ += N(x) + "," + N(y) + " ";
  body_ += "\"/>\n";
}

void Svg::Circle(double x, double y, double radius, std::string_view fill,
                 std::string_view tooltip) {
  body_ += "<circle cx=\"" + N(x) + "\" cy=\"" + N(y) + "\" r=\"" + N(radius) + "\" fill=\"" +
           std::string(fill) + "\"" + Close("circle", tooltip);
}

void Svg::Marker(double x, double y, double size, std::string_view fill, std::string_view tooltip) {
  body_ += "<polygon points=\"" + N(x) + "," + N(y) + " " + N(x - size / 2) + "," + N(y - size) +
           " " + N(x + size / 2) + "," + N(y - size) + "\" fill=\"" + std::string(fill) + "\"" +
           Close("polygon", tooltip);
}

void Svg::Text(double x, double y, std::string_view text, const Font& font) {
  body_ += "<text x=\"" + N(x) + "\" y=\"" + N(y) + "\" font-size=\"" + N(font.size) +
           "\" fill=\"" + std::string(font.color) + "\" text-anchor=\"" +
           std::string(AnchorName(font.anchor)) + "\"" + (font.bold ? " font-weight=\"600\"" : "") +
           ">" + EscapeXml(text) + "</text>\n";
}

std::string Svg::Take() { return std::move(body_) + "</svg>\n"; }

std::vector<double> Ticks(double low, double high, int wanted) {
  CHECK(low < high);
  CHECK(wanted >= 1);
  const double rough = (high - low) / wanted;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double distance = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) {
      distance = factor * power;
      break;
    }
  }
  std::vector<double> ticks;
  // Adding zero turns a negative zero into a plain one.
  for (double i = std::ceil(low / distance - 1e-9) + 0.0; i * distance <= high + 1e-9 * distance;
       ++i) {
    ticks.push_back(i * distance);
  }
  return ticks;
}

std::string TickText(double number, double distance) {
  const int digits = distance >= 1 ? 0 : static_cast<int>(std::ceil(-std::log10(distance) - 1e-9));
  return Decimal(number, digits);
}

}  // namespace longhaul::frontend
