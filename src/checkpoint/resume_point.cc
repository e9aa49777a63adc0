#include "checkpoint/resume_point.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace longhaul::checkpoint {
namespace {

// kDataLoss when a byte of the checkpoint is not as it was written.
// Every byte is verified before the job is accepted. A damaged checkpoint that is found at the
// first start would cost all nodes their start.
Status ReadAll(CheckpointDirectory& directory, const Manifest& manifest) {
  for (const PieceFile& file : manifest.files) {
    RETURN_IF_ERROR(directory.ReadPiece(manifest.step, manifest.attempt, file.rank).status());
  }
  return Status();
}

std::string NameOf(const UnusableStep& one) {
  return CheckpointDirectory::NameOf(one.step, one.attempt);
}

// Renames a step's folder to the first of "damaged-NAME", "damaged-NAME.2", ... that is free.
// Renamed and not removed: a person may still recover something. The new name is none that
// CheckpointDirectory recognises.
Result<std::string> MoveAside(io::FileSystem& files, const std::string& folder,
                              const std::string& name) {
  constexpr int kMostNames = 1'000;
  for (int i = 1; i <= kMostNames; ++i) {
    const std::string aside = "damaged-" + name + (i == 1 ? "" : "." + std::to_string(i));
    const Result<std::vector<std::string>> there = files.List(folder + "/" + aside);
    if (there.ok()) continue;
    if (there.status().code() != Code::kNotFound) return there.status();
    RETURN_IF_ERROR(files.Rename(folder + "/" + name, folder + "/" + aside));
    return aside;
  }
  return FailedPrecondition(folder + " has " + std::to_string(kMostNames) +
                            " folders named damaged-" + name + " already: remove them");
}

}  // namespace

Result<ResumePoint> FindResumePoint(io::FileSystem& files, const std::string& folder,
                                    const std::function<Status(const Manifest&)>& check) {
  CheckpointDirectory directory(files, folder);
  ASSIGN_OR_RETURN(StepSurvey steps, directory.Survey());
  ResumePoint point;
  point.damaged = std::move(steps.damaged);
  for (Manifest& manifest : steps.committed) {
    // A checkpoint of another model or of other data is an error of the user, not damage, so no
    // older one is tried.
    RETURN_IF_ERROR(check(manifest));
    const Status whole = ReadAll(directory, manifest);
    if (whole.ok()) {
      point.good = std::move(manifest);
      break;
    }
    if (whole.code() != Code::kDataLoss) return whole;
    point.damaged.push_back({manifest.step, manifest.attempt, whole.message()});
  }
  std::sort(point.damaged.begin(), point.damaged.end(), [](const auto& a, const auto& b) {
    return std::pair(a.step, a.attempt) > std::pair(b.step, b.attempt);
  });
  return point;
}

Result<std::vector<std::string>> MoveDamagedAside(io::FileSystem& files, const std::string& folder,
                                                  const ResumePoint& point, uint64_t step) {
  std::vector<std::string> notes;
  for (const UnusableStep& one : point.damaged) {
    // An older damaged step does not matter to the run.
    if (one.step < step) {
      notes.push_back("checkpoint " + NameOf(one) + " is damaged too (" + one.reason +
                      "); it is older than step " + std::to_string(step) + " and not needed");
      continue;
    }
    ASSIGN_OR_RETURN(const std::string aside, MoveAside(files, folder, NameOf(one)));
    notes.push_back("checkpoint " + NameOf(one) + " is damaged (" + one.reason +
                    ") and is now named " + aside);
  }
  if (!point.damaged.empty() && point.damaged.front().step > step) {
    const uint64_t newest = point.damaged.front().step;
    notes.push_back(std::to_string(newest - step) + (newest - step == 1 ? " step" : " steps") +
                    " of training lost: the newest checkpoint, of step " + std::to_string(newest) +
                    ", is damaged, and the run continues after step " + std::to_string(step));
  }
  return notes;
}

std::string DamagedSteps(const std::vector<UnusableStep>& damaged) {
  std::vector<std::string> texts;
  for (const UnusableStep& one : damaged) texts.push_back(NameOf(one) + " (" + one.reason + ")");
  return Join(texts, ", ");
}

}  // namespace longhaul::checkpoint
