#include "service/controller/view/view_routes.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/text.h"
#include "io/clock.h"
#include "proto/state_name.h"
#include "service/agent/output/worker_output.h"
#include "service/controller/rest/find_job.h"
#include "service/controller/rest/worker_log.h"
#include "service/controller/view/fault_view.h"
#include "service/controller/view/run_view.h"
#include "story/run_totals.h"
#include "story/story.h"

namespace longhaul::service {
namespace {

using Json = nlohmann::ordered_json;

Result<bool> WantsSeries(const ApiRequest& request) {
  const auto found = request.query.find("series");
  if (found == request.query.end() || found->second == "true") return true;
  if (found->second == "false") return false;
  return InvalidArgument("\"series\" must be true or false, not \"" + Printable(found->second, 40) +
                         "\"");
}

// Adds the end of the worker's log, which is better evidence than the fault's own record.
void AddOutput(const std::string& run_directory, story::FaultStory& fault) {
  const std::optional<story::WantedOutput> wanted = story::OutputOf(fault);
  if (!wanted.has_value() || run_directory.empty()) return;
  LogQuery query;
  query.rank = wanted->rank;
  query.attempt = wanted->attempt;
  query.bytes = kMostTailBytes;
  const auto part = ReadWorkerLog(run_directory, query);
  if (!part.ok()) return;
  const std::string lines = LastLinesOf(part->text);
  if (lines.empty()) return;
  fault.output.clear();
  for (const std::string_view line : Split(lines, '\n')) fault.output.emplace_back(line);
  fault.output_file = story::OutputFile(*wanted);
}

// The jobs with workers on nodes. A status is made for the first ones only: this holds the core.
void AddRunning(const runtime::Controller& core, ClusterViewInput& input) {
  constexpr size_t kMostRunning = 100;
  std::set<std::string> ids;
  for (const proto::NodeStatus& node : input.nodes) {
    ids.insert(node.jobs().begin(), node.jobs().end());
  }
  input.running_total = ids.size();
  for (const std::string& id : ids) {
    if (input.running.size() == kMostRunning) break;
    const auto status = core.JobStatus(JobId(id), input.now);
    if (!status.has_value()) continue;
    const proto::Job& job = status->job();
    RunningJob& running = input.running.emplace_back();
    running.id = id;
    running.queue = job.scheduling().queue();
    running.owner = job.scheduling().owner();
    running.state = proto::StateName(status->state());
    running.workers = static_cast<uint64_t>(status->gang_size()) * job.processes_per_node();
    running.step = status->step();
    running.total_steps = std::max(status->job().total_steps(), status->output_total_steps());
    running.goodput = status->ledger().goodput();
    running.eta_seconds = status->eta_seconds();
    running.faults = static_cast<uint64_t>(status->faults_size());
  }
}

}  // namespace

ApiResponse ViewRoutes::Fault(const std::string& id_or_name, const std::string& number) const {
  const auto wanted = ParseUint64(number);
  if (!wanted.ok()) {
    return ErrorResponse(InvalidArgument("the number of a fault must be a whole number, not \"" +
                                         Printable(number, 40) + "\""));
  }
  const auto job = FindOneJob(loop_, id_or_name);
  if (!job.ok()) return ErrorResponse(job.status());
  story::RunRecord record = stories_.Of(JobId(job->job().id()));
  record.totals = story::TotalsOf(*job);
  story::Story story = story::MakeStory(record);
  const auto fault = std::find_if(story.faults.begin(), story.faults.end(),
                                  [&](const auto& each) { return each.number == *wanted; });
  if (fault == story.faults.end()) {
    return ErrorResponse(NotFound("job " + job->job().id() + " has no fault " + number +
                                  ": it has " + std::to_string(story.faults.size())));
  }
  AddOutput(job->job().run_directory(), *fault);
  return JsonResponse(FaultViewJson(story, *fault, *job, io::Now()));
}

ApiResponse ViewRoutes::Runs() const {
  auto jobs = loop_.Read([](const runtime::Controller& core) { return core.Listing(io::Now()); });
  const size_t skipped = jobs.size() - std::min(jobs.size(), kMostRuns);
  Json list = Json::array();
  for (size_t i = jobs.size(); i > skipped; --i) list.push_back(RunEntryJson(jobs[i - 1]));
  return JsonResponse({{"runs", std::move(list)}, {"total", jobs.size()}});
}

ClusterViewInput ViewRoutes::ReadCluster() const {
  ClusterViewInput input;
  WaitingList::Snapshot waiting = waiting_.Get();
  input.waiting = std::move(waiting.jobs);
  input.waiting_total = waiting.total;
  input.occupancy = occupancy_.ToJson();
  input.now = io::Now();
  loop_.Read([&](const runtime::Controller& core) {
    input.declaration = core.Declaration();
    input.nodes = core.AllNodes();
    input.absent = core.AbsentNodes();
    input.queues = core.Queues();
    AddRunning(core, input);
    return 0;
  });
  return input;
}

ApiResponse ViewRoutes::Cluster() const {
  const std::lock_guard lock(cluster_mutex_);
  if (!cluster_made_ || io::MonotonicNow() - *cluster_made_ >= kClusterPeriod) {
    cluster_ = JsonResponse(ClusterViewJson(ReadCluster()));
    cluster_made_ = io::MonotonicNow();
  }
  return cluster_;
}

ApiResponse ViewRoutes::Run(const ApiRequest& request, const std::string& id_or_name) const {
  const auto with_series = WantsSeries(request);
  if (!with_series.ok()) return ErrorResponse(with_series.status());
  const auto job = FindOneJob(loop_, id_or_name);
  if (!job.ok()) return ErrorResponse(job.status());
  const JobId id(job->job().id());
  // The past first: what happens meanwhile is in the stream after `as_of`, at the worst twice.
  auto past = histories_.Of(id);
  if (!past.ok()) return ErrorResponse(past.status());
  RunViewInput input;
  input.past = *std::move(past);
  input.now = io::Now();
  input.with_series = *with_series;
  const Status read = loop_.Read([&](const runtime::Controller& core) -> Status {
    auto present = core.JobStatus(id, input.now);
    if (!present.has_value()) return NotFound("job " + id.value() + " is no longer there");
    input.status = *std::move(present);
    for (proto::NodeStatus& node : core.AllNodes()) {
      std::string name = node.name();
      input.nodes.emplace(std::move(name), std::move(node));
    }
    return {};
  });
  return read.ok() ? JsonResponse(RunViewJson(input)) : ErrorResponse(read);
}

}  // namespace longhaul::service
