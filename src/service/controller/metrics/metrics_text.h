// Metrics as text, in the two formats that Prometheus reads: its own (0.0.4) and OpenMetrics 1.0.
//
// They differ in three ways. In OpenMetrics the family of a counter has the name without "_total",
// a bucket of a histogram may have an exemplar, and the text ends with "# EOF". Both require that
// all samples of a family follow each other.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"

namespace longhaul::service {

enum class MetricsFormat { kPrometheus, kOpenMetrics };

// Returns the format for a request's Accept header. A client names a format by its media type;
// Prometheus's own is the answer to all others.
MetricsFormat MetricsFormatFor(std::string_view accept);
// The value of Content-Type.
const char* ContentTypeOf(MetricsFormat format);

enum class MetricType { kGauge, kCounter, kHistogram };

using MetricLabels = std::vector<std::pair<std::string, std::string>>;

// An event that a sample counts, so that a reader of the graph can look it up.
struct Exemplar {
  MetricLabels labels;  // at most 128 characters, else the exemplar is left out
  double value = 0;
  Instant at;
};

// What was observed. A bucket counts the values up to its bound, and the last one those above all
// bounds. `exemplars` has an entry for each bucket.
class Histogram {
 public:
  // Requires that the bounds ascend and outlive this.
  explicit Histogram(std::span<const double> bounds);
  // Of the exemplars in a bucket the newest is kept.
  void Observe(double value, const Exemplar& exemplar);

  std::span<const double> bounds() const { return bounds_; }
  const std::vector<uint64_t>& counts() const { return counts_; }  // not cumulative
  const std::vector<std::optional<Exemplar>>& exemplars() const { return exemplars_; }
  double sum() const { return sum_; }

 private:
  std::span<const double> bounds_;
  std::vector<uint64_t> counts_;
  std::vector<std::optional<Exemplar>> exemplars_;
  double sum_ = 0;
};

class MetricsText {
 public:
  explicit MetricsText(MetricsFormat format) : format_(format) {}

  // Begins a family. The name of a counter ends with "_total". The help is one line.
  void Begin(std::string_view name, MetricType type, std::string_view help);
  // Samples of the family that was begun last.
  void Add(const MetricLabels& labels, double value);
  void Add(const MetricLabels& labels, const Histogram& histogram);
  // Returns the whole text. Nothing may be added afterwards.
  std::string Finish() &&;

 private:
  void AddSample(std::string_view suffix, const MetricLabels& labels, double value);
  void AddExemplar(const std::optional<Exemplar>& exemplar);

  MetricsFormat format_;
  std::string name_;
  std::string text_;
};

}  // namespace longhaul::service
