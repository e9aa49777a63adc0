#include "profiler/rank/operator_work.h"

#include <array>
#include <charconv>
#include <vector>

namespace longhaul::profiler {
namespace {

using Shape = std::vector<double>;
constexpr size_t kMaxOperands = 16;
constexpr size_t kMaxDimensions = 8;

// "[[4, 8], [], [8, 2]]" as shapes; an operand with deeper lists (a list of tensors) has none.
std::vector<Shape> ParseShapes(std::string_view text) {
  std::vector<Shape> shapes;
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '[') {
      if (++depth == 2) {
        if (shapes.size() == kMaxOperands) return shapes;
        shapes.emplace_back();
      }
    } else if (c == ']') {
      --depth;
    } else if (c >= '0' && c <= '9' && depth == 2) {
      double value = 0;
      const auto [end, error] = std::from_chars(text.data() + i, text.data() + text.size(), value);
      if (error != std::errc()) return shapes;
      if (shapes.back().size() < kMaxDimensions) shapes.back().push_back(value);
      i = static_cast<size_t>(end - text.data()) - 1;
    }
  }
  return shapes;
}

double Elements(const Shape& shape) {
  if (shape.empty()) return 0;
  double product = 1;
  for (const double n : shape) product *= n;
  return product;
}

double ElementBytes(std::string_view types) {
  const std::string_view first = types.substr(0, types.find(','));
  constexpr std::pair<std::string_view, double> kTypes[] = {
      {"Float8", 1}, {"BFloat16", 2}, {"Half", 2}, {"double", 8}, {"long", 8},
      {"float", 4},  {"int8", 1},     {"int", 4},  {"bool", 1},
  };
  for (const auto& [name, bytes] : kTypes) {
    if (first.find(name) != first.npos) return bytes;
  }
  return 0;
}

// [..., m, k] times [..., k, n], or [n, k] when `transposed`.
double MatmulFlops(const Shape& a, const Shape& b, bool transposed, double* out) {
  if (a.empty() || b.empty()) return 0;
  const double k = a.back();
  if (k <= 0) return 0;
  const double rows = Elements(a) / k;
  const double n = b.size() == 1 ? 1 : transposed ? b[b.size() - 2] : b.back();
  *out = rows * n;
  return 2 * rows * k * n;
}

bool IsOneOf(std::string_view op, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    if (op == name) return true;
  }
  return false;
}

double AttentionFlops(std::string_view op, const std::vector<Shape>& shapes) {
  // Forward: q, k, v; backward has the gradient first.
  const bool backward = op.find("backward") != op.npos;
  const size_t first = backward ? 1 : 0;
  if (shapes.size() < first + 3 || shapes[first].size() != 4 || shapes[first + 1].size() != 4) {
    return 0;
  }
  const Shape& q = shapes[first];
  const Shape& k = shapes[first + 1];
  // [batch, heads, tokens, size]; the flash kernels take [batch, tokens, heads, size].
  const size_t tokens = op.starts_with("aten::_flash") || op.starts_with("flash") ? 1 : 2;
  const double heads = q[3 - tokens];
  const double forward = 4 * q[0] * heads * q[tokens] * k[tokens] * q[3];
  return backward ? 2.5 * forward : forward;
}

}  // namespace

Work WorkOf(std::string_view op, std::string_view text) {
  Work work;
  const size_t bar = text.rfind('|');
  const std::vector<Shape> shapes = ParseShapes(text.substr(0, bar));
  work.element_bytes = bar == text.npos ? 0 : ElementBytes(text.substr(bar + 1));
  double operands = 0;
  double largest = 0;
  for (const Shape& shape : shapes) {
    operands += Elements(shape);
    largest = std::max(largest, Elements(shape));
  }
  double out = largest;
  if (IsOneOf(op, {"aten::mm", "aten::bmm", "aten::matmul", "aten::_scaled_mm"})) {
    if (shapes.size() >= 2) work.flops = MatmulFlops(shapes[0], shapes[1], false, &out);
  } else if (IsOneOf(op, {"aten::addmm", "aten::baddbmm"})) {
    if (shapes.size() >= 3) work.flops = MatmulFlops(shapes[1], shapes[2], false, &out);
  } else if (op == "aten::linear") {
    if (shapes.size() >= 2) work.flops = MatmulFlops(shapes[0], shapes[1], true, &out);
  } else if (op.find("attention") != op.npos) {
    work.flops = AttentionFlops(op, shapes);
  }
  work.bytes = (operands + out) * work.element_bytes;
  return work;
}

}  // namespace longhaul::profiler
