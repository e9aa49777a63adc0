// The post-mortem of a run: for each fault what happened, how it was found, what was done and what
// it cost; and a summary with one advice. Pure: a record in, facts and sentences out. The text and
// the JSON of `longhaul explain` and the web page present the same facts (story_text.h,
// story_json.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/status.pb.h"
#include "story/fault_stages.h"
#include "story/run_record.h"

namespace longhaul::story {

// Something that happened, as a sentence.
struct Moment {
  int64_t at_ns = 0;
  std::string text;
};

// What a worker did, innermost call first.
struct WorkerStack {
  uint32_t rank = 0;
  std::string node;
  std::vector<std::string> calls;
};

struct FaultStory {
  uint32_t number = 0;
  std::string what;        // the first line of the evidence that was decided on
  std::string class_name;  // process, node, hang, error, start, storage
  std::string cause;       // a sentence: what this class means here
  std::string node;        // empty: not of one node
  int32_t rank = -1;       // -1: unknown, or not of one rank
  bool injected = false;
  int64_t happened_at_ns = 0;
  int64_t detected_at_ns = 0;    // its event was in the log
  double after_seconds = 0;      // since the submission
  double detection_seconds = 0;  // from the fault to its event in the log
  std::string detector;          // a sentence: what found it
  std::optional<int32_t> exit_code;
  std::optional<int32_t> signal;
  uint64_t attempt = 0;              // that it ended; 0: unknown
  uint64_t last_step = 0;            // reported before it
  double since_last_step = 0;        // seconds; negative: no step was reported before it
  std::vector<Moment> observations;  // in order
  std::vector<WorkerStack> stacks;   // by rank; empty: none were read
  std::vector<std::string> output;   // the last lines of the worker
  std::string output_file;           // where they were read, in the run's directory; may be empty
  std::vector<Moment> actions;       // in order
  bool restarted = false;
  uint64_t next_attempt = 0;  // 0: none
  uint64_t from_step = 0;     // the step from which work continued
  uint64_t lost_steps = 0;
  bool over = false;                       // a new step was done, or the workers run again
  bool open = false;                       // not over, and the job has not ended
  std::optional<double> recovery_seconds;  // until the first new step
  double cost_seconds = 0;                 // of every worker's time
  double lost_rank_seconds = 0;            // of all workers together
  std::vector<CategorySeconds> costs;      // the same by category, the largest first; may be empty
  std::vector<FaultStage> stages;          // of the recovery, those reached
};

// The faults of one class.
struct CauseRow {
  std::string class_name;
  uint64_t faults = 0;
  uint64_t injected = 0;
  double cost_seconds = 0;
};

struct Story {
  std::string job_id;
  std::string state;
  std::string reason;
  int64_t submitted_at_ns = 0;
  int64_t ended_at_ns = 0;  // 0: it has not ended
  std::vector<FaultStory> faults;
  std::vector<CauseRow> causes;             // by cost, the largest first
  double cost_seconds = 0;                  // of all faults
  std::vector<CategorySeconds> costs;       // the same by category, the largest first
  std::optional<double> goodput;            // of the report, else of the last step
  std::vector<CategorySeconds> categories;  // of the whole run; empty without a report
  std::optional<CategorySeconds> largest_loss;
  // Outside the time between a fault and the attempt after it: slow workers, losses that are not
  // finite, workers that stand still, stalls. In order; the first ones, if there are very many.
  std::vector<Moment> warnings;
  std::string advice;              // sentences; empty: the data suggest nothing
  std::vector<std::string> notes;  // sentences: which evidence is missing
};

Story MakeStory(const RunRecord& record);

// A worker whose last output is evidence.
struct WantedOutput {
  uint64_t attempt = 0;
  uint32_t rank = 0;
};
// Returns the worker whose last output is evidence of the fault; nothing where none is.
std::optional<WantedOutput> OutputOf(const FaultStory& fault);

// "logs/attempt-3/rank-1.log", in the run's directory.
std::string OutputFile(const WantedOutput& output);

}  // namespace longhaul::story
