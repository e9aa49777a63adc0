// What a job does and prints: events and logs.
#include <chrono>
#include <cstdio>
#include <thread>

#include "bin/client/client.h"
#include "bin/notification_text.h"

namespace longhaul::bin::client {
namespace {

using service::FeedEvent;
using service::FollowOptions;
using service::UrlEncode;

constexpr auto kLogPoll = std::chrono::milliseconds(500);

int Events(RestClient& client, const Options& options) {
  if (options.follow) return FollowJob(client, options.job, options.json);
  const std::string path =
      options.job.empty() ? "/v1/events" : "/v1/jobs/" + UrlEncode(options.job) + "/events";
  uint64_t after = 0;
  while (true) {
    const auto answer = client.Get(path + "?after=" + std::to_string(after));
    if (!answer.ok()) return Fail(answer.status());
    for (const Json& event : (*answer)["events"]) {
      if (options.json) {
        std::printf("%s\n", event.dump().c_str());
        continue;
      }
      const FeedEvent notification{event["id"].get<uint64_t>(), event["kind"].get<std::string>(),
                                   event["data"]};
      std::printf("%s\n", NotificationLine(notification).c_str());
    }
    if ((*answer)["events"].empty()) return kExitOk;
    after = (*answer)["last"].get<uint64_t>();
  }
}

bool IsOver(RestClient& client, const std::string& job) {
  const auto status = client.Get("/v1/jobs/" + UrlEncode(job));
  if (!status.ok()) return false;
  const std::string state = (*status)["state"].get<std::string>();
  return state == "succeeded" || state == "failed" || state == "stopped";
}

int Logs(RestClient& client, const Options& options) {
  const std::string base =
      "/v1/jobs/" + UrlEncode(options.job) + "/logs?rank=" + std::to_string(options.rank);
  std::string query = options.attempt == 0 ? "" : "&attempt=" + std::to_string(options.attempt);
  uint64_t attempt = 0;
  uint64_t end = 0;
  while (true) {
    // Asked for before the text: what a job writes before it is over is shown then.
    const bool over = !options.follow || IsOver(client, options.job);
    const auto part = client.Get(base + query);
    if (!part.ok() && (over || part.status().code() != Code::kNotFound)) return Fail(part.status());
    if (part.ok()) {
      const auto part_attempt = (*part)["attempt"].get<uint64_t>();
      if (part_attempt != attempt && attempt != 0 && options.attempt == 0) {
        std::fprintf(stderr, "--- attempt %llu\n", static_cast<unsigned long long>(part_attempt));
        query = "&from=0";
        attempt = part_attempt;
        continue;
      }
      attempt = part_attempt;
      end = (*part)["end"].get<uint64_t>();
      std::printf("%s", (*part)["text"].get<std::string>().c_str());
      std::fflush(stdout);
      query = (options.attempt == 0 ? "" : "&attempt=" + std::to_string(attempt)) +
              "&from=" + std::to_string(end);
    }
    if (over) return kExitOk;
    std::this_thread::sleep_for(kLogPoll);
  }
}

}  // namespace

int FollowJob(RestClient& client, const std::string& id, bool json) {
  bool failed = false;
  FollowOptions options;
  options.on_connection = [](bool connected, const std::string& reason) {
    std::fprintf(stderr, "%s\n",
                 connected ? "connected again" : (reason + "; trying again").c_str());
  };
  const std::string path = id.empty() ? "/v1/events" : "/v1/jobs/" + UrlEncode(id) + "/events";
  const Status status = client.Follow(path, options, [&](const FeedEvent& event) {
    if (json) {
      std::printf(
          "%s\n",
          Json({{"id", event.id}, {"kind", event.kind}, {"data", event.data}}).dump().c_str());
    } else {
      std::printf("%s\n", NotificationLine(event).c_str());
    }
    std::fflush(stdout);
    if (event.kind == "state" && !id.empty()) {
      const std::string state = event.data["state"]["state"].get<std::string>();
      failed = state == "failed" || state == "stopped";
    }
    return true;
  });
  if (!status.ok()) return Fail(status);
  return failed ? kExitFailure : kExitOk;
}

void AddOutput(CLI::App& app, Action& action, const std::shared_ptr<Options>& options) {
  CLI::App* events =
      Add(app, action, "events", "Show notifications of jobs and nodes", Events, options);
  events->add_option("JOB", options->job, "Show only this job, by id or name");
  events->add_flag("-f,--follow", options->follow, "Continue with what happens from now on");
  events->add_flag("--json", options->json, "Print a JSON object a line");

  CLI::App* logs = Add(app, action, "logs", "Show what a worker printed", Logs, options);
  logs->add_option("JOB", options->job, "Job, by id or name")->required();
  logs->add_option("--rank", options->rank, "The worker's rank (default 0)");
  logs->add_option("--attempt", options->attempt, "Attempt (default: the newest)");
  logs->add_flag("-f,--follow", options->follow, "Continue until the job has ended");
}

}  // namespace longhaul::bin::client
