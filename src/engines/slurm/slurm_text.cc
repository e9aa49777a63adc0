#include "engines/slurm/slurm_text.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "engines/slurm/host_list.h"

namespace longhaul::engines::slurm {
namespace {

constexpr size_t kMaxAgentName = 63;
constexpr size_t kMaxIdBytes = 20;

bool IsJobId(std::string_view text) {
  return !text.empty() && text.size() <= kMaxIdBytes &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool IsState(std::string_view text) {
  return !text.empty() && text.size() <= kMaxAgentName &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= 'A' && c <= 'Z') || c == '_'; });
}

}  // namespace

bool JobNow::lives() const {
  static constexpr std::array<std::string_view, 8> kLiving = {
      "PENDING",  "CONFIGURING",  "RUNNING",     "SUSPENDED",
      "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SIGNALING"};
  return std::find(kLiving.begin(), kLiving.end(), state) != kLiving.end();
}

Result<std::string> ParseSubmitted(std::string_view text) {
  const std::string_view id = Trim(text.substr(0, text.find(';')));
  if (!IsJobId(id)) {
    return Unavailable("sbatch printed '" + Printable(text, 80) + "' instead of a job's number");
  }
  return std::string(id);
}

Result<JobNow> ParseJobLine(std::string_view line) {
  const auto wrong = [line](const char* what) {
    return Unavailable("squeue printed '" + Printable(line, 120) + "': " + what);
  };
  const std::vector<std::string_view> fields = Split(Trim(line), '|');
  if (fields.size() < 4) return wrong("fewer than four fields");
  JobNow now;
  now.id = std::string(fields[0]);
  now.state = std::string(fields[1]);
  now.reason = std::string(fields[3]);
  if (!IsJobId(now.id)) return wrong("no job's number");
  if (!IsState(now.state)) return wrong("no state");
  if (!fields[2].empty() && fields[2] != "(null)") {
    ASSIGN_OR_RETURN(now.nodes, ExpandHostList(fields[2]));
  }
  return now;
}

std::string AgentNameOf(std::string_view node) {
  std::string name;
  for (const char c : node.substr(0, kMaxAgentName)) {
    const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    name.push_back(IsLetterOrDigit(lower) ? lower : '-');
  }
  return name;
}

}  // namespace longhaul::engines::slurm
