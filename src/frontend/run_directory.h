// Where the files of a run lie.
//
//   RUN_DIR/cluster/       the embedded cluster's logs and state; of earlier runs: cluster.1 ...
//   RUN_DIR/checkpoints/   committed checkpoints
//   RUN_DIR/events.jsonl   every notification of the controller, one JSON object a line
//   RUN_DIR/owner.lock     held by the run and the processes of its cluster (io/files/owner_lock.h)
//   RUN_DIR/report.md, report.json, metrics.csv, loss.svg, timeline.svg
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"
#include "base/time.h"
#include "base/units.h"
#include "io/files/owner_lock.h"

namespace longhaul::frontend {

struct RunDirectory {
  std::string path;          // absolute
  bool had_content = false;  // with `resume`: there is something to continue from
  io::OwnerLock lock;
};

// How long a resumed run waits for the processes of the run before it to end.
inline constexpr Duration kPreviousRunLimit = std::chrono::seconds(60);

// Makes the directory of a run, checks that it can be written, and becomes its owner. `wanted`
// names it; empty means runs/NAME. One that has content already is only used with `resume`; else
// the first free of PATH-2, PATH-3 ... is made. With `resume`, waits up to `limit` for an owner to
// end, after a call of `waits` with its identity; kAlreadyExists when it does not.
Result<RunDirectory> MakeRunDirectory(
    const std::string& wanted, const std::string& name, bool resume,
    Duration limit = kPreviousRunLimit,
    const std::function<void(const std::string& owner)>& waits = nullptr);

// Moves what an earlier cluster left in RUN_DIR/cluster aside and makes an empty one, for its user
// alone. Returns its path.
Result<std::string> MakeClusterDirectory(const std::string& run_directory);

// What an unprivileged user can still write where `path` lies.
Result<Bytes> FreeSpace(const std::string& path);

}  // namespace longhaul::frontend
