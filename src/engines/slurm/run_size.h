// How many nodes a run takes from Slurm, and of which kinds. Pure.
//
// A run begins with its parts: kinds of nodes, each with a fixed number of nodes from Slurm jobs of
// its own. An elastic run then grows up to its maximum by further jobs, each of one group of nodes.
// All nodes have the same number of workers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "spec/job/job.h"

namespace longhaul::engines::slurm {

// A kind of node.
struct Part {
  uint32_t nodes = 1;
  std::vector<std::string> settings;  // options of sbatch, beside those of the whole run
};

// Reads options of sbatch that are separated by blanks: "--nodes=2 --constraint=h100". The number
// of nodes is required.
Result<Part> ParsePart(std::string_view text);
// The same without a number of nodes: the kind of the nodes by which a run grows.
Result<std::vector<std::string>> ParseGrowth(std::string_view text);
// Refuses the options that Longhaul sets itself.
Status CheckSetting(const std::string& setting);

struct RunSize {
  std::vector<uint32_t> parts = {1};  // the nodes of each
  uint32_t usual = 1;                 // nodes beyond these are asked for with a lower priority
  uint32_t maximum = 1;               // with the growth
  uint32_t step = 1;                  // by which the number of nodes may change
  uint32_t group = 1;  // the most nodes of one job of the growth: a multiple of `step`

  uint32_t minimum() const;  // the nodes of all parts
  bool elastic() const { return maximum > minimum(); }
};

// The size of a job on these parts; without any, one part has all the nodes with which the job
// starts. `nodes`: instead of the job's own number.
Result<RunSize> SizeOf(const spec::JobSpec& job, std::optional<uint32_t> nodes,
                       const std::vector<Part>& parts);

// The bounds of a running job's size as a file of one line, "MINIMUM MAXIMUM STEP".
std::string BoundsText(const RunSize& size);
// Why a run with these bounds cannot have so many nodes; OK if it can.
Status CheckTarget(std::string_view bounds, uint32_t nodes);

}  // namespace longhaul::engines::slurm
