// How long a restart takes on the worker's side: from fork requests to the first finished step of
// all ranks. Starts the fork server of the same build's trainer, has it fork RANKS workers that
// serve their own store, and prints the time until the first step's line, several times.
//
//   longhaul_warm_bench CONFIG.json [RANKS]
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/check.h"
#include "io/clock.h"
#include "io/fd.h"
#include "io/net/socket.h"
#include "io/process/process.h"
#include "worker_api/fork_server.h"

namespace longhaul::trainer {
namespace {

pid_t StartForkServer(int fd) {
  const std::string program = *io::ProgramDirectory() + "/../bin/longhaul-trainer";
  const pid_t parent = fork();
  if (parent == 0) {
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    setenv("OMP_NUM_THREADS", "1", 1);
    CHECK(dup2(fd, 100) == 100);
    execl(program.c_str(), program.c_str(), "--fork-server", "100", nullptr);
    std::fprintf(stderr, "cannot start %s: %s; build the target longhaul-trainer\n",
                 program.c_str(), std::strerror(errno));
    _exit(1);
  }
  return parent;
}

pid_t Ask(const io::Fd& parent, const worker_api::WarmStart& start, int output) {
  const auto packet = worker_api::EncodeWarmRequest(start);
  CHECK(packet.ok());
  const int fds[] = {output, STDERR_FILENO};
  CHECK(io::SendMessage(parent, *packet, fds).ok());
  pollfd waiting{parent.get(), POLLIN, 0};
  CHECK(poll(&waiting, 1, 60'000) == 1);
  const auto answer = io::ReceiveMessage(parent, 4096);
  CHECK(answer.ok() && answer->has_value() &&
        (**answer).bytes.size() == sizeof(worker_api::WarmReply));
  worker_api::WarmReply reply;
  std::memcpy(&reply, (**answer).bytes.data(), sizeof(reply));
  CHECK(reply.pid > 0) << "error " << reply.error_number;
  return static_cast<pid_t>(reply.pid);
}

void Measure(const io::Fd& parent, const std::string& config, int ranks) {
  const uint16_t port = io::ListenTcp("127.0.0.1", 0)->port;
  int ends[2];
  CHECK(pipe(ends) == 0);
  const io::Fd lines(ends[0]);
  io::Fd output(ends[1]);
  const Instant begin = io::MonotonicNow();
  std::vector<pid_t> workers;
  for (int rank = 0; rank < ranks; ++rank) {
    workers.push_back(Ask(parent,
                          {static_cast<uint64_t>(rank),
                           {{"RANK", std::to_string(rank)},
                            {"WORLD_SIZE", std::to_string(ranks)},
                            {"MASTER_ADDR", "127.0.0.1"},
                            {"MASTER_PORT", std::to_string(port)},
                            {"LONGHAUL_TRAINER_CONFIG", config}},
                           {}},
                          output.get()));
  }
  const Duration forked = io::MonotonicNow() - begin;
  char byte = 0;
  CHECK(read(lines.get(), &byte, 1) == 1);
  std::printf("%d ranks forked after %s, first step done after %s\n", ranks,
              ToString(forked).c_str(), ToString(io::MonotonicNow() - begin).c_str());
  for (const pid_t worker : workers) kill(worker, SIGKILL);
  for (const pid_t worker : workers) waitpid(worker, nullptr, 0);
}

}  // namespace
}  // namespace longhaul::trainer

int main(int argc, char** argv) {
  using namespace longhaul;
  if (argc < 2) return std::fprintf(stderr, "usage: %s CONFIG.json [RANKS]\n", argv[0]), 2;
  const int ranks = argc > 2 ? std::atoi(argv[2]) : 4;
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  auto pair = io::UnixPair();
  CHECK(pair.ok());
  const pid_t parent = trainer::StartForkServer(pair->second.get());
  pair->second.Reset();
  for (int i = 0; i < 5; ++i) trainer::Measure(pair->first, argv[1], ranks);
  pair->first.Reset();
  waitpid(parent, nullptr, 0);
  return 0;
}
