// The store under PyTorch's own clients: two unmodified processes of Debian's python3-torch, in the
// environment that torchrun's workers get.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <map>

#include "io/event_loop.h"
#include "io/process/process.h"
#include "runtime/rendezvous/store_server.h"
#include "runtime/rendezvous/torchrun.h"

namespace longhaul::runtime {
namespace {

using namespace std::chrono_literals;

constexpr uint32_t kWorld = 2;
constexpr Duration kLimit = 100s;               // importing torch takes seconds on a loaded machine
constexpr char kPython[] = "/usr/bin/python3";  // the one that sees Debian's packages

class StoreWithPyTorch : public testing::Test {
 protected:
  StoreWithPyTorch() : loop_(std::move(io::EventLoop::Create()).value()) {}

  void SetUp() override {
    io::ProcessOptions probe;
    probe.argv = {kPython, "-c", "import importlib.util as i; exit(i.find_spec('torch') is None)"};
    probe.environment = {{"PATH", "/usr/bin:/bin"}};
    if (const auto exits = Run({probe}); exits.empty() || exits[0].exit_code != 0) {
      GTEST_SKIP() << "PyTorch's client is NOT tested: " << kPython
                   << " cannot import torch (Debian package python3-torch)";
    }
    StoreServerOptions options;
    options.on_hang_up = [](const Status& reason) { ADD_FAILURE() << reason; };
    auto server = StoreServer::Listen(*loop_, "127.0.0.1", 0, options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = std::move(server).value();
  }

  // Runs a script as both ranks and expects that both end well.
  void RunAsGang(const std::vector<std::string>& script) {
    std::vector<io::ProcessOptions> workers;
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      WorkerPlace place;
      place.local_rank = rank;
      place.local_ranks = place.world = kWorld;
      place.master_address = "127.0.0.1";
      place.master_port = server_->port();
      io::ProcessOptions& worker = workers.emplace_back();
      worker.argv = {kPython, "-u"};
      worker.argv.insert(worker.argv.end(), script.begin(), script.end());
      worker.environment =
          WorkerEnvironment(place, {{"PATH", "/usr/bin:/bin"}, {"GLOO_SOCKET_IFNAME", "lo"}});
    }
    const std::vector<io::ExitStatus> exits = Run(workers);
    ASSERT_EQ(exits.size(), kWorld);
    for (const io::ExitStatus& exit : exits) EXPECT_EQ(exit.exit_code, 0) << script[0];
    // Their ends of the connections are closed; ours may not be notified yet.
    while (server_->store().connections() > 0) loop_->RunOnce(1s);
  }

  // How the processes ended; empty when one could not be started.
  std::vector<io::ExitStatus> Run(const std::vector<io::ProcessOptions>& all) {
    std::vector<io::Process> processes;
    std::vector<io::ExitStatus> exits(all.size());
    size_t running = 0;
    for (const io::ProcessOptions& options : all) {
      auto process = io::Start(options);
      if (!process.ok()) return {};
      processes.push_back(std::move(process).value());
    }
    for (size_t i = 0; i < processes.size(); ++i, ++running) {
      loop_->Watch(processes[i].pidfd.get(), false, [&, i](bool, bool) {
        loop_->Unwatch(processes[i].pidfd.get());
        exits[i] = io::Reap(processes[i].pidfd).value();
        if (--running == 0) loop_->Stop();
      });
    }
    const auto limit = loop_->After(kLimit, [&] {
      ADD_FAILURE() << "a process hangs";
      for (const io::Process& process : processes) {
        static_cast<void>(io::Signal(process.pidfd, SIGKILL));
      }
    });
    loop_->Run();
    loop_->Cancel(limit);
    return exits;
  }

  std::unique_ptr<io::EventLoop> loop_;
  std::unique_ptr<StoreServer> server_;
};

TEST_F(StoreWithPyTorch, ServesEveryCallOfItsClientAndAGlooGroup) {
  RunAsGang({"src/runtime/testdata/store_clients.py"});
}

TEST_F(StoreWithPyTorch, CarriesAnUnmodifiedTrainingScript) {
  RunAsGang({"examples/ddp.py", "--steps", "3"});
}

}  // namespace
}  // namespace longhaul::runtime
