// Which submitted jobs are not offered to the scheduler yet, and how far each array has come.
//
// A unit is a job with dependencies, or an array: its elements have the same dependencies and are
// offered in the order of their indices, as many at a time as the array allows. Jobs without
// dependencies are not in this table. All elements of an array are alike, so only a few of those
// that wait are offered: what the first of them lacks, the others lack too. Pure bookkeeping: the
// handler (handlers/job_releaser.h) offers jobs to the scheduler and ends those that can never
// start.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "proto/job.pb.h"

namespace longhaul::runtime::controller {

// The number of elements of an array that wait in the scheduler at a time, at most.
constexpr size_t kMostWaitingElements = 64;

struct ReleaseUnit {
  proto::Job spec;             // an array's has no values: each element has its own
  proto::Dependencies after;   // those that have not ended as required yet
  uint32_t next = 0;           // the first element that was not offered to the scheduler
  std::set<uint32_t> offered;  // elements that were offered and have not ended
  std::set<uint32_t> waiting;  // of those, the ones that have never had nodes
  Instant eligible{};          // when it no longer depended on other jobs
  uint32_t ended = 0;
  uint32_t succeeded = 0;

  // Whether the scheduler may have another element.
  bool has_room() const { return offered.size() < most() && waiting.size() < kMostWaitingElements; }
  bool is_array() const { return spec.has_array(); }
  uint32_t count() const { return is_array() ? spec.array().count() : 1; }
  // The number of elements that the scheduler may have at a time.
  uint32_t most() const;
  bool over() const { return ended == count(); }
  std::string ElementId(uint32_t index) const;
};

// What is known of the end of a job, or of all elements of an array.
struct JobOutcome {
  bool ended = false;
  bool failed = false;  // it, or an element, ended without success
};

enum class DependencyState { kWaits, kSatisfied, kNever };
DependencyState StateOf(proto::Dependencies::When when, const JobOutcome& outcome);
// "to succeed", "to end", "to fail".
const char* VerbOf(proto::Dependencies::When when);

// The job of an element. `value`: null when the array has none.
proto::Job ElementOf(const proto::Job& array, uint32_t index, const std::string* value);
std::string ElementIdOf(const std::string& array, uint32_t index);

// The parts of ARRAY_INDEX; nothing for other ids.
struct ElementName {
  std::string array;
  uint32_t index = 0;
};
std::optional<ElementName> SplitElementId(const std::string& id);

class ReleaseTable {
 public:
  // Adds an array, or a job with dependencies. Requires that the id is new.
  ReleaseUnit& Add(const proto::Job& spec);
  // By the id of an array, or of a job that is not an element; null: there is none.
  const ReleaseUnit* Find(const std::string& id) const;
  ReleaseUnit* Find(const std::string& id);
  // The unit of a job or of an element, by the job's id; null: the job is in no unit.
  const ReleaseUnit* UnitOf(const std::string& job) const;
  bool IsArray(const std::string& id) const;
  // Whether the job was not offered to the scheduler yet. Requires that the job has not ended.
  bool IsHeld(const std::string& job) const;

  // Notes that any job has received nodes.
  void NoteStarted(const std::string& job);
  // Notes the end of any job.
  void NoteEnded(const std::string& job, bool succeeded);
  // The unit no longer depends on other jobs.
  void DropDependencies(ReleaseUnit& unit);
  // Removes and returns the units that an end or a change since the last call may concern, by id.
  std::set<std::string> TakeAffected();
  bool has_affected() const { return !affected_.empty(); }

  // Why a held job waits: "waits for job a-1 to succeed"; empty for other jobs.
  std::string WaitText(const std::string& job) const;
  Status Check() const;
  // Equal states have equal texts.
  std::string Fingerprint() const;

 private:
  std::string NameOf(const std::string& id) const;

  std::map<std::string, ReleaseUnit> units_;
  std::map<std::string, std::set<std::string>> dependants_;  // units by what they wait for
  std::set<std::string> open_;                               // units that are not over
  std::set<std::string> affected_;
};

}  // namespace longhaul::runtime::controller
