// A candidate of a leader election at a real API server:
//   kubernetes_leader KUBECONFIG LEASE IDENTITY LEASE_S RENEW_MS RETRY_MS
//
// The lease is in the namespace "default". Prints lines that begin with the time of the monotonic
// clock, which processes of one machine share: "leads", "until TIME" for each renewal, "stops",
// "trouble MESSAGE". SIGTERM releases the lease and ends the program; the last line is "released".
#include <csignal>
#include <cstdio>
#include <string>

#include "base/text.h"
#include "engines/kubernetes/client/client.h"
#include "engines/kubernetes/leader/leader_connection.h"

using namespace longhaul;
using namespace longhaul::engines::kubernetes;

namespace {

volatile std::sig_atomic_t g_ends = 0;

double SecondsOf(Instant at) { return ToSeconds(at.time_since_epoch()); }

void Print(const std::string& text) {
  std::printf("%.6f %s\n", SecondsOf(io::MonotonicNow()), text.c_str());
  std::fflush(stdout);
}

class Printer final : public LeaderSink {
 public:
  void OnLeads() override { Print("leads"); }
  void OnStops() override { Print("stops"); }
  void OnTrouble(const Status& status) override { Print("trouble " + status.message()); }
};

Status Run(const std::string& kubeconfig, const std::string& lease,
           const ElectionSettings& settings) {
  ASSIGN_OR_RETURN(const std::unique_ptr<io::EventLoop> loop, io::EventLoop::Create());
  ASSIGN_OR_RETURN(Access access, KubeconfigAccess(*loop, kubeconfig, ""));
  ASSIGN_OR_RETURN(const std::unique_ptr<Client> client,
                   Client::Create(*loop, std::move(access), {}));
  Printer printer;
  const uint64_t seed = static_cast<uint64_t>(ToNanoseconds(io::Now()));
  ASSIGN_OR_RETURN(
      const std::unique_ptr<LeaderConnection> candidate,
      LeaderConnection::Create(*loop, *client, {"default", lease}, settings, seed, printer));
  bool releasing = false;
  bool released = false;
  std::optional<Instant> until;
  while (!released) {
    // A signal ends the wait.
    loop->RunOnce(std::chrono::milliseconds(50));
    if (candidate->election().leads_until() != until) {
      until = candidate->election().leads_until();
      if (until) Print("until " + std::to_string(SecondsOf(*until)));
    }
    if (g_ends == 0 || releasing) continue;
    releasing = true;
    candidate->Release([&released] { released = true; });
  }
  Print("released");
  return Status();
}

}  // namespace

int main(int argc, char** argv) {
  const Result<int64_t> lease_s = ParseInt64(argc == 7 ? argv[4] : "");
  const Result<int64_t> renew_ms = ParseInt64(argc == 7 ? argv[5] : "");
  const Result<int64_t> retry_ms = ParseInt64(argc == 7 ? argv[6] : "");
  if (!lease_s.ok() || !renew_ms.ok() || !retry_ms.ok() || *lease_s > 3'600) {
    std::fprintf(stderr,
                 "usage: kubernetes_leader KUBECONFIG LEASE IDENTITY LEASE_S RENEW_MS RETRY_MS\n");
    return 2;
  }
  std::signal(SIGTERM, [](int) { g_ends = 1; });
  ElectionSettings settings;
  settings.identity = argv[3];
  settings.lease_duration = std::chrono::seconds(*lease_s);
  settings.renew_deadline = std::chrono::milliseconds(*renew_ms);
  settings.retry_period = std::chrono::milliseconds(*retry_ms);
  settings.request_limit = settings.renew_deadline / 3;
  const Status status = Run(argv[1], argv[2], settings);
  if (status.ok()) return 0;
  std::fprintf(stderr, "kubernetes_leader: %s\n", ToString(status).c_str());
  return 1;
}
