// For tests: what surrounds the operator of LonghaulJobs in a cluster, in virtual time.
//
// A scheduler that binds the pods of a group together, for which extra workers of elastic jobs give
// way where there is no room, kubelets, a garbage collector, and in the
// pods controllers and agents: an agent is connected some time after its files name the controller
// that runs, and a controller trains while enough agents are connected. It keeps the progress of
// its job, as a run directory does, and publishes the outcome at the end. What happens in a
// container is apart from what its kubelet writes to the API: nodes can lose either.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/time.h"
#include "engines/kubernetes/double/api_double.h"

namespace longhaul::engines::kubernetes {

class SimulatedPlant {
 public:
  using Log = std::function<void(const std::string& line)>;

  // `changed` is called after each write. Requires that api and rng outlive this.
  SimulatedPlant(ApiDouble& api, Random& rng, std::function<void()> changed, Log log)
      : api_(api), rng_(rng), changed_(std::move(changed)), log_(std::move(log)) {}

  void AddNodes(int nodes);
  // The job of this uid ends after so many seconds of training.
  void AddRun(const std::string& job_uid, double seconds, bool fails);
  // Lets what is due happen. Call it each second.
  void Tick(Instant now);
  ApiResponse Do(const std::string& method, const std::string& path, const Json& body,
                 const std::string& type = "application/json");
  ApiResponse Patch(const std::string& path, const Json& patch) {
    return Do("PATCH", path, patch, "application/merge-patch+json");
  }

  // --- Faults.
  // A node is lost with its containers, or its kubelet alone.
  void BreakNode();
  void RepairNodes(bool all);
  // An extra worker is evicted, as for a pod that needs its room.
  void EvictExtra();
  // A container is killed, its pod is evicted, or its agent does not answer any more.
  void HurtContainer();

  // --- What is there.
  // The answers of the controller in this pod for /v1/jobs and /v1/nodes; nothing without one.
  std::optional<std::pair<std::string, std::string>> Ask(const std::string& pod_uid,
                                                         const std::string& ip) const;
  struct Truth {
    int controllers = 0;  // pods that are live: not being deleted and not at their end
    bool trains = false;
    std::set<std::string> connected;  // names of live worker pods
    std::vector<uint32_t> indices;    // of live worker pods
    std::set<std::string> templates;  // from which the live pods were made
    size_t without_node = 0;          // live worker pods
    size_t pods = 0;
    size_t live = 0;
  };
  Truth TruthOf(const std::string& job_uid);
  int hurt() const { return hurt_; }
  // How many extra workers have been bound.
  int grown() const { return grown_; }

 private:
  enum class NodeState : uint8_t { kUp, kWithoutKubelet, kDown };
  struct Node {
    NodeState state = NodeState::kUp;
    Instant since;
    Duration forced{};  // after that time the pods of the node are removed
  };
  struct Container {
    std::string pod;
    std::string uid;  // of the pod
    std::string node;
    std::string job_uid;
    bool controller = false;
    std::string ip;
    bool alive = false;
    bool written = false;  // the API has its state
    bool finished = false;
    bool hung = false;  // its agent does nothing
    Instant starts_at;
    std::optional<Instant> ends_at;
    int restarts = 0;
    // A worker: what its files name, from when on they name what is next, and where it is.
    std::pair<std::string, std::string> files;
    std::pair<std::string, std::string> next_files;
    std::optional<Instant> files_at;
    std::string follows;  // uid of the controller pod
    Instant connected_at;
    // A controller.
    size_t minimum = 1;
    std::set<std::string> connected;
    bool trains = false;
    bool has_trained = false;
  };
  struct Run {
    double needed = 60;
    double done = 0;
    uint64_t restarts = 0;
    bool fails = false;
  };
  // A pod of the API.
  struct Seen {
    std::string name, uid, node, owner, job_file, template_hash, group;
    std::pair<std::string, std::string> files;
    bool controller = false;
    uint32_t index = 0;
    bool extra = false, deleting = false, gated = false, ended = false;
  };

  void Refresh();
  void Schedule();
  bool Bind(const Seen& pod, const std::string& node);
  void TendPod(const Seen& pod);
  void Collect(const Seen& pod, const Node& node);
  void Start(const Seen& pod, Container& container);
  void WriteState(Container& container);
  void PatchStatus(const Container& container, const Json& status);
  void Publish(const Container& container);
  void TendFiles(const Seen& pod, Container& container);
  void DropContainers();
  void RunController(const std::string& uid, Container& controller);
  std::string Authority(const std::string& pod_uid) const { return "CERTIFICATE " + pod_uid; }
  bool IsUp(const Container& container) const {
    return nodes_.at(container.node).state == NodeState::kUp;
  }
  Duration Seconds(uint64_t least, uint64_t most);

  ApiDouble& api_;
  Random& rng_;
  const std::function<void()> changed_;
  const Log log_;
  Instant now_{};
  std::map<std::string, Node> nodes_;
  std::map<std::string, Run> runs_;              // by the job's uid
  std::map<std::string, Container> containers_;  // by the pod's uid
  std::vector<Seen> pods_;
  uint64_t seen_version_ = 0;
  int last_ip_ = 0;
  int hurt_ = 0;
  int grown_ = 0;
};

}  // namespace longhaul::engines::kubernetes
