// Measures binds through a real API server: kubernetes_bind_rate KUBECONFIG NODES PODS
//
// Creates nodes and pods, waits until a watch has reported them, binds all pods over the client's
// pool of connections with that watch open, and deletes the pods. Prints the rate from the first
// bind to the last event, and the CPU time of this process for a bind: requests, the watch and the
// reading of each pod. The nodes stay, so that a second run measures a warm server.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <unordered_map>

#include "base/text.h"
#include "engines/kubernetes/client/client.h"
#include "engines/kubernetes/client/watch_connection.h"
#include "engines/kubernetes/protocol/objects/pod.h"
#include "io/clock.h"

using namespace longhaul;
using namespace longhaul::engines::kubernetes;

namespace {

constexpr const char* kNamespace = "default";
constexpr Duration kLongestWait = std::chrono::minutes(5);

// Which pods exist, and how many are bound.
class SeenPods final : public WatchSink {
 public:
  void OnChange(const Change& change) override {
    if (change.kind == ChangeKind::kDeleted) {
      uids.erase(change.meta.name);
      return;
    }
    const Result<Pod> pod = ReadPod(parser_, change.object);
    if (!pod.ok()) return OnTrouble(pod.status());
    const bool bound = !pod->node_name.empty();
    uids[pod->meta.name] = pod->meta.uid;
    bound_pods += bound && change.kind == ChangeKind::kModified ? 1 : 0;
  }
  void OnSynced() override {}
  void OnTrouble(const Status& status) override {
    std::fprintf(stderr, "kubernetes_bind_rate: %s\n", ToString(status).c_str());
  }

  std::unordered_map<std::string, std::string> uids;
  int bound_pods = 0;

 private:
  JsonParser parser_;
};

class Measurement {
 public:
  Measurement(io::EventLoop& loop, Client& client) : loop_(loop), client_(client) {}

  Status Run(int nodes, int pods) {
    for (int i = 0; i < nodes; ++i) {
      const std::string name = "n" + std::to_string(i);
      Send(CreateCall(Nodes(), "", R"({"metadata":{"name":")" + name + R"("}})"));
    }
    RETURN_IF_ERROR(Until("nodes", [this] { return under_way_ == 0; }));
    Client::WatchOptions options;
    options.resource = Pods();
    ASSIGN_OR_RETURN(const auto watch, client_.Watch(std::move(options), seen_));
    for (int i = 0; i < pods; ++i) {
      Send(
          CreateCall(Pods(), kNamespace,
                     R"({"metadata":{"name":"p)" + std::to_string(i) +
                         R"("},"spec":{"schedulerName":"longhaul","terminationGracePeriodSeconds":)"
                         R"(0,"containers":[{"name":"main","image":"none","resources":{"limits":)"
                         R"({"nvidia.com/gpu":"1"}}}]}})"));
    }
    const size_t wanted = static_cast<size_t>(pods);
    RETURN_IF_ERROR(Until("pods", [&] { return seen_.uids.size() >= wanted; }));
    RETURN_IF_ERROR(Until("replies", [this] { return under_way_ == 0; }));

    const Instant start = io::MonotonicNow();
    const Instant cpu_start = io::ProcessCpuTime();
    int next = 0;
    for (const auto& [name, uid] : seen_.uids) {
      Send(BindCall({kNamespace, name}, uid, "n" + std::to_string(next++ % nodes), {}));
    }
    RETURN_IF_ERROR(Until("binds", [&] { return seen_.bound_pods >= pods; }));
    const double seconds = ToSeconds(io::MonotonicNow() - start);
    const double cpu_ms = ToSeconds(io::ProcessCpuTime() - cpu_start) * 1e3;
    RETURN_IF_ERROR(Until("replies", [this] { return under_way_ == 0; }));
    std::printf("%d binds in %.3f s: %.0f a second, client CPU %.4f ms a bind, %d refused\n", pods,
                seconds, pods / seconds, cpu_ms / pods, refused_);

    for (const auto& [name, uid] : seen_.uids) {
      Send(DeleteCall(Pods(), {kNamespace, name}, uid, 0));
    }
    return Until("deletions", [this] { return seen_.uids.empty() && under_way_ == 0; });
  }

 private:
  void Send(Result<Call> call) {
    // The measurement is of binds: all calls go over their pool.
    if (call.ok()) call->traffic = TrafficClass::kBind;
    const auto sent = client_.Send(std::move(call), [this](const Reply& reply) {
      --under_way_;
      const bool again = reply.verdict.outcome == Outcome::kAlreadyExists;
      if (!reply.ok() && !again) ++refused_;
    });
    CHECK(sent.ok()) << sent.status().message();
    ++under_way_;
  }

  Status Until(const std::string& what, const std::function<bool()>& done) {
    const Instant deadline = io::MonotonicNow() + kLongestWait;
    while (!done()) {
      if (io::MonotonicNow() > deadline) return DeadlineExceeded("no end of the " + what);
      loop_.RunOnce(std::chrono::seconds(1));
    }
    return Status();
  }

  io::EventLoop& loop_;
  Client& client_;
  SeenPods seen_;
  int under_way_ = 0;
  int refused_ = 0;
};

Status Run(const std::string& kubeconfig, int nodes, int pods) {
  ASSIGN_OR_RETURN(const std::unique_ptr<io::EventLoop> loop, io::EventLoop::Create());
  ASSIGN_OR_RETURN(Access access, KubeconfigAccess(*loop, kubeconfig, ""));
  ClientSettings settings;
  settings.traffic.limits[0].requests_per_second = 1e6;
  settings.traffic.limits[0].burst = 1e6;
  ASSIGN_OR_RETURN(const std::unique_ptr<Client> client,
                   Client::Create(*loop, std::move(access), settings));
  return Measurement(*loop, *client).Run(nodes, pods);
}

}  // namespace

int main(int argc, char** argv) {
  const Result<int64_t> nodes = ParseInt64(argc == 4 ? argv[2] : "");
  const Result<int64_t> pods = ParseInt64(argc == 4 ? argv[3] : "");
  if (!nodes.ok() || !pods.ok() || *nodes < 1 || *pods < 1 || *nodes > 10'000 || *pods > 20'000) {
    std::fprintf(stderr,
                 "usage: kubernetes_bind_rate KUBECONFIG NODES PODS (1 to 10,000 nodes, 1 to "
                 "20,000 pods)\n");
    return 2;
  }
  const Status status = Run(argv[1], static_cast<int>(*nodes), static_cast<int>(*pods));
  if (status.ok()) return 0;
  std::fprintf(stderr, "kubernetes_bind_rate: %s\n", ToString(status).c_str());
  return 1;
}
