#include "engines/kubernetes/jobs/controller_report.h"

#include "base/text.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr size_t kMostText = 500;

const JobJson& Find(const JobJson& object, std::string_view name) {
  static const JobJson kNone;
  if (!object.is_object()) return kNone;
  const auto found = object.find(name);
  return found == object.end() ? kNone : *found;
}

uint64_t Number(const JobJson& object, std::string_view name) {
  const JobJson& value = Find(object, name);
  return value.is_number_unsigned() ? value.get<uint64_t>() : 0;
}

std::string Text(const JobJson& object, std::string_view name) {
  const JobJson& value = Find(object, name);
  return value.is_string() ? Printable(value.get<std::string>(), kMostText) : "";
}

Result<JobJson> ListIn(const std::string& text, std::string_view name) {
  JobJson answer = JobJson::parse(text, nullptr, false);
  const JobJson& list = Find(answer, name);
  if (list.is_array()) return list;
  return InvalidArgument("the answer of the controller has no list '" + std::string(name) + "'");
}

}  // namespace

Result<ControllerReport> ReadControllerReport(const std::string& jobs, const std::string& nodes) {
  ControllerReport report;
  ASSIGN_OR_RETURN(const JobJson node_list, ListIn(nodes, "nodes"));
  for (const JobJson& node : node_list) {
    if (Find(node, "connected") == true) report.connected.insert(Text(node, "name"));
  }
  ASSIGN_OR_RETURN(const JobJson job_list, ListIn(jobs, "jobs"));
  if (job_list.empty()) return report;
  const JobJson& job = job_list.back();
  const std::string state = Text(job, "state");
  report.training = state == "running";
  report.recovering = state == "recovering";
  report.step = Number(job, "highest_step");
  report.restarts = Number(job, "restarts");
  const JobJson& goodput = Find(Find(job, "ledger"), "goodput");
  if (goodput.is_number()) report.goodput = goodput.get<double>();
  const JobJson& faults = Find(job, "faults");
  if (!faults.is_array() || faults.empty()) return report;
  const std::string action = Text(faults.back(), "action");
  report.fault = Text(faults.back(), "what") + (action.empty() ? "" : "; " + action);
  return report;
}

}  // namespace longhaul::engines::kubernetes
