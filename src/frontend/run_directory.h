// Where the files of a run lie.
//
//   RUN_DIR/cluster/       the embedded cluster's logs and state; of earlier runs: cluster.1 ...
//   RUN_DIR/checkpoints/   committed checkpoints
//   RUN_DIR/events.jsonl   every notice of the controller, one JSON object a line
//   RUN_DIR/report.md, report.json, metrics.csv, loss.svg, timeline.svg
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "base/units.h"

namespace longhaul::frontend {

struct RunDirectory {
  std::string path;          // absolute
  bool had_content = false;  // with `resume`: there is something to go on from
};

// Makes the directory of a run and checks that it can be written. `wanted` names it; empty means
// runs/NAME. One that has content already is only used with `resume`; else the first free of
// PATH-2, PATH-3 ... is made.
Result<RunDirectory> MakeRunDirectory(const std::string& wanted, const std::string& name,
                                      bool resume);

// Moves what an earlier cluster left in RUN_DIR/cluster aside and makes an empty one, for its user
// alone. Returns its path.
Result<std::string> MakeClusterDirectory(const std::string& run_directory);

// What an unprivileged user can still write where `path` lies.
Result<Bytes> FreeSpace(const std::string& path);

}  // namespace longhaul::frontend
