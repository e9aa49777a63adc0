// Loads a cluster for measurements of a scheduler (bench/kubernetes):
//
//   kubernetes_load nodes KUBECONFIG NODES
//   kubernetes_load pods KUBECONFIG PODS [--scheduler NAME] [--prefix NAME] [--gangs KIND]
//                   [--gang-size N] [--arrivals-per-s N] [--limit-s N]
//
// `nodes` creates nodes that count as ready. `pods` creates pods, waits until one watch has
// reported that all are bound, and deletes them. It writes a JSON object on a line when the pods
// exist ("created") and when they are bound or the limit is over ("bound"), and deletes the pods
// after a line or the end of its standard input, so that the caller can stop the scheduler first.
// With --arrivals-per-s the pods are created one after the other at this rate, and the latency is
// from the event of a pod's creation to that of its bind. Times are of CLOCK_MONOTONIC.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "engines/kubernetes/client/client.h"
#include "engines/kubernetes/client/watch_connection.h"
#include "engines/kubernetes/live/bind_record.h"
#include "engines/kubernetes/live/load_objects.h"
#include "engines/kubernetes/protocol/objects/pod.h"
#include "io/clock.h"

using namespace longhaul;
using namespace longhaul::engines::kubernetes;

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kNamespace = "default";
constexpr Duration kCreateLimit = std::chrono::minutes(5);
constexpr const char* kUsage =
    "usage: kubernetes_load nodes KUBECONFIG NODES\n"
    "       kubernetes_load pods KUBECONFIG PODS [--scheduler NAME] [--prefix NAME]\n"
    "           [--gangs none|coscheduling|kubernetes] [--gang-size N] [--arrivals-per-s N]\n"
    "           [--limit-s N]\n"
    "1 to 10,000 nodes, 1 to 20,000 pods\n";

struct Options {
  bool nodes = false;  // the command
  std::string kubeconfig;
  int count = 0;
  LoadSettings load;
  int64_t arrivals_per_s = 0;  // 0: all pods at once
  int64_t limit_s = 300;       // from the creation of the pods to the last bind
};

// The load's pods as one watch reports them.
class PodWatch final : public WatchSink {
 public:
  PodWatch(const LoadSettings& settings, BindRecord& record)
      : settings_(settings), record_(record) {}

  void OnChange(const Change& change) override {
    const Instant now = io::MonotonicNow();
    const std::optional<int> index = LoadPodIndex(settings_, change.meta.name);
    if (!index) return;
    if (change.kind == ChangeKind::kDeleted) return record_.OnDeleted(*index);
    const Result<Pod> pod = ReadPod(parser_, change.object);
    if (!pod.ok()) return OnTrouble(pod.status());
    record_.OnPod(*index, pod->meta.uid, pod->node_name, now);
  }
  void OnSynced() override { synced = true; }
  void OnTrouble(const Status& status) override {
    std::fprintf(stderr, "kubernetes_load: %s\n", ToString(status).c_str());
  }

  bool synced = false;

 private:
  const LoadSettings& settings_;
  BindRecord& record_;
  JsonParser parser_;
};

class Load {
 public:
  Load(io::EventLoop& loop, Client& client, const Options& options)
      : loop_(loop), client_(client), options_(options), record_(options.count) {}

  Status CreateNodes() {
    for (int i = 0; i < options_.count; ++i) {
      Send(CreateCall(Nodes(), "", NodeBody(i)), [this, i](const Reply&) {
        Send(PatchCall(Nodes(), {"", NodeName(i)}, "status", PatchKind::kMerge, NodeStatusPatch()));
      });
    }
    return Replies("the creation of nodes");
  }

  Status RunPods() {
    Client::WatchOptions watch_options;
    watch_options.resource = Pods();
    PodWatch sink(options_.load, record_);
    ASSIGN_OR_RETURN(const auto watch, client_.Watch(std::move(watch_options), sink));
    RETURN_IF_ERROR(Until("the first list of pods", kCreateLimit, [&] { return sink.synced; }));
    RETURN_IF_ERROR(CreateGangs());
    const Instant start = io::MonotonicNow();
    RETURN_IF_ERROR(CreatePods(start));
    Report({{"event", "created"},
            {"pods", options_.count},
            {"create_s", ToSeconds(io::MonotonicNow() - start)},
            {"appeared_within_s", ToSeconds(record_.appeared_within())}});
    // That some pods are not bound in time is a result, not a failure of this program.
    const Duration limit = std::chrono::seconds(options_.limit_s);
    (void)Until("binds", limit, [this] { return record_.bound() >= options_.count; });
    ReportBinds();
    while (const int c = std::getchar()) {
      if (c == EOF || c == '\n') break;
    }
    return Delete();
  }

 private:
  Status CreateGangs() {
    const LoadSettings& load = options_.load;
    for (int i = 0; i < load.gang_count(); ++i) {
      Send(CreateCall(GangResource(load.gangs), kNamespace, GangBody(load, i)),
           [this](const Reply& reply) {
             const PaddedString body(reply.body);
             const Result<ObjectMeta> meta = ReadObjectMeta(parser_, body.view());
             if (meta.ok()) gangs_.push_back(*meta);
           });
    }
    return Replies("the creation of pod groups");
  }

  Status CreatePods(Instant start) {
    const auto interval = Duration(std::chrono::seconds(1)) / std::max<int64_t>(1, Rate());
    for (int i = 0; i < options_.count; ++i) {
      while (Rate() > 0 && io::MonotonicNow() < start + i * interval) {
        loop_.RunOnce(std::chrono::milliseconds(1));
      }
      Send(CreateCall(Pods(), kNamespace, LoadPodBody(options_.load, i)));
    }
    RETURN_IF_ERROR(Replies("the creation of pods"));
    return Until("the events of the created pods", kCreateLimit,
                 [this] { return record_.existing() >= options_.count; });
  }
  int64_t Rate() const { return options_.arrivals_per_s; }

  Status Delete() {
    for (int i = 0; i < options_.count; ++i) {
      if (record_.uid(i).empty()) continue;
      Send(DeleteCall(Pods(), {kNamespace, LoadPodName(options_.load, i)}, record_.uid(i), 0));
    }
    RETURN_IF_ERROR(
        Until("the deletion of pods", kCreateLimit, [this] { return record_.existing() == 0; }));
    // No controller runs that would remove the finalizer of a PodGroup.
    for (const ObjectMeta& gang : gangs_) {
      const Resource resource = GangResource(options_.load.gangs);
      const ObjectName name = {kNamespace, gang.name};
      Send(PatchCall(resource, name, "", PatchKind::kMerge, R"({"metadata":{"finalizers":null}})"),
           [this, resource, name, uid = gang.uid](const Reply&) {
             Send(DeleteCall(resource, name, uid, 0));
           });
    }
    return Replies("deletions");
  }

  void ReportBinds() {
    const LoadSettings& load = options_.load;
    const BindFigures figures = record_.Figures(load.gangs == GangKind::kNone ? 0 : load.gang_size);
    Json report = {{"event", "bound"},
                   {"pods", options_.count},
                   {"bound", figures.bound},
                   {"latency_ms_p50", ToSeconds(figures.latency_p50) * 1e3},
                   {"latency_ms_p99", ToSeconds(figures.latency_p99) * 1e3},
                   {"latency_ms_max", ToSeconds(figures.latency_max) * 1e3},
                   {"most_pods_on_a_node", figures.most_pods_on_a_node},
                   {"partly_bound_gangs", figures.partly_bound_gangs}};
    if (figures.first_bind_at) {
      report["first_bind_at_s"] = ToSeconds(figures.first_bind_at->time_since_epoch());
      report["last_bind_at_s"] = ToSeconds(figures.last_bind_at->time_since_epoch());
    }
    Report(report);
  }

  static void Report(const Json& report) {
    std::printf("%s\n", report.dump().c_str());
    std::fflush(stdout);
  }

  void Send(Result<Call> call, std::function<void(const Reply&)> then = nullptr) {
    // All calls use the pool of binds, which is the largest one.
    if (call.ok()) call->traffic = TrafficClass::kBind;
    const auto sent =
        client_.Send(std::move(call), [this, then = std::move(then)](const Reply& reply) {
          --under_way_;
          if (!reply.ok()) {
            if (failure_.ok()) failure_ = reply.verdict.status;
          } else if (then) {
            then(reply);
          }
        });
    CHECK(sent.ok()) << sent.status().message();
    ++under_way_;
  }

  Status Replies(const std::string& what) {
    return Until(what, kCreateLimit, [this] { return under_way_ == 0; });
  }

  // Runs the loop until `done` returns true, a call was refused or the limit is over.
  Status Until(const std::string& what, Duration limit, const std::function<bool()>& done) {
    const Instant deadline = io::MonotonicNow() + limit;
    while (!done()) {
      RETURN_IF_ERROR(failure_);
      if (io::MonotonicNow() > deadline) {
        return DeadlineExceeded(what + " did not end within " + ToString(limit));
      }
      loop_.RunOnce(std::chrono::milliseconds(100));
    }
    return failure_;
  }

  io::EventLoop& loop_;
  Client& client_;
  const Options& options_;
  BindRecord record_;
  JsonParser parser_;
  std::vector<ObjectMeta> gangs_;
  int under_way_ = 0;
  Status failure_;  // of the first call that was refused
};

Status Run(const Options& options) {
  ASSIGN_OR_RETURN(const std::unique_ptr<io::EventLoop> loop, io::EventLoop::Create());
  ASSIGN_OR_RETURN(Access access, KubeconfigAccess(*loop, options.kubeconfig, ""));
  ClientSettings settings;
  settings.traffic.limits[0].requests_per_second = 1e6;
  settings.traffic.limits[0].burst = 1e6;
  ASSIGN_OR_RETURN(const std::unique_ptr<Client> client,
                   Client::Create(*loop, std::move(access), settings));
  Load load(*loop, *client, options);
  return options.nodes ? load.CreateNodes() : load.RunPods();
}

Result<int64_t> Number(std::string_view what, std::string_view text, int64_t least, int64_t most) {
  const Result<int64_t> number = ParseInt64(text);
  if (number.ok() && *number >= least && *number <= most) return *number;
  return InvalidArgument(std::string(what) + " is '" + Printable(text) + "', expected " +
                         WithThousands(least) + " to " + WithThousands(most));
}

Status ReadOption(std::string_view name, std::string_view value, Options* options) {
  LoadSettings& load = options->load;
  if (name == "--scheduler") {
    load.scheduler_name = value;
  } else if (name == "--prefix") {
    load.prefix = value;
  } else if (name == "--gangs") {
    ASSIGN_OR_RETURN(load.gangs, ParseGangKind(value));
  } else if (name == "--gang-size") {
    ASSIGN_OR_RETURN(const int64_t size, Number(name, value, 1, 20'000));
    load.gang_size = static_cast<int>(size);
  } else if (name == "--arrivals-per-s") {
    ASSIGN_OR_RETURN(options->arrivals_per_s, Number(name, value, 1, 10'000));
  } else if (name == "--limit-s") {
    ASSIGN_OR_RETURN(options->limit_s, Number(name, value, 1, 86'400));
  } else {
    return InvalidArgument("unknown option '" + Printable(name) + "'");
  }
  return Status();
}

Result<Options> ReadOptions(const std::vector<std::string_view>& words) {
  if (words.size() < 3 || (words[0] != "nodes" && words[0] != "pods")) {
    return InvalidArgument("expected the command nodes or pods, a kubeconfig file and a number");
  }
  Options options;
  options.nodes = words[0] == "nodes";
  options.kubeconfig = words[1];
  ASSIGN_OR_RETURN(const int64_t count,
                   Number(words[0], words[2], 1, options.nodes ? 10'000 : 20'000));
  options.count = options.load.pods = static_cast<int>(count);
  if (options.nodes && words.size() > 3) return InvalidArgument("nodes has no options");
  for (size_t i = 3; i < words.size(); i += 2) {
    if (i + 1 == words.size()) return InvalidArgument(std::string(words[i]) + " needs a value");
    RETURN_IF_ERROR(ReadOption(words[i], words[i + 1], &options));
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const Result<Options> options = ReadOptions({argv + 1, argv + argc});
  if (!options.ok()) {
    std::fprintf(stderr, "kubernetes_load: %s\n%s", options.status().message().c_str(), kUsage);
    return 2;
  }
  const Status status = Run(*options);
  if (status.ok()) return 0;
  std::fprintf(stderr, "kubernetes_load: %s\n", ToString(status).c_str());
  return 1;
}
