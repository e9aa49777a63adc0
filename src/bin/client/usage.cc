// `longhaul usage`: the accelerator-hours that jobs held.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "base/format.h"
#include "base/text.h"
#include "bin/client/client.h"
#include "bin/table.h"

namespace longhaul::bin::client {
namespace {

using service::UrlEncode;

std::vector<std::string> KeysOf(const Json& answer, const Json* row) {
  std::vector<std::string> cells;
  for (const Json& key : answer["by"]) {
    const std::string name = key.get<std::string>();
    cells.push_back(row != nullptr ? (*row)[name].get<std::string>() : name);
  }
  return cells;
}

// A field of RFC 4180.
std::string CsvField(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

constexpr const char* kAmounts[] = {"accelerator_hours", "productive_hours", "unreported_hours",
                                    "lost_hours", "share"};

void PrintCsv(const Json& answer) {
  std::string text = Join(KeysOf(answer, nullptr), ",") + ",jobs";
  for (const char* amount : kAmounts) text += std::string(",") + amount;
  text += "\n";
  for (const Json& row : answer["rows"]) {
    for (const std::string& key : KeysOf(answer, &row)) text += CsvField(key) + ",";
    text += std::to_string(row["jobs"].get<uint64_t>());
    for (const char* amount : kAmounts) text += "," + Decimal(Number(row, amount), 9);
    text += "\n";
  }
  std::printf("%s", text.c_str());
}

void PrintTable(const Json& answer) {
  std::vector<std::string> head = KeysOf(answer, nullptr);
  for (std::string& key : head) {
    std::transform(key.begin(), key.end(), key.begin(),
                   [](char c) { return static_cast<char>(c - 'a' + 'A'); });
  }
  for (const char* column : {"HOURS", "PRODUCTIVE", "UNREPORTED", "LOST", "JOBS", "SHARE"}) {
    head.emplace_back(column);
  }
  Table table(head);
  const auto add = [&table](std::vector<std::string> cells, const Json& row) {
    for (const char* amount :
         {"accelerator_hours", "productive_hours", "unreported_hours", "lost_hours"}) {
      cells.push_back(Decimal(Number(row, amount), 2));
    }
    cells.push_back(std::to_string(row["jobs"].get<uint64_t>()));
    cells.push_back(Percent(Number(row, "share")));
    table.Add(std::move(cells));
  };
  std::vector<Json> rows(answer["rows"].begin(), answer["rows"].end());
  std::stable_sort(rows.begin(), rows.end(), [](const Json& a, const Json& b) {
    return Number(a, "accelerator_hours") > Number(b, "accelerator_hours");
  });
  for (const Json& row : rows) add(KeysOf(answer, &row), row);
  std::vector<std::string> total(answer["by"].size(), "");
  total.front() = "total";
  add(std::move(total), answer["total"]);
  std::printf("Accelerator-hours from %s until %s\n%s", answer["since"].get<std::string>().c_str(),
              answer["until"].get<std::string>().c_str(), table.Text().c_str());
}

int Usage(RestClient& client, const Options& options) {
  std::string path = "/v1/usage?by=" + UrlEncode(options.by);
  if (!options.since.empty()) path += "&since=" + UrlEncode(options.since);
  if (!options.until.empty()) path += "&until=" + UrlEncode(options.until);
  const auto answer = client.Get(path);
  if (!answer.ok()) {
    Fail(answer.status());
    return answer.status().code() == Code::kInvalidArgument ? kExitUsage : kExitFailure;
  }
  if (options.json) {
    PrintJson(*answer);
  } else if (options.csv) {
    PrintCsv(*answer);
  } else {
    PrintTable(*answer);
  }
  return kExitOk;
}

}  // namespace

void AddUsage(CLI::App& app, Action& action, const std::shared_ptr<Options>& options) {
  CLI::App* usage =
      Add(app, action, "usage", "Show the accelerator-hours that jobs held", Usage, options);
  usage
      ->add_option("--by", options->by,
                   "Group by user, project, queue, kind (device model) or job; several with commas")
      ->capture_default_str();
  usage->add_option("--since", options->since,
                    "Begin at a duration before now, a date or an instant in UTC (default: 30d)");
  usage->add_option("--until", options->until, "End at this time (default: now)");
  CLI::Option* json = usage->add_flag("--json", options->json, kJsonHelp);
  usage->add_flag("--csv", options->csv, "Print CSV instead of text")->excludes(json);
  usage->footer(
      "A worker slot counts as an accelerator, from the moment at which it is assigned to a job\n"
      "until the job's workers have ended (docs/usage.md). Times are in UTC. Examples:\n"
      "  longhaul usage\n"
      "  longhaul usage --by user,kind --since 7d\n"
      "  longhaul usage --by project --since 2026-01-01 --until 2026-02-01 --csv");
}

}  // namespace longhaul::bin::client
