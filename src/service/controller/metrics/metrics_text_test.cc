#include "service/controller/metrics/metrics_text.h"

#include <gtest/gtest.h>

#include <limits>

namespace longhaul::service::metrics_text_test {

constexpr double kBounds[] = {0.5, 2};

Exemplar FaultAt(int64_t seconds, std::string fault) {
  return {.labels = {{"fault", std::move(fault)}},
          .value = 1.25,
          .at = Instant{} + std::chrono::seconds(seconds)};
}

std::string CounterAndHistogram(MetricsFormat format) {
  MetricsText text(format);
  text.Begin("runs_total", MetricType::kCounter, "Runs.");
  text.Add({{"job", "a"}}, 3);
  text.Begin("wait_seconds", MetricType::kHistogram, "Waits.");
  Histogram histogram(kBounds);
  histogram.Observe(0.5, FaultAt(10, "1"));
  histogram.Observe(1.25, FaultAt(30, "3"));
  histogram.Observe(1, FaultAt(20, "2"));
  histogram.Observe(9, FaultAt(40, std::string(130, 'x')));
  text.Add({{"job", "a"}}, histogram);
  return std::move(text).Finish();
}

TEST(MetricsText, IsPrometheusOwnFormatUnlessTheClientNamesOpenMetrics) {
  EXPECT_EQ(MetricsFormatFor(""), MetricsFormat::kPrometheus);
  EXPECT_EQ(MetricsFormatFor("text/plain;version=0.0.4;q=0.5,*/*;q=0.1"),
            MetricsFormat::kPrometheus);
  EXPECT_EQ(MetricsFormatFor("application/openmetrics-text; version=1.0.0,text/plain;q=0.5"),
            MetricsFormat::kOpenMetrics);
}

TEST(MetricsText, HasCumulativeBucketsWithoutExemplars) {
  EXPECT_EQ(CounterAndHistogram(MetricsFormat::kPrometheus),
            "# HELP runs_total Runs.\n"
            "# TYPE runs_total counter\n"
            "runs_total{job=\"a\"} 3\n"
            "# HELP wait_seconds Waits.\n"
            "# TYPE wait_seconds histogram\n"
            "wait_seconds_bucket{job=\"a\",le=\"0.5\"} 1\n"
            "wait_seconds_bucket{job=\"a\",le=\"2\"} 3\n"
            "wait_seconds_bucket{job=\"a\",le=\"+Inf\"} 4\n"
            "wait_seconds_sum{job=\"a\"} 11.75\n"
            "wait_seconds_count{job=\"a\"} 4\n");
}

TEST(MetricsText, InOpenMetricsHasTheNewestExemplarOfABucketThatIsShortEnough) {
  EXPECT_EQ(CounterAndHistogram(MetricsFormat::kOpenMetrics),
            "# HELP runs Runs.\n"
            "# TYPE runs counter\n"
            "runs_total{job=\"a\"} 3\n"
            "# HELP wait_seconds Waits.\n"
            "# TYPE wait_seconds histogram\n"
            "wait_seconds_bucket{job=\"a\",le=\"0.5\"} 1 # {fault=\"1\"} 1.25 10.000\n"
            "wait_seconds_bucket{job=\"a\",le=\"2\"} 3 # {fault=\"3\"} 1.25 30.000\n"
            "wait_seconds_bucket{job=\"a\",le=\"+Inf\"} 4\n"
            "wait_seconds_sum{job=\"a\"} 11.75\n"
            "wait_seconds_count{job=\"a\"} 4\n"
            "# EOF\n");
}

TEST(MetricsText, EscapesLabelsAndHasNumbersThatAreNotFinite) {
  MetricsText text(MetricsFormat::kPrometheus);
  text.Begin("g", MetricType::kGauge, "G.");
  text.Add({{"a", "x\\y\"z\nw"}, {"b", ""}}, std::numeric_limits<double>::infinity());
  text.Add({}, std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(std::move(text).Finish(),
            "# HELP g G.\n# TYPE g gauge\ng{a=\"x\\\\y\\\"z\\nw\",b=\"\"} +Inf\ng NaN\n");
}

}  // namespace longhaul::service::metrics_text_test
