// The locations of a run's files.
//
//   RUN_DIR/cluster/       the embedded cluster's logs and state; of earlier runs: cluster.1 ...
//   RUN_DIR/checkpoints/   committed checkpoints
//   RUN_DIR/events.jsonl   every notification of the controller, one JSON object a line
//   RUN_DIR/tensorboard/   the losses and the speed, for TensorBoard
//   RUN_DIR/owner.lock     held by the run and the processes of its cluster (io/files/owner_lock.h)
//   RUN_DIR/report.md, report.json, report.html, metrics.csv, loss.svg, timeline.svg
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
  bool had_content = false;  // with `resume`: the run can continue from this content
  io::OwnerLock lock;
};

// The time that a resumed run waits until the processes of the previous run end.
inline constexpr Duration kPreviousRunLimit = std::chrono::seconds(60);

// Makes the directory of a run, checks that it can be written, and becomes its owner. `wanted`
// names it; empty means runs/NAME. A directory with content is used only with `resume`; otherwise
// the first free one of PATH-2, PATH-3 ... is made. With `resume`, blocks up to `limit` until the
// owner ends, after a call of `waits` with its identity; kAlreadyExists when it does not end.
Result<RunDirectory> MakeRunDirectory(
    const std::string& wanted, const std::string& name, bool resume,
    Duration limit = kPreviousRunLimit,
    const std::function<void(const std::string& owner)>& waits = nullptr);

// Moves the files of an earlier cluster in RUN_DIR/cluster aside and makes an empty folder that
// only its user can read. Returns its path.
Result<std::string> MakeClusterDirectory(const std::string& run_directory);

// The folder of an earlier cluster, which is used again. Forgets the addresses of its controller.
Result<std::string> KeepClusterDirectory(const std::string& run_directory);

// The bytes that an unprivileged user can still write on the file system of `path`, or of the
// folder in which it would be made. Requires an absolute path.
Result<Bytes> FreeSpace(const std::string& path);

}  // namespace longhaul::frontend
