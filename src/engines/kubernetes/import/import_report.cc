#include "engines/kubernetes/import/import_report.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/text.h"
#include "base/utf8.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr size_t kShownText = 80;
constexpr size_t kShownPath = 500;
constexpr std::array kOutcomes = {ImportOutcome::kDropped, ImportOutcome::kChanged,
                                  ImportOutcome::kNotNeeded};

std::string_view Title(ImportOutcome outcome) {
  switch (outcome) {
    case ImportOutcome::kChanged:
      return "changed";
    case ImportOutcome::kDropped:
      return "not translated";
    case ImportOutcome::kNotNeeded:
      return "not needed";
  }
  return "";
}

JobJson EntryJson(const ImportEntry& entry) {
  JobJson json = {{"file", entry.origin.file}, {"document", entry.origin.document}};
  if (entry.origin.item != 0) json["item"] = entry.origin.item;
  json["object"] = Printable(entry.origin.kind + " " + entry.origin.name);
  json["path"] = entry.path;
  json["reason"] = entry.reason;
  return json;
}

}  // namespace

std::string ToString(const ManifestOrigin& origin) {
  std::string text =
      Printable(origin.file, kShownPath) + ": document " + std::to_string(origin.document);
  if (origin.item != 0) text += ", item " + std::to_string(origin.item);
  if (!origin.kind.empty()) text += ": " + Printable(origin.kind);
  if (!origin.name.empty()) text += " " + Printable(origin.name);
  return text;
}

void ImportReport::Add(ImportEntry entry) {
  if (known_.insert(entry).second) entries_.push_back(std::move(entry));
}

size_t ImportReport::Count(ImportOutcome outcome) const {
  return static_cast<size_t>(std::ranges::count(entries_, outcome, &ImportEntry::outcome));
}

std::string ImportReport::ToText() const {
  if (entries_.empty()) return "";
  std::vector<ManifestOrigin> origins;  // in the order of their first entries
  std::map<ManifestOrigin, std::map<ImportOutcome, std::string>> lines;
  for (const ImportEntry& entry : entries_) {
    if (!lines.contains(entry.origin)) origins.push_back(entry.origin);
    const std::string place = entry.path.empty() ? "" : Printable(entry.path, kShownPath) + ": ";
    lines[entry.origin][entry.outcome] +=
        "  " + place + std::string(Title(entry.outcome)) + ": " + entry.reason + "\n";
  }
  std::string text;
  for (const ManifestOrigin& origin : origins) {
    text += ToString(origin) + "\n";
    for (const auto& [outcome, entries] : lines[origin]) text += entries;
  }
  for (const ImportOutcome outcome : kOutcomes) {
    text += (outcome == kOutcomes.front() ? "" : ", ") + std::to_string(Count(outcome)) + " " +
            std::string(Title(outcome));
  }
  return text + "\n";
}

JobJson ImportReport::ToJson() const {
  JobJson json = {{"changed", JobJson::array()},
                  {"dropped", JobJson::array()},
                  {"notNeeded", JobJson::array()}};
  for (const ImportEntry& entry : entries_) {
    const bool changed = entry.outcome == ImportOutcome::kChanged;
    const bool dropped = entry.outcome == ImportOutcome::kDropped;
    json[changed ? "changed" : dropped ? "dropped" : "notNeeded"].push_back(EntryJson(entry));
  }
  return json;
}

void Translation::Add(ImportOutcome outcome, const std::string& path, std::string reason) {
  report_.Add({origin_, outcome, path, std::move(reason)});
}
void Translation::Changed(const std::string& path, std::string reason) {
  Add(ImportOutcome::kChanged, path, std::move(reason));
}
void Translation::Dropped(const std::string& path, std::string reason) {
  Add(ImportOutcome::kDropped, path, std::move(reason));
}
void Translation::NotNeeded(const std::string& path, std::string reason) {
  Add(ImportOutcome::kNotNeeded, path, std::move(reason));
}

void Translation::Fail(const std::string& path, const std::string& what) {
  if (!status_.ok()) return;
  const std::string place = path.empty() ? "" : Printable(path, kShownPath) + ": ";
  status_ = InvalidArgument(ToString(origin_) + ": " + place + what);
}

std::string ShowValue(const JobJson& value) {
  if (value.is_null()) return "null";
  if (value.is_string())
    return "'" + Printable(value.get_ref<const std::string&>(), kShownText) + "'";
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  return Printable(value.dump(-1, ' ', false, JobJson::error_handler_t::replace), kShownText);
}

}  // namespace longhaul::engines::kubernetes
