// What a run was worth: the end's status and the history, turned into numbers. Pure. The other
// files here turn them into Markdown, JSON, CSV and the summary for the terminal, charts.h into
// pictures.
//
// Seconds of the ledger are the ranks' mean: rank seconds over the number of ranks, so that they
// add up to the time a person waited.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "frontend/run_history.h"
#include "proto/status.pb.h"

namespace longhaul::frontend {

// What only the process that ran it knows.
struct RunFacts {
  std::string version;
  std::string command_line;
  std::string run_directory;
  std::string host;
  std::string processor;
  uint64_t cores = 0;
  double load_average = 0;  // when the run began
  int64_t started_at_ns = 0;
  // By this process's own clock that never jumps.
  double cluster_seconds = 0;    // until the controller and the agents were there
  double preparing_seconds = 0;  // until the job was accepted: data, measuring, planning
  double job_seconds = 0;        // from then to its last state
  // How much later than the controller this process learned of the two ends of that time: both wait
  // for a write of the event log and for the message. Zero: unknown.
  double notification_delay_seconds = 0;
  double process_seconds = 0;  // from the start of the program until the report
};

struct CategoryRow {
  std::string name;     // "snapshot"
  std::string meaning;  // "stopped for a copy of the state"
  double seconds = 0;
  double share = 0;  // of the ledger's sum
};

// The ledger held against this process's clock.
struct LedgerCheck {
  double sum_seconds = 0;
  double measured_seconds = 0;
  double difference = 0;       // share of the measured time
  double allowed_seconds = 0;  // of difference
  bool holds = false;          // within that
};
// The share of the measured time that the sum may differ from it by; and the least, beside what the
// messages at both ends were measured to be late (RunFacts).
constexpr double kLedgerTolerance = 0.001;
constexpr double kLedgerFloorSeconds = 0.005;
// A delay beyond this explains nothing: the clocks of two machines differ.
constexpr double kMostNotificationDelaySeconds = 2;

struct FaultStage {
  std::string name;           // "detected"
  double at_seconds = 0;      // after the fault happened
  double took_seconds = 0;    // since the stage before
  double budget_seconds = 0;  // what it may take; 0: depends on the job
};

struct FaultRow {
  proto::Fault fault;
  std::vector<FaultStage> stages;          // those reached
  std::optional<double> recovery_seconds;  // until the next new step
  std::optional<double> restart_seconds;   // until all processes were there again
  double cost_seconds = 0;                 // badput charged to it, mean over the ranks
};

// A predicted figure beside what was measured.
struct Compared {
  double predicted = 0;
  std::optional<double> measured;
  std::optional<double> error;  // predicted over measured, minus 1
};

// The planner's prediction held against the run.
struct PredictionCheck {
  Compared step_seconds;         // measured: the median of the steps' distances
  Compared worker_memory_bytes;  // measured: resident at most, of the fullest worker
  std::string level;             // assumed, peak or calibrated
  std::string basis;             // the same in words
};

// What the run warned of beside its faults.
struct WarningRow {
  double after_seconds = 0;  // since the job was submitted; negative: before
  bool error = false;
  std::string text;
  uint64_t times = 1;
};

struct Report {
  proto::JobStatus status;
  RunFacts facts;
  uint32_t ranks = 1;         // of the size that the job was planned for
  double mean_ranks = 1;      // over the job's time: another number where its size has changed
  bool reports_steps = true;  // false: a command of which nothing but its processes is known
  std::vector<CategoryRow> categories;  // those with time, the productive one first, then by size
  LedgerCheck ledger;
  std::vector<FaultRow> faults;
  std::vector<WarningRow> warnings;        // in order, each text once
  std::vector<std::string> missed_faults;  // of --inject, that did not happen, in its words
  std::string missed_reason;               // why, as far as that can be said
  // From the workers' results, merged.
  nlohmann::ordered_json results = nlohmann::ordered_json::object();
  std::string sample;                    // generated text; empty: none
  std::optional<double> peak_flops;      // a second, measured, over all ranks
  std::optional<double> achieved_flops;  // model FLOPs a second of productive time
  std::optional<double> flops_utilisation;
  std::optional<PredictionCheck> prediction;  // absent: none was made
  double snapshot_seconds = 0;                // the ledger's, for the cost of all snapshots
};

Report MakeReport(const proto::JobStatus& status, const RunHistory& history, const RunFacts& facts);

}  // namespace longhaul::frontend
