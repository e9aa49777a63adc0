#include "service/agent/identity/controller_term.h"

#include "base/text.h"
#include "io/files/file.h"
#include "io/files/private_files.h"

namespace longhaul::service {
namespace {

constexpr uint64_t kLargestTermFile = 64;

}  // namespace

Result<ControllerTerm> ControllerTerm::Open(const std::string& path) {
  const Result<std::string> text = io::ReadText(path, kLargestTermFile);
  if (text.status().code() == Code::kNotFound) return ControllerTerm(path, 0);
  if (!text.ok()) return text.status();
  const Result<uint64_t> term = ParseUint64(Trim(*text));
  if (term.ok()) return ControllerTerm(path, *term);
  return DataLoss("the file " + path +
                  " has no number, expected the highest term of a controller: remove it if no "
                  "controller of an earlier term can still run");
}

Status ControllerTerm::Accept(uint64_t term) {
  if (term == highest_) return Status();
  if (term < highest_) {
    return FailedPrecondition("its term " + std::to_string(term) +
                              " is below the highest that this agent has followed, " +
                              std::to_string(highest_) +
                              ": another controller has taken over (or the cluster has a new "
                              "event log: stop the agent, remove " +
                              path_ + " and start it again)");
  }
  RETURN_IF_ERROR(io::WritePrivateText(path_, std::to_string(term) + "\n"));
  highest_ = term;
  return Status();
}

}  // namespace longhaul::service
