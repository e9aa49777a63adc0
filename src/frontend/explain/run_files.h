// Reads what a run has left: the event log of its cluster, events.jsonl, report.json and the logs
// of its workers.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "story/run_record.h"
#include "story/story.h"

namespace longhaul::frontend {

// Reads the record of one job. `path` is a run's directory, or a folder with an event log: the
// state directory of a controller, or the folder cluster.N of an earlier run. `job` is an id or a
// name; empty: the only job there is, or the newest one of a run's directory. An error names what
// is missing and the remedy. Calls `also` with each of the job's notifications in order, those of
// steps too, which a record does not keep.
using TakeNotification = std::function<void(const proto::Notification&)>;
Result<story::RunRecord> ReadRun(const std::string& path, const std::string& job,
                                 const TakeNotification& also = nullptr);

// Takes the lines of events.jsonl about its newest job, or about `job`. Lines that cannot be read
// are skipped, and a note states their number.
Result<story::RunRecord> RecordOfLines(std::string_view text, const std::string& job,
                                       const TakeNotification& also = nullptr);

// Reads report.json. kInvalidArgument when it is not a report.
Result<story::RunTotals> ParseReport(std::string_view json);

// Reads the ends of the workers' outputs that the story asks for, where there are any.
void ReadOutputs(const story::Story& story, story::RunRecord& record);

}  // namespace longhaul::frontend
