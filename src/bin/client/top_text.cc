#include "bin/client/top_text.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/format.h"
#include "base/text.h"
#include "base/time.h"
#include "bin/table.h"

namespace longhaul::bin::client {
namespace {

// One part of the picture.
struct Section {
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;
  size_t total = 0;  // of which `rows` are the first ones
  size_t shown = 0;  // rows that fit
};

std::string TextOf(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? Harmless(found->get<std::string>()) : "";
}

std::string TextOrDash(std::string text) { return text.empty() ? "-" : text; }

// "2" or "2.5"; "-" where there is no number: no limit.
std::string Slots(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number()) return "-";
  const auto amount = found->get<double>();
  return Decimal(amount, amount == static_cast<double>(static_cast<int64_t>(amount)) ? 0 : 1);
}

std::string Whole(const Json& json, const char* key) {
  return std::to_string(static_cast<uint64_t>(std::max(0.0, Number(json, key))));
}

const Json& ListOf(const Json& json, const char* key) {
  static const Json none = Json::array();
  const auto found = json.find(key);
  return found != json.end() && found->is_array() ? *found : none;
}

Section QueueSection(const Json& view) {
  Section section;
  section.head = {"QUEUE", "USED", "GUARANTEE", "LIMIT", "BORROWED", "RUNNING", "WAITING"};
  for (const Json& queue : ListOf(view, "queues")) {
    section.rows.push_back({TextOf(queue, "name"), Slots(queue, "usage"), Slots(queue, "guarantee"),
                            Slots(queue, "limit"), Slots(queue, "borrowed"),
                            Whole(queue, "running"), Whole(queue, "waiting")});
  }
  section.total = section.rows.size();
  return section;
}

Section RunningSection(const Json& view) {
  Section section;
  section.head = {"RUNNING", "STATE", "QUEUE", "WORKERS", "STEP", "GOODPUT", "ETA", "FAULTS"};
  for (const Json& job : ListOf(view, "running")) {
    const double eta = Number(job, "eta_seconds");
    const std::string total = Number(job, "total_steps") > 0 ? "/" + Whole(job, "total_steps") : "";
    section.rows.push_back({TextOf(job, "id"), TextOf(job, "state"),
                            TextOrDash(TextOf(job, "queue")), Whole(job, "workers"),
                            Whole(job, "step") + total, Percent(Number(job, "goodput")),
                            eta < 0 ? "-" : SecondsText(eta), Whole(job, "faults")});
  }
  section.total = static_cast<size_t>(std::max(0.0, Number(view, "running_total")));
  return section;
}

Section WaitingSection(const Json& view) {
  Section section;
  section.head = {"WAITING", "QUEUE", "WORKERS", "SINCE", "REASON"};
  for (const Json& job : ListOf(view, "waiting")) {
    const double since = (Number(view, "now_ms") - Number(job, "submitted_at_ms")) / 1e3;
    section.rows.push_back({TextOf(job, "id"), TextOrDash(TextOf(job, "queue")),
                            Whole(job, "workers"), SecondsText(std::max(0.0, since)),
                            TextOrDash(TextOf(job, "sentence"))});
  }
  section.total = static_cast<size_t>(std::max(0.0, Number(view, "waiting_total")));
  return section;
}

// The nodes' columns: texts in the lists of `key`, by the indices of `column`.
std::string NodeText(const Json& nodes, const char* column, const char* key, size_t i) {
  const Json& indices = ListOf(nodes, column);
  const Json& texts = ListOf(nodes, key);
  if (i >= indices.size() || !indices[i].is_number_integer()) return "";
  const auto index = indices[i].get<int64_t>();
  if (index < 0 || static_cast<size_t>(index) >= texts.size()) return "";
  const Json& text = texts[static_cast<size_t>(index)];
  return text.is_string() ? Harmless(text.get<std::string>()) : "";
}

Section NodeSection(const Json& view) {
  Section section;
  section.head = {"NODE NOT READY", "CONDITION", "PLACE", "JOB"};
  const Json nodes = view.contains("nodes") ? view["nodes"] : Json::object();
  const Json& names = ListOf(nodes, "name");
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string condition = NodeText(nodes, "condition", "conditions", i);
    if (condition.starts_with("ready") || !names[i].is_string()) continue;
    section.rows.push_back({Harmless(names[i].get<std::string>()), condition,
                            TextOrDash(NodeText(nodes, "place", "places", i)),
                            TextOrDash(NodeText(nodes, "job", "jobs", i))});
  }
  section.total = section.rows.size();
  return section;
}

double SumOf(const Json& numbers) {
  double sum = 0;
  for (const Json& each : numbers) sum += each.is_number() ? each.get<double>() : 0.0;
  return sum;
}

std::string HeadLine(const Json& view, size_t not_ready) {
  const Json nodes = view.contains("nodes") ? view["nodes"] : Json::object();
  const size_t all = ListOf(nodes, "name").size();
  const auto now = InstantFromNanoseconds(static_cast<int64_t>(Number(view, "now_ms")) * 1'000'000);
  return ToString(now).substr(11, 8) + "Z  " + std::to_string(all - not_ready) + " of " +
         Plural(all, "node") + " ready  " + Decimal(SumOf(ListOf(nodes, "used")), 0) + " of " +
         Decimal(SumOf(ListOf(nodes, "slots")), 0) + " slots used  " +
         Whole(view, "running_total") + " running  " + Whole(view, "waiting_total") + " waiting";
}

// Each section that has rows needs an empty line, a head, and a line more if rows are missing.
size_t LinesOf(const Section& section) {
  if (section.total == 0) return 0;
  return 2 + section.shown + (section.shown < section.total ? 1 : 0);
}

// Gives one row after another to each section in turn, as long as there is room.
void Share(std::vector<Section>& sections, size_t room) {
  for (bool more = true; more;) {
    more = false;
    for (size_t i = 0; i < sections.size(); ++i) {
      Section& section = sections[i];
      if (section.shown >= section.rows.size()) continue;
      ++section.shown;
      size_t lines = 0;
      for (const Section& each : sections) lines += LinesOf(each);
      if (lines > room) {
        --section.shown;
      } else {
        more = true;
      }
    }
  }
}

void Append(const Section& section, size_t columns, std::vector<std::string>& lines) {
  if (section.total == 0) return;
  Table table(section.head);
  for (size_t i = 0; i < section.shown; ++i) table.Add(section.rows[i]);
  lines.emplace_back();
  const std::string text = table.Text();
  for (const std::string_view line :
       longhaul::Split(std::string_view(text).substr(0, text.size() - 1), '\n')) {
    lines.push_back(Fit(line, columns));
  }
  if (section.shown < section.total) {
    lines.push_back(Fit("and " + std::to_string(section.total - section.shown) + " more", columns));
  }
}

}  // namespace

std::vector<std::string> TopLines(const Json& view, const TopSize& size,
                                  const std::string& notice) {
  std::vector<Section> sections = {QueueSection(view), RunningSection(view), WaitingSection(view),
                                   NodeSection(view)};
  std::vector<std::string> lines = {Fit(HeadLine(view, sections.back().total), size.columns)};
  if (!notice.empty()) lines.push_back(Fit(Harmless(notice), size.columns));
  if (size.rows == 0) {
    for (Section& section : sections) section.shown = section.rows.size();
  } else {
    Share(sections, size.rows - std::min(size.rows, lines.size()));
  }
  for (const Section& section : sections) Append(section, size.columns, lines);
  // A very small terminal has no room for the heads of all sections.
  if (size.rows > 0 && lines.size() > size.rows) lines.resize(size.rows);
  return lines;
}

}  // namespace longhaul::bin::client
