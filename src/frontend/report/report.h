// The results of a run: the last status and the history, turned into numbers. Pure. The other files
// here turn them into Markdown, JSON, CSV and the summary for the terminal; charts.h draws
// pictures.
//
// Seconds of the ledger are the ranks' mean: rank seconds over the number of ranks, so that they
// add up to the elapsed time.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/run_history.h"
#include "proto/status.pb.h"
#include "story/fault_stages.h"
#include "story/ledger_rows.h"

namespace longhaul::frontend {

// The deliveries of one hook (docs/notify.md).
struct HookRow {
  std::string name;  // without secrets
  uint64_t delivered = 0;
  uint64_t failed = 0;
  uint64_t dropped = 0;    // its queue was full, or the run ended first
  std::string last_error;  // empty: none
};

// Facts that only the process that ran the job can provide.
struct RunFacts {
  std::string version;
  std::string command_line;
  std::string run_directory;
  std::string host;
  std::string processor;
  uint64_t cores = 0;
  double load_average = 0;  // when the run began
  int64_t started_at_ns = 0;
  // By this process's monotonic clock.
  double cluster_seconds = 0;    // until the controller and the agents were ready
  double preparing_seconds = 0;  // until the job was accepted: data, measuring, planning
  double job_seconds = 0;        // from then to its last state
  // The delay with which the two ends of that time reached this process after the controller: each
  // waits for a write of the event log and for the message. Zero: unknown.
  double notification_delay_seconds = 0;
  double process_seconds = 0;  // from the start of the program until the report
  std::vector<HookRow> hooks;
};

// The ledger compared with this process's clock.
struct LedgerCheck {
  double sum_seconds = 0;
  double measured_seconds = 0;
  double difference = 0;       // share of the measured time
  double allowed_seconds = 0;  // of difference
  bool holds = false;          // whether the difference is within that
};
// The share of the measured time by which the sum may differ from it; and the smallest allowance,
// to which the measured delay of the messages at both ends is added (RunFacts).
constexpr double kLedgerTolerance = 0.001;
constexpr double kLedgerFloorSeconds = 0.005;
// A larger delay is not counted: the clocks of two machines differ.
constexpr double kMostNotificationDelaySeconds = 2;

struct FaultRow {
  proto::Fault fault;
  std::vector<story::FaultStage> stages;   // those reached
  std::optional<double> recovery_seconds;  // until the next new step
  std::optional<double> restart_seconds;   // until all processes were running again
  double cost_seconds = 0;                 // badput charged to it, mean over the ranks
};

// A predicted figure beside the measured one.
struct Compared {
  double predicted = 0;
  std::optional<double> measured;
  std::optional<double> error;  // predicted over measured, minus 1
};

// The planner's prediction compared with the run.
struct PredictionCheck {
  Compared step_seconds;         // measured: the median of the steps' distances
  Compared worker_memory_bytes;  // measured: the largest resident memory of a worker
  std::string level;             // assumed, peak or calibrated
  std::string basis;             // the same as text
};

// A warning of the run that is not one of its faults.
struct WarningRow {
  double after_seconds = 0;  // since the job was submitted; negative: before
  bool error = false;
  std::string text;
  uint64_t times = 1;
};

struct Report {
  proto::JobStatus status;
  RunFacts facts;
  uint32_t ranks = 1;         // in the size that the job was planned for
  double mean_ranks = 1;      // over the job's time; differs from `ranks` where its size changed
  bool reports_steps = true;  // false: only the processes of a command are known
  std::vector<story::CategoryRow> categories;  // story/ledger_rows.h
  LedgerCheck ledger;
  std::vector<FaultRow> faults;
  std::vector<WarningRow> warnings;        // in order, each text once
  std::vector<std::string> missed_faults;  // of --inject, that did not happen, as written there
  std::string missed_reason;               // the reason, where it is known
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
