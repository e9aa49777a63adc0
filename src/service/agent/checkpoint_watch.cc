#include "service/agent/checkpoint_watch.h"

namespace longhaul::service {

using checkpoint::CheckpointDirectory;

void CheckpointWatch::NoteCommitted(const std::string& folder) {
  std::vector<Checkpoint>& committed = committed_[folder];
  committed.clear();
  const auto manifests = CheckpointDirectory(files_, folder).List();
  if (!manifests.ok()) return;
  for (const checkpoint::Manifest& manifest : *manifests) {
    committed.emplace_back(manifest.step, manifest.attempt);
  }
}

std::vector<CheckpointWatch::Checkpoint> CheckpointWatch::TakeMissing(const std::string& folder) {
  std::vector<Checkpoint> missing;
  const auto found = committed_.find(folder);
  if (found == committed_.end()) return missing;
  std::vector<Checkpoint> left;
  for (const Checkpoint& each : found->second) {
    const std::string name = CheckpointDirectory::NameOf(each.first, each.second);
    const Status there = files_.Size(folder + "/" + name + "/MANIFEST").status();
    (there.code() == Code::kNotFound ? missing : left).push_back(each);
  }
  found->second = std::move(left);
  return missing;
}

}  // namespace longhaul::service
