// The input of `longhaul simulate --trace`: a workload in one of several formats, and a cluster.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "scheduler/traces/trace.h"
#include "spec/cluster/topology.h"

namespace longhaul::bin {

struct TraceInput {
  std::vector<scheduler::TraceJob> jobs;  // sorted by arrival; at least one
  std::string format;
  std::vector<std::string> notes;  // what was left out, a sentence each
};

// The values of --format: "auto", then the formats.
std::vector<std::string> TraceFormats();

// Reads the file in `format`, or in the one that its first line shows ("auto"). `month`, such as
// 2017-10, keeps only the jobs that arrived in it; empty: all. `measured` is the folder of measured
// times from which the durations of the format "pollux" follow, with a folder for each application;
// no other format has one.
Result<TraceInput> ReadTrace(const std::string& file, const std::string& format,
                             const std::string& month, const std::string& measured = "");

// Reads a cluster file (YAML), or the list of nodes of the openb trace.
Result<spec::ClusterDeclaration> ReadTraceCluster(const std::string& file);

// Drops the device models and the counted resources that jobs require, because no cluster file
// declares any. Adds a note if there were some.
void DropUndeclaredNeeds(TraceInput& input);

}  // namespace longhaul::bin
