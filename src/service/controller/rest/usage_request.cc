#include "service/controller/rest/usage_request.h"

#include <algorithm>
#include <array>

#include "base/instant_text.h"
#include "base/text.h"

namespace longhaul::service {
namespace {

using Json = nlohmann::ordered_json;
using runtime::ToHours;

constexpr size_t kLongestValue = 200;

// The three forms cannot be confused: a duration begins with a number and ends with a unit, the
// others contain a '-'.
Result<Instant> ParseTime(const std::string& text, Instant now) {
  const Result<Duration> before = ParseDuration(text);
  if (before.ok()) return now - *before;
  const Result<Instant> at = ParseInstant(text);
  if (at.ok()) return at;
  return InvalidArgument("'" + Printable(text, 40) +
                         "' is not a time: write a duration before now (30d, 12h), a date "
                         "(2026-01-31) or an instant in UTC (2026-01-31T08:00:00Z)");
}

Result<std::vector<runtime::UsageKey>> ParseKeys(std::string_view text) {
  std::vector<runtime::UsageKey> keys;
  for (const std::string_view part : Split(text, ',')) {
    ASSIGN_OR_RETURN(const runtime::UsageKey key, runtime::ParseUsageKey(Trim(part)));
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) {
      return InvalidArgument("'" + std::string(runtime::NameOf(key)) + "' is named twice");
    }
    keys.push_back(key);
  }
  return keys;
}

Json RowJson(const runtime::UsageRow& row, const runtime::UsageRow& total) {
  const auto share = [](runtime::AcceleratorTime part, runtime::AcceleratorTime whole) {
    return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
  };
  return {{"accelerator_hours", ToHours(row.time.held)},
          {"productive_hours", ToHours(row.time.productive)},
          {"unreported_hours", ToHours(row.time.unreported)},
          {"lost_hours", ToHours(row.time.lost())},
          {"jobs", row.jobs},
          {"share", share(row.time.held, total.time.held)}};
}

}  // namespace

Result<runtime::UsageQuery> ParseUsageQuery(const std::map<std::string, std::string>& query,
                                            Instant now) {
  static constexpr std::array<std::string_view, 3> kKnown = {"by", "since", "until"};
  std::map<std::string_view, std::string> values = {
      {"by", "user"}, {"since", "30d"}, {"until", "0s"}};
  for (const auto& [key, value] : query) {
    const auto known = std::find(kKnown.begin(), kKnown.end(), key);
    if (known == kKnown.end()) {
      return InvalidArgument("unknown parameter '" + Printable(key, 40) +
                             "', expected by, since or until");
    }
    if (value.size() > kLongestValue) {
      return InvalidArgument("'" + key + "' has " + std::to_string(value.size()) +
                             " bytes, at most " + std::to_string(kLongestValue) + " are allowed");
    }
    values[*known] = value;
  }
  runtime::UsageQuery wanted;
  const auto keys = ParseKeys(values["by"]);
  if (!keys.ok()) return keys.status().WithContext("by");
  wanted.by = *keys;
  const auto since = ParseTime(values["since"], now);
  if (!since.ok()) return since.status().WithContext("since");
  wanted.since = *since;
  const auto until = ParseTime(values["until"], now);
  if (!until.ok()) return until.status().WithContext("until");
  // A period that ends in the future is cut, because no usage of the future exists.
  wanted.until = std::min(*until, now);
  if (wanted.since < wanted.until) return wanted;
  return InvalidArgument("since " + ToString(wanted.since) + " is not before until " +
                         ToString(wanted.until));
}

Json ToJson(const runtime::UsageQuery& query, const runtime::UsageReport& report) {
  Json rows = Json::array();
  Json by = Json::array();
  for (const runtime::UsageKey key : query.by) by.push_back(runtime::NameOf(key));
  for (const runtime::UsageRow& row : report.rows) {
    Json keys = Json::object();
    for (size_t i = 0; i < query.by.size(); ++i) keys[by[i]] = row.keys[i];
    keys.update(RowJson(row, report.total));
    rows.push_back(std::move(keys));
  }
  return {{"since", ToString(report.since)},
          {"until", ToString(report.until)},
          {"since_ns", ToNanoseconds(report.since)},
          {"until_ns", ToNanoseconds(report.until)},
          {"exact_since_ns", ToNanoseconds(report.exact_since)},
          {"by", std::move(by)},
          {"rows", std::move(rows)},
          {"total", RowJson(report.total, report.total)}};
}

}  // namespace longhaul::service
