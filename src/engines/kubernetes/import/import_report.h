// What an import changed or left out, for a person and as JSON.
//
// Each field of a manifest that is not translated as it stands has an entry with its path. A field
// without an entry has the same meaning in the LonghaulJob.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/status.h"
#include "engines/kubernetes/jobs/longhaul_job.h"

namespace longhaul::engines::kubernetes {

// Where a manifest was read.
struct ManifestOrigin {
  std::string file;       // as the user named it
  uint32_t document = 1;  // in the file, from 1
  uint32_t item = 0;      // of a List, from 1; 0: it is in no List
  std::string kind;       // "PyTorchJob"
  std::string name;       // "NAMESPACE/NAME", or only one of them

  friend auto operator<=>(const ManifestOrigin&, const ManifestOrigin&) = default;
};

// "job.yaml: document 2, item 1: PyTorchJob default/mnist"
std::string ToString(const ManifestOrigin& origin);

enum class ImportOutcome : uint8_t {
  kDropped,    // not translated: the meaning is lost
  kChanged,    // translated, with another meaning or at another place
  kNotNeeded,  // not translated, and nothing is lost: Longhaul or the API server does it by itself
};

struct ImportEntry {
  ManifestOrigin origin;
  ImportOutcome outcome = ImportOutcome::kDropped;
  std::string path;    // "spec.runPolicy.ttlSecondsAfterFinished"; empty: the whole object
  std::string reason;  // a phrase without a full stop

  friend auto operator<=>(const ImportEntry&, const ImportEntry&) = default;
};

class ImportReport {
 public:
  // An entry that is there already is not added again.
  void Add(ImportEntry entry);

  const std::vector<ImportEntry>& entries() const { return entries_; }
  size_t Count(ImportOutcome outcome) const;

  // For each object a line with its origin and below it a line for each entry: "  PATH: not
  // translated: REASON", what is lost first; at the end a line with the numbers of them.
  std::string ToText() const;
  // {"changed": [...], "dropped": [...], "notNeeded": [...]}, each with objects of file, document,
  // item (in a List), object, path and reason.
  JobJson ToJson() const;

 private:
  std::vector<ImportEntry> entries_;
  std::set<ImportEntry> known_;
};

// The translation of one object: adds to the report, and keeps the first error.
class Translation {
 public:
  Translation(ManifestOrigin origin, ImportReport& report)
      : origin_(std::move(origin)), report_(report) {}

  const ManifestOrigin& origin() const { return origin_; }

  void Changed(const std::string& path, std::string reason);
  void Dropped(const std::string& path, std::string reason);
  void NotNeeded(const std::string& path, std::string reason);

  // The object cannot be translated. `what` says what was found and what was expected.
  void Fail(const std::string& path, const std::string& what);
  bool ok() const { return status_.ok(); }
  // kInvalidArgument with "ORIGIN: PATH: WHAT".
  const Status& status() const { return status_; }

 private:
  void Add(ImportOutcome outcome, const std::string& path, std::string reason);

  const ManifestOrigin origin_;
  ImportReport& report_;
  Status status_;
};

// "'x'", "[...]" or "12": a value for a message, cut to a readable length.
std::string ShowValue(const JobJson& value);

}  // namespace longhaul::engines::kubernetes
