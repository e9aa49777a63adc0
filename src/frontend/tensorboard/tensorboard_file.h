// The event file of a run for TensorBoard, written while the run happens.
#pragma once

#include <fstream>
#include <string>

#include "base/time.h"
#include "proto/status.pb.h"

namespace longhaul::frontend {

// RUN_DIR/tensorboard/events.out.tfevents.SECONDS.longhaul. Each start of the front end makes a
// file of its own; TensorBoard reads all of a folder in the order of their names.
//
// What cannot be written, as on a full disk, is left out, and the next record begins another file,
// because nothing can be read after a record that was cut. metrics.csv has all of it at the end.
class TensorBoardFile {
 public:
  // Makes no file before the first record. `run_directory` exists.
  explicit TensorBoardFile(const std::string& run_directory);

  // Takes a notification of the job: steps and attempts are written, others are not.
  void Take(const proto::Notification& notification);

 private:
  void Append(const std::string& record, Instant at);
  void Open(Instant at);

  std::string folder_;
  std::string newest_;  // the file that was opened last
  std::ofstream file_;
};

}  // namespace longhaul::frontend
