#include "engines/slurm/run_comment.h"

#include <algorithm>
#include <vector>

#include "base/text.h"

namespace longhaul::engines::slurm {
namespace {

constexpr std::string_view kMark = "longhaul ";
constexpr size_t kFields = 6;
constexpr uint32_t kMostNodesOfAJob = 1'000'000;

bool IsRole(std::string_view text) {
  return !text.empty() && text.size() <= 16 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

}  // namespace

std::string RunComment(const std::string& role, const std::string& run_directory) {
  return std::string(kMark) + role + " " + run_directory;
}

std::optional<RunJob> ParseRunJob(std::string_view line) {
  size_t end = 0;  // of the fields before the comment
  size_t fields[kFields - 1] = {};
  for (size_t& field : fields) {
    field = line.find('|', end);
    if (field == std::string_view::npos) return std::nullopt;
    end = field + 1;
  }
  std::string_view comment = line.substr(end);
  if (!comment.starts_with(kMark)) return std::nullopt;
  comment.remove_prefix(kMark.size());
  const size_t blank = comment.find(' ');
  if (blank == std::string_view::npos || !IsRole(comment.substr(0, blank))) return std::nullopt;
  const Result<JobNow> now = ParseJobLine(line.substr(0, fields[kFields - 2]));
  if (!now.ok()) return std::nullopt;
  if (!now->lives() && now->state != "COMPLETING") return std::nullopt;
  RunJob job;
  job.now = *now;
  const Result<int64_t> nodes = ParseInt64(line.substr(fields[3] + 1, fields[4] - fields[3] - 1));
  const bool known = nodes.ok() && *nodes >= 0 && *nodes <= kMostNodesOfAJob;
  job.nodes = known ? static_cast<uint32_t>(*nodes) : 0;
  job.role = std::string(comment.substr(0, blank));
  job.run_directory = std::string(comment.substr(blank + 1));
  if (job.run_directory.empty()) return std::nullopt;
  return job;
}

}  // namespace longhaul::engines::slurm
