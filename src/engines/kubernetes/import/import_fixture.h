// For tests of the import: manifests as texts, and what became of their fields.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "engines/kubernetes/import/importer.h"
#include "engines/kubernetes/import/manifest/manifest_reader.h"

namespace longhaul::engines::kubernetes {

// What the report has on a path: "dropped: REASON", "" for no entry.
inline std::string Noted(const ImportReport& report, const std::string& path) {
  std::string text;
  for (const ImportEntry& entry : report.entries()) {
    if (entry.path != path) continue;
    const bool changed = entry.outcome == ImportOutcome::kChanged;
    const bool dropped = entry.outcome == ImportOutcome::kDropped;
    text += (text.empty() ? "" : "; ") +
            std::string(changed   ? "changed: "
                        : dropped ? "dropped: "
                                  : "not needed: ") +
            entry.reason;
  }
  return text;
}

// The paths of all entries with this outcome.
inline std::vector<std::string> Paths(const ImportReport& report, ImportOutcome outcome) {
  std::vector<std::string> paths;
  for (const ImportEntry& entry : report.entries()) {
    if (entry.outcome == outcome) paths.push_back(entry.path);
  }
  return paths;
}

inline Result<ImportResult> TryImport(std::string_view text) {
  ASSIGN_OR_RETURN(const std::vector<Manifest> manifests, ReadManifests(text, "job.yaml"));
  return ImportJobs(manifests);
}

// Requires that exactly one job results.
inline ImportResult Imported(std::string_view text) {
  Result<ImportResult> result = TryImport(text);
  EXPECT_TRUE(result.ok()) << result.status();
  // With the members that tests read.
  const JobJson none = {{"metadata", JobJson::object()},
                        {"spec", {{"job", JobJson::object()}, {"template", {{"spec", {}}}}}}};
  if (!result.ok()) return {{none}, {}};
  EXPECT_EQ(result->jobs.size(), 1u);
  return *std::move(result);
}

inline std::string ImportError(std::string_view text) {
  const Result<ImportResult> result = TryImport(text);
  return result.ok() ? "no error" : result.status().message();
}

}  // namespace longhaul::engines::kubernetes
