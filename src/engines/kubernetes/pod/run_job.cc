#include "engines/kubernetes/pod/run_job.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "base/text.h"
#include "engines/kubernetes/jobs/pod_templates.h"
#include "frontend/agent_launcher.h"
#include "frontend/run_session.h"
#include "io/files/file.h"

namespace longhaul::engines::kubernetes {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kLargestReport = 64 << 20;
constexpr uint64_t kLargestJob = 1 << 20;
// The kubelet publishes 4,096 bytes of the whole message.
constexpr size_t kMostText = 1'000;
constexpr int kExitUsage = 2;

// The job file that the cluster's job is from.
std::string JobCopy(const RunJobOptions& options) {
  return options.run_directory + "/cluster/job.yaml";
}

// The agents come from the worker pods, which the operator makes.
class PodLauncher final : public frontend::AgentLauncher {
 public:
  // `job`: the text of the job file.
  PodLauncher(const RunJobOptions& options, std::string job)
      : options_(options), job_(std::move(job)) {
    const std::string log = options.run_directory + "/cluster/events.db";
    if (!std::filesystem::exists(log)) return;
    const Result<std::string> before = io::ReadText(JobCopy(options), kLargestJob);
    earlier_ =
        before.ok() && *before == job_ ? EarlierCluster::kSameJob : EarlierCluster::kOtherJob;
  }

  std::string address() const override { return options_.address; }
  uint16_t rest_port() const override { return kRestPort; }
  std::vector<std::string> ControllerWords() const override {
    std::vector<std::string> words = {"longhaul-kube", "controller"};
    const std::vector<std::string> callers = WordsOf(options_.callers);
    words.insert(words.end(), callers.begin(), callers.end());
    return words;
  }
  // The pods wait until the cluster has room for them.
  std::optional<uint32_t> awaited_agents() const override { return options_.awaited; }
  EarlierCluster earlier_cluster() const override { return earlier_; }
  // The certificates are those of the pod, and stay when its containers start again.
  Status Prepare(const std::string& directory) override {
    const std::string link = directory + "/tls";
    std::error_code error;
    std::filesystem::remove(link, error);  // to those of an earlier pod
    std::filesystem::create_directory_symlink(options_.state_directory + "/tls", link, error);
    if (error) return Unavailable("cannot make " + link + ": " + error.message());
    return io::WriteTextAtomically(io::PosixFileSystem(), JobCopy(options_), job_);
  }
  Result<std::vector<std::string>> Command(const service::Endpoint& /*endpoint*/) override {
    return std::vector<std::string>();
  }
  void Begin(io::EventLoop& /*loop*/, std::function<void(const std::string&)> /*show*/) override {}
  void End() override {}

 private:
  const RunJobOptions options_;
  const std::string job_;
  EarlierCluster earlier_ = EarlierCluster::kNone;
};

// What the report of the run says of its end; nothing where it does not say that it has ended.
Json OutcomeOf(const std::string& run_directory) {
  const Result<std::string> text = io::ReadText(run_directory + "/report.json", kLargestReport);
  if (!text.ok()) return nullptr;
  const Json report = Json::parse(*text, nullptr, false);
  if (!report.is_object()) return nullptr;
  const Json state = report.value("state", Json());
  const bool succeeded = state == "succeeded";
  if (!succeeded && state != "failed") return nullptr;
  Json outcome = {{"outcome", succeeded ? "succeeded" : "failed"}};
  const Json reason = report.value("reason", Json());
  const Json steps = report.value("steps", Json());
  std::string message = reason.is_string() ? reason.get<std::string>() : "";
  if (message.empty() && steps.is_number()) message = steps.dump() + " steps";
  outcome["message"] = Printable(message, kMostText);
  for (const char* name : {"steps", "restarts", "goodput"}) {
    if (report.contains(name)) outcome[name] = report[name];
  }
  return outcome;
}

int Publish(const std::string& path, const Json& outcome) {
  std::ofstream file(path, std::ios::trunc);
  file << outcome.dump(-1, ' ', false, Json::error_handler_t::replace) << std::flush;
  if (file) return 0;
  std::fprintf(stderr, "longhaul: cannot write %s\n", path.c_str());
  return 1;
}

}  // namespace

std::vector<std::string> WordsOf(const CallerOptions& options) {
  return {"--keys-file", options.keys_file,       "--audience",      options.audience,
          "--namespace", options.namespace_name,  "--worker-prefix", options.worker_prefix,
          "--operator",  options.operator_subject};
}

int RunJobMain(const RunJobOptions& options) {
  frontend::RunOptions run;
  run.job.file = options.pod_directory + "/" + std::string(kJobFile);
  run.job.starts_here = false;  // the workers have another image
  run.run_directory = options.run_directory;
  run.resume = true;
  run.cluster_nodes = options.nodes;
  run.cluster_slots = options.slots;
  run.command_line = "kubectl apply";
  const Result<std::string> job = io::ReadText(run.job.file, kLargestJob);
  if (!job.ok()) {
    std::fprintf(stderr, "longhaul: %s\n", job.status().message().c_str());
    return 1;
  }
  run.launcher = std::make_shared<PodLauncher>(options, *job);
  std::error_code error;
  // Of an earlier start, whose end it would state.
  std::filesystem::remove(options.run_directory + "/report.json", error);
  const int code = frontend::Run(run);
  if (code == kExitUsage) {
    return Publish(options.publish,
                   {{"outcome", "failed"},
                    {"message", "the job file is wrong: see the log of the controller pod"}});
  }
  if (code != 0 && code != 1) return code;  // stopped by a signal
  const Json outcome = OutcomeOf(options.run_directory);
  return outcome.is_null() ? 1 : Publish(options.publish, outcome);
}

}  // namespace longhaul::engines::kubernetes
