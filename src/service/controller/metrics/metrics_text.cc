#include "service/controller/metrics/metrics_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace longhaul::service {
namespace {

constexpr size_t kMostExemplarCharacters = 128;  // OpenMetrics 1.0, "Exemplars"

// Label values: backslash, quotation mark and line end are escaped.
std::string EscapedLabel(const std::string& value) {
  std::string escaped;
  for (const char c : value) {
    if (c == '\\' || c == '"') escaped += '\\';
    if (c == '\n') {
      escaped += "\\n";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string MetricNumber(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

std::string LabelText(const MetricLabels& labels) {
  std::string text = "{";
  for (const auto& [label, value] : labels) {
    if (text.size() > 1) text += ',';
    text += fmt::format("{}=\"{}\"", label, EscapedLabel(value));
  }
  return text + '}';
}

const char* NameOf(MetricType type) {
  switch (type) {
    case MetricType::kGauge:
      return "gauge";
    case MetricType::kCounter:
      return "counter";
    case MetricType::kHistogram:
      return "histogram";
  }
  return "unknown";
}

}  // namespace

MetricsFormat MetricsFormatFor(std::string_view accept) {
  return accept.find("application/openmetrics-text") != std::string_view::npos
             ? MetricsFormat::kOpenMetrics
             : MetricsFormat::kPrometheus;
}

const char* ContentTypeOf(MetricsFormat format) {
  return format == MetricsFormat::kOpenMetrics
             ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
             : "text/plain; version=0.0.4; charset=utf-8";
}

Histogram::Histogram(std::span<const double> bounds)
    : bounds_(bounds), counts_(bounds.size() + 1), exemplars_(bounds.size() + 1) {}

void Histogram::Observe(double value, const Exemplar& exemplar) {
  const auto bucket = static_cast<size_t>(std::lower_bound(bounds_.begin(), bounds_.end(), value) -
                                          bounds_.begin());
  ++counts_[bucket];
  sum_ += value;
  auto& newest = exemplars_[bucket];
  if (!newest || newest->at <= exemplar.at) newest = exemplar;
}

void MetricsText::Begin(std::string_view name, MetricType type, std::string_view help) {
  name_ = name;
  std::string_view family = name;
  constexpr std::string_view kTotal = "_total";
  if (format_ == MetricsFormat::kOpenMetrics && family.ends_with(kTotal)) {
    family.remove_suffix(kTotal.size());
  }
  text_ += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", family, help, NameOf(type));
}

void MetricsText::Add(const MetricLabels& labels, double value) {
  AddSample("", labels, value);
  text_ += '\n';
}

void MetricsText::Add(const MetricLabels& labels, const Histogram& histogram) {
  MetricLabels with_bound = labels;
  with_bound.emplace_back("le", "");
  uint64_t count = 0;
  for (size_t i = 0; i < histogram.counts().size(); ++i) {
    count += histogram.counts()[i];
    const bool last = i == histogram.bounds().size();
    with_bound.back().second = last ? "+Inf" : MetricNumber(histogram.bounds()[i]);
    AddSample("_bucket", with_bound, static_cast<double>(count));
    AddExemplar(histogram.exemplars()[i]);
    text_ += '\n';
  }
  AddSample("_sum", labels, histogram.sum());
  text_ += '\n';
  AddSample("_count", labels, static_cast<double>(count));
  text_ += '\n';
}

void MetricsText::AddSample(std::string_view suffix, const MetricLabels& labels, double value) {
  text_ += name_;
  text_ += suffix;
  if (!labels.empty()) text_ += LabelText(labels);
  text_ += ' ' + MetricNumber(value);
}

void MetricsText::AddExemplar(const std::optional<Exemplar>& exemplar) {
  if (format_ != MetricsFormat::kOpenMetrics || !exemplar) return;
  size_t characters = 0;
  for (const auto& [label, value] : exemplar->labels) characters += label.size() + value.size();
  if (characters > kMostExemplarCharacters) return;
  text_ += fmt::format(" # {} {} {:.3f}", LabelText(exemplar->labels),
                       MetricNumber(exemplar->value), ToSeconds(exemplar->at - Instant{}));
}

std::string MetricsText::Finish() && {
  if (format_ == MetricsFormat::kOpenMetrics) text_ += "# EOF\n";
  return std::move(text_);
}

}  // namespace longhaul::service
