// What a run has recorded, reduced to what a post-mortem needs: notifications and the events that
// are evidence of faults. The files are read by run_files.h. Pure.
//
// Of the step reports only the last one before each other notification is kept, so the size depends
// on the number of faults and attempts and not on the number of steps.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proto/events.pb.h"
#include "proto/status.pb.h"

namespace longhaul::story {

struct RecordedEvent {
  int64_t logged_at_ns = 0;
  // With AgentDisconnected: since the node's event before; -1: there was none.
  int64_t silent_ns = -1;
  proto::Event event;
};

struct CategorySeconds {
  std::string category;  // its name in the report
  double seconds = 0;    // of every worker's time (the mean over the ranks)
};

// What only the report, or the controller, states.
struct RunTotals {
  std::string state;
  std::string reason;
  double goodput = 0;
  double ranks = 1;  // mean over the time of the job
  std::vector<CategorySeconds> categories;
  uint64_t snapshots = 0;       // in memory, of the worker API
  uint64_t interval_steps = 0;  // between two of them
};

struct RunRecord {
  std::string run_directory;  // absolute; empty: unknown
  std::string job_id;
  std::vector<proto::Notification> notifications;  // in order
  std::vector<RecordedEvent> events;               // in order
  bool has_events = false;                         // whether there is an event log
  std::optional<RunTotals> totals;                 // absent: the run has no report yet
  std::vector<std::string> notes;                  // sentences: what could not be read
  // The end of the output of workers, by attempt and rank, where it was read.
  std::map<std::pair<uint64_t, uint32_t>, std::vector<std::string>> outputs;
};

// Takes the entries of one log in order and keeps those that concern one job. Times outside the
// years 1970 to 2200 become 0 and numbers that are not finite become 0: a log may be damaged.
class RunRecorder {
 public:
  // Keeps at most `limit` notifications and as many events; a note states that it was reached.
  explicit RunRecorder(std::string job_id, size_t limit = kMostEntries);

  void TakeNotification(const proto::Notification& notification);
  void TakeEvent(int64_t logged_at_ns, const proto::Event& event);
  // Returns what was taken so far.
  RunRecord Record() const;

 private:
  static constexpr size_t kMostEntries = 200'000;

  const size_t limit_;
  RunRecord record_;
  std::optional<proto::Notification> step_;      // the last one, if it is not kept yet
  std::map<std::string, int64_t> last_of_node_;  // when its last event was logged
  uint64_t unknown_ = 0;                         // entries of kinds that this program does not know
  bool full_ = false;
};

}  // namespace longhaul::story
