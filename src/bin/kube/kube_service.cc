#include "bin/kube/kube_service.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <optional>
#include <utility>

#include "base/text.h"
#include "engines/kubernetes/leader/leader_connection.h"
#include "io/clock.h"

namespace longhaul::bin {
namespace {

namespace kubernetes = engines::kubernetes;

// After SIGTERM or SIGINT the program waits at most this long for the replies to what it has sent.
constexpr Duration kDrainLimit = std::chrono::seconds(5);

// One process of the service, from its candidacy to its end.
class Process final : public kubernetes::LeaderSink {
 public:
  Process(io::EventLoop& loop, kubernetes::Client& client, const KubeServiceOptions& options,
          const MakeKubeService& make)
      : loop_(loop), client_(client), options_(options), make_(make) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, nullptr);
    signals_ = io::Fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    loop_.Watch(signals_.get(), false, [this](bool, bool) { OnSignal(); });
  }
  ~Process() override { loop_.Unwatch(signals_.get()); }

  // Without an election it works at once.
  Status Start(const std::string& namespace_name) {
    if (!options_.elects) {
      Begin();
      return {};
    }
    char host[256] = {};
    ::gethostname(host, sizeof host - 1);
    kubernetes::ElectionSettings settings;
    settings.identity = std::string(host) + "_" + std::to_string(::getpid());
    const std::string& wanted = options_.lease_namespace;
    ASSIGN_OR_RETURN(
        leader_,
        kubernetes::LeaderConnection::Create(
            loop_, client_, {wanted.empty() ? namespace_name : wanted, options_.lease_name},
            settings, static_cast<uint64_t>(ToNanoseconds(io::Now())), *this));
    return {};
  }
  // Why the loop was stopped; ok: it was asked to end.
  const Status& status() const { return status_; }

  void OnLeads() override {
    if (ends_at_) return;
    Log("this instance leads");
    Begin();
  }
  // What it has sent may still be carried out: the next leader finds it. It must send no more.
  void OnStops() override {
    if (ends_at_) return;
    status_ = Unavailable("the lease " + options_.lease_name +
                          " was lost; another instance leads, or the API server cannot be reached");
    loop_.Stop();
  }
  void OnTrouble(const Status& trouble) override { Log("the lease: " + trouble.message()); }

 private:
  void Begin() {
    service_ = make_(
        loop_, client_, [this] { return leader_ == nullptr || leader_->leads(); },
        [this](const std::string& line) { Log(line); });
  }
  void Log(const std::string& line) const {
    std::fprintf(stderr, "%s longhaul kube %s: %s\n",
                 (ToString(io::Now()).substr(0, 19) + "Z").c_str(), options_.command.c_str(),
                 Printable(line, 2'000).c_str());
  }

  void OnSignal() {
    signalfd_siginfo info{};
    if (::read(signals_.get(), &info, sizeof info) != sizeof info) return;
    if (ends_at_) return loop_.Stop();  // the second time at once
    Log("ending");
    if (service_) service_->Drain();
    ends_at_ = io::MonotonicNow() + kDrainLimit;
    Wait();
  }

  // Binds are answered before the lease is released.
  void Wait() {
    const bool late = io::MonotonicNow() >= *ends_at_;
    if (!late && service_ && !service_->idle()) {
      loop_.After(std::chrono::milliseconds(10), [this] { Wait(); });
    } else if (leader_ == nullptr || late) {
      loop_.Stop();
    } else {
      loop_.After(kDrainLimit, [this] { loop_.Stop(); });
      leader_->Release([this] { loop_.Stop(); });
    }
  }

  io::EventLoop& loop_;
  kubernetes::Client& client_;
  const KubeServiceOptions& options_;
  const MakeKubeService& make_;
  io::Fd signals_;
  Status status_;
  std::optional<Instant> ends_at_;
  std::unique_ptr<kubernetes::LeaderConnection> leader_;
  std::unique_ptr<KubeService> service_;
};

}  // namespace

void AddKubeServiceOptions(CLI::App& command, KubeServiceOptions& options) {
  AddKubeAccessOptions(command, options.access);
  command.add_flag("--leader-election,!--no-leader-election", options.elects,
                   "Of several instances only the holder of a Lease works (default)");
  command.add_option(
      "--lease-namespace", options.lease_namespace,
      "Namespace of the Lease " + options.lease_name + "; default: that of the account");
}

Status RunKubeService(const KubeServiceOptions& options, const MakeKubeService& make) {
  std::signal(SIGPIPE, SIG_IGN);
  ASSIGN_OR_RETURN(const std::unique_ptr<io::EventLoop> loop, io::EventLoop::Create());
  ASSIGN_OR_RETURN(const KubeConnection connection,
                   ConnectKube(*loop, options.access, options.connections));
  Process process(*loop, *connection.client, options, make);
  RETURN_IF_ERROR(process.Start(connection.namespace_name));
  loop->Run();
  return process.status();
}

}  // namespace longhaul::bin
